"""Statistics of recorded tensors on CPU and GPU.

cpu             Moments of tensors in main memory, in chunks that stay in the cache
cpu_groups      Statistics of each unit and each sample in main memory, for the usual case: float32 side by side
device          Moments of tensors on a GPU: queued where the tensor is, read by the host once, at the end of the
                step
inputs          Any tensor as plain numbers in memory: what statistics may be taken of, whatever it is wrapped in
moments         What is computed exactly of each tensor: the table in which all ways of computing it meet
per_unit        Statistics of each unit and of each sample of a tensor, for the level "full"; on any device,
                without waiting
quantiles       At most 1,024 values of each tensor, and from them the quantiles and the histogram of all tensors
                at once
scratch         Memory to work in, kept from tensor to tensor: fresh memory costs more than the work that is done
                in it
spectral        The largest singular value of a matrix, without random numbers and without waiting for a device
summary         Statistics of all tensors of one recorded step: a row for each, read once at the end
triton_kernels  One pass over a tensor on a GPU that takes all its moments and its samples
"""
