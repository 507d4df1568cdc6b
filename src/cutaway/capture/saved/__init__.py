"""Decides which values of a trace are saved, and where.

for_backward  `trace.retained`: the tensors that autograd saves for the backward pass
memory_guard  Raises `MemoryLimitError` before saved values use up the memory
save_policy   Selects the values to save: all, by site, label, op or predicate
value_folder  Saves values to disk, one `.safetensors` file each
"""
