"""Which values of a trace are saved, and where.

for_backward  `trace.retained()`: what autograd keeps alive, read off the autograd graph of a trace
memory_guard  Stops saving before the memory is gone
save_policy   Which values are kept, where, and in what form
value_folder  Values on disk: one `.safetensors` file each, readable with stock tools
"""
