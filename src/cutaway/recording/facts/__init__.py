"""Facts of a recorded step that are no tensors: how it was trained, not what was computed.

collector       Collects the facts of one step: optimizer groups, modes, backward calls, clipping
losses          Tells which logged tensors are losses: those that `backward()` was called on, and their terms
tables          Writes tables that rarely change (groups, modes) once, as documents of the run
training_calls  Notifies every recorder of `GradScaler.step` and of gradient clipping
"""
