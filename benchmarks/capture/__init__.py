"""Cost of tracing, validation, edits and replay.

edits       Edits of other modules, and a replay beside a full run
forward     A traced forward pass beside a plain one and beside torchlens
gpu         Tracing on a GPU; a script of its own
models      The models that are traced, with seeded weights
validation  Proving a trace: time and memory
"""
