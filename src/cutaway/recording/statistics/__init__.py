"""Statistics of recorded tensors on CPU and GPU.

cpu               Moments of CPU tensors, in chunks that fit into the cache
cpu_groups        Fast path for statistics per unit and per sample: contiguous float32 on the CPU
device            GPU tensors: gathered, computed by few launches without waiting, copied to the host once per step
device_quantiles  Quantiles, histogram and the sampled indices on a device
device_results    Inputs and results of the statistics of GPU tensors
device_torch      Statistics of GPU tensors with torch alone, where Triton is not available
held_tensors      Tensors of a device that wait for a common launch, by reference or as copies
inputs            Unwraps any tensor (DTensor, sparse, nested, quantized, …) to plain strided values
moments           The moments of a tensor, and the table that all backends fill
per_unit          Statistics per unit and per sample for the level "full", on any device, without waiting
quantiles         Quantiles, histogram and batch_std from a sample of at most 1,024 values per tensor
scratch           Reusable scratch buffers per thread: allocating them costs more than the work
spectral          The spectral norm of a matrix by Golub–Kahan–Lanczos, deterministic and without waiting
stable_sites      Which outputs and gradients nothing overwrites before their statistics are computed
summary           The statistics of all tensors of a recorded step: one row each, read once at the end
triton_kernels    Triton kernels: statistics of many tensors in one launch
triton_launch     Launches the Triton kernels for many tensors at once: tables and results
"""
