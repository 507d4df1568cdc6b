"""A live model: its modules and their state, saved and restored around additional runs.

attributes  What a traced run found in the attributes of modules, noted without keeping anything alive
eval_mode   Context managers for runs that nobody asked for: afterwards the model and the random generators are as
            before
inventory   What the model is made of: modules, parameters and buffers, with all their addresses
rng_state   What a call of torch depends on besides its arguments: random generators, autocast, grad mode
state       Snapshot of all that the modules of a model hold, so that the effects of a run can be undone
tree        Walks over the modules, parameters and buffers of a model, and their addresses
"""
