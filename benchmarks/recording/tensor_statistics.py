"""Cost of the statistics of one tensor: `python -m benchmarks.recording.tensor_statistics`, with torch installed.

Prints microseconds a tensor, by size and kind. On the CPU it is the time of this thread, torch on one thread, and the
best of many rounds: `add` is what the training step pays at once, `read` its share of `matrix()` at the end. With
a GPU the same there: `queue` is what the CPU spends in `add` (nothing waits), `gpu` what the device is busy with,
`read` the share of `matrix()` with its one wait, and `plain` a single `abs().mean()` of torch beside it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from cutaway.recording.statistics import device as on_device  # noqa: E402
from cutaway.recording.statistics.summary import Level, Summary  # noqa: E402

Make = Callable[[int, torch.device], Tensor]
UNITS = 128


def floats(n: int, device: torch.device) -> Tensor:
    return torch.sin(torch.arange(n, device=device, dtype=torch.float64) * 0.7).float()


KINDS: dict[str, Make] = {
    "float32": floats,
    "float32, none negative": lambda n, device: floats(n, device).relu_(),
    "float32, mean 10 × std": lambda n, device: floats(n, device) + 7,
    "float32, transposed": lambda n, device: floats(n, device).view(-1, min(n, UNITS)).T,
    "float32, a slice": lambda n, device: floats(3 * n, device).view(-1, 3 * min(n, UNITS))[:, : min(n, UNITS)],
    "bfloat16": lambda n, device: floats(n, device).bfloat16(),
    "float64": lambda n, device: floats(n, device).double(),
    "int64": lambda n, device: torch.arange(n, device=device),
}
CPU_SIZES = (128, 4096, 16_384, 131_072, 1_048_576)
GPU_SIZES = (1024, 131_072, 1_048_576, 8_388_608)


def on_cpu(tensor: Tensor, level: Level, n_rounds: int) -> tuple[float, float]:
    """Seconds a tensor in `add` and in `matrix`."""
    n_tensors = max(4, min(200, 2_000_000 // tensor.numel()))
    adding, reading = [], []
    for _ in range(n_rounds):
        summary = Summary(level)
        started = thread_time()
        for _ in range(n_tensors):
            summary.add(tensor, batch_dim=0)
        added = thread_time()
        summary.matrix()
        adding.append((added - started) / n_tensors)
        reading.append((thread_time() - added) / n_tensors)
    return min(adding), min(reading)


def on_gpu(tensor: Tensor, level: Level, n_rounds: int, n_tensors: int = 200) -> tuple[float, float, float, float]:
    """Seconds a tensor: queueing, the GPU's own, reading, and torch's `abs().mean()` on the GPU."""
    queueing, busy, reading, plain = [], [], [], []
    for _ in range(n_rounds):
        summary = Summary(level)
        summary.add(tensor, batch_dim=0)
        torch.cuda.synchronize()
        started = perf_counter()
        for _ in range(n_tensors):
            summary.add(tensor, batch_dim=0)
        queueing.append((perf_counter() - started) / n_tensors)
        torch.cuda.synchronize()
        started = perf_counter()
        summary.matrix()
        reading.append((perf_counter() - started) / n_tensors)
        again = Summary(level)
        busy.append(gpu_seconds(lambda: again.add(tensor, batch_dim=0)))
        plain.append(gpu_seconds(lambda: tensor.abs().float().mean()))
    return min(queueing), min(busy), min(reading), min(plain)


def gpu_seconds(work: Callable[[], object], n_times: int = 20) -> float:
    """What the GPU is busy with, once: behind a long sleep, so that it never waits for the CPU.

    Few times, because about a thousand launches fit into its queue.
    """
    work()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(60_000_000)  # cycles
    start.record()
    for _ in range(n_times):
        work()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) / n_times / 1e3


def cells(seconds: tuple[float, ...]) -> str:
    return "  ".join(f"{each * 1e6:9.1f}" for each in seconds)


def measure_cpu(n_rounds: int) -> None:
    torch.set_num_threads(1)
    print(f"CPU, one thread, µs a tensor; torch {torch.__version__}")
    print(f"{'kind':26} {'level':5} {'values':>10}  {'add':>9}  {'read':>9}")
    for kind, make in KINDS.items():
        for level in ("core", "full") if kind == "float32" else ("core",):
            for n in CPU_SIZES:
                tensor = make(n, torch.device("cpu"))
                tensor = tensor.view(-1, UNITS) if level == "full" else tensor
                print(f"{kind:26} {level:5} {n:10,}  {cells(on_cpu(tensor, level, n_rounds))}", flush=True)


def measure_gpu(n_rounds: int) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    print(f"\n{torch.cuda.get_device_name()}, µs a tensor, 200 tensors; torch {torch.__version__}")
    for way in ("Triton", "torch alone"):
        on_device._FAILED.clear()
        if way == "torch alone":
            on_device._FAILED.add("triton")
        elif on_device._kernels() is None:
            print("no Triton here")
            continue
        print(f"{way}\n{'kind':26} {'level':5} {'values':>10}  {'queue':>9}  {'gpu':>9}  {'read':>9}  {'plain':>9}")
        for kind, make in KINDS.items():
            for level in ("core", "full") if kind == "bfloat16" else ("core",):
                for n in GPU_SIZES:
                    tensor = make(n, device)
                    tensor = tensor.view(-1, UNITS) if level == "full" else tensor
                    print(f"{kind:26} {level:5} {n:10,}  {cells(on_gpu(tensor, level, n_rounds))}", flush=True)
        if way == "Triton" and on_device._FAILED:
            print("Triton failed (see the warning above): these were torch alone")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="the best of so many counts")
    parser.add_argument("--only", choices=["cpu", "gpu"], help="measure on one of them only")
    options = parser.parse_args()
    if options.only != "gpu":
        measure_cpu(options.rounds)
    if options.only != "cpu" and torch.cuda.is_available():
        measure_gpu(max(3, options.rounds // 3))


if __name__ == "__main__":
    main()
