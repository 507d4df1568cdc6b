"""Statistics of recorded tensors on CPU and GPU.

cpu             Moments of CPU tensors, in chunks that fit into the cache
cpu_groups      Fast path for statistics per unit and per sample: contiguous float32 on the CPU
device          Moments of GPU tensors: kernels queued asynchronously, copied to the host once per step
inputs          Unwraps any tensor (DTensor, sparse, nested, quantized, …) to plain strided values
moments         The moments of a tensor, and the table that all backends fill
per_unit        Statistics per unit and per sample for the level "full", on any device, without waiting
quantiles       Quantiles, histogram and batch_std from a sample of at most 1,024 values per tensor
scratch         Reusable scratch buffers per thread: allocating them costs more than the work
spectral        The spectral norm of a matrix by Golub–Kahan–Lanczos, deterministic and without waiting
summary         The statistics of all tensors of a recorded step: one row each, read once at the end
triton_kernels  Triton kernel: all moments and samples of a tensor in one pass
"""
