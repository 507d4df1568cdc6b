"""Live tensors: shared memory, copies, raw bytes.

aliasing        Which tensors share memory, and whether a write to one changes another
copies          Copies of the tensors that a model holds, and whether a run has changed them
raw_bytes       From a torch tensor to its plain bytes
written_memory  What a piece of memory holds after several tensors were written into it
"""
