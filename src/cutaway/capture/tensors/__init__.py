"""Live tensors: shared memory, copies, raw bytes.

aliasing        Tracks which tensors share memory, and whether a write to one changes another
conversion      Converts arrays and numbers to tensors, whatever the default device is
copies          Copies a model's tensors and restores those that a run has changed
nonfinite       Counts NaN and Inf in a tensor
raw_bytes       Converts a torch tensor to raw bytes
written_memory  Reconstructs memory that several tensors were written to
"""
