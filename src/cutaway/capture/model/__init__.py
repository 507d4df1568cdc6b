"""Modules, state and RNG of a live model, and how to restore them after additional runs.

attributes  Lightweight snapshot of module attributes before a traced run, with weak references only
eval_mode   Context managers for additional runs: they restore the model and all random generators afterwards
forward     Replaces the `forward` of one module instance for the length of a block
inventory   Modules, parameters and buffers of the model with all their addresses
rng_state   Saves and restores random generators, autocast and grad mode
sharding    Models whose parameters are spread over several processes: DTensors, FSDP2
state       Full snapshot of a model's state, to undo the effects of a run
tree        Walks the modules, parameters and buffers of a model, and their addresses
"""
