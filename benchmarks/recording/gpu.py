"""What recording costs on a GPU: `python -m benchmarks.recording.gpu`, with torch, transformers, NumPy and msgpack.

A training step of a model of GPT-2-medium's size in bfloat16, 8 × 1,024 tokens, by the wall until the GPU is done; then
50 steps of GPT-2-small's size, of which one is recorded. `--cpu --small` tries the script out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cutaway  # noqa: E402
from benchmarks.capture.gpu import n_syncs  # noqa: E402
from benchmarks.measure import Paired, Run, paired  # noqa: E402
from cutaway.recording.statistics import device as on_device  # noqa: E402

Step = Callable[[], Any]
PLAIN, ATTACHED, CORE, UPDATES = "plain", "attached, not recording", "core", "core, updates as well"
OUTPUTS, NO_TRITON = "core, module outputs alone", "the same, without Triton"
FULL, NAIVE = "full", "naive, .item()"
FLIGHT = "flight recorder"
OPTIONS: dict[str, dict[str, Any]] = {
    ATTACHED: {"every": [0]},
    CORE: {"every": 1, "updates": False},
    UPDATES: {"every": 1},
    NO_TRITON: {"every": 1, "updates": False, "gradients": False, "parameters": False},
    FULL: {"every": 1, "statistics": "full", "updates": False},
    OUTPUTS: {"every": 1, "updates": False, "gradients": False, "parameters": False},
    FLIGHT: {"every": None, "flight": True},
}
AIMS = {ATTACHED: 1.01, OUTPUTS: 1.1, UPDATES: 1.25, FULL: 2.0, NO_TRITON: 1.25, FLIGHT: 1.15}
OVERALL_AIM = 1.01
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy")


@dataclass(frozen=True, slots=True)
class Row:
    """One variant."""

    variant: str
    wall_ms: float
    ratio: float
    low: float
    high: float
    """The middle half of the ratios."""
    cpu_ms: float
    """Of the thread that trains."""
    n_waits: int | None
    """How often the step waits for the GPU, as the profiler sees it; None without a GPU."""
    n_warned: int | None
    """The same, as torch's own check sees it."""
    peak_mb: float | None


class Training:
    """The model, its optimizer and one batch."""

    def __init__(self, device: str, sizes: dict[str, int], shape: tuple[int, int]) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.manual_seed(0)
        self.device = device
        self.model = GPT2LMHeadModel(GPT2Config(**sizes, use_cache=False)).to(device, torch.bfloat16).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        self.ids = torch.randint(50_257, shape, device=device)

    def step(self) -> Tensor:
        loss: Tensor = self.model(self.ids, labels=self.ids).loss
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def recorded(self, recorder: Any) -> Step:
        def step() -> None:
            with recorder.step():
                loss = self.step()
                recorder.log(loss=loss)

        return step

    def naive(self) -> None:
        """Six numbers of each tensor, fetched one by one: outputs, parameters and the gradients of both."""
        handles: list[Any] = []

        def left(module: nn.Module, args: Any, result: Any) -> None:
            if isinstance(result, Tensor):
                _fetched(result)
                if result.requires_grad:
                    handles.append(result.register_hook(_fetched))  # type: ignore[no-untyped-call]

        handles.append(torch_module.register_module_forward_hook(left))
        try:
            loss = self.model(self.ids, labels=self.ids).loss
            loss.backward()
            for parameter in self.model.parameters():
                _fetched(parameter)
                if parameter.grad is not None:
                    _fetched(parameter.grad)
            self.optimizer.step()
            self.optimizer.zero_grad()
        finally:
            for handle in handles:
                handle.remove()


@torch.no_grad()
def _fetched(tensor: Tensor) -> None:
    wide = tensor.float()
    for number in (wide.mean(), wide.abs().mean(), wide.std(), wide.norm(), wide.min(), wide.max()):
        number.item()


@contextmanager
def without_triton() -> Iterator[None]:
    """Inside, statistics are taken by torch alone."""
    before = set(on_device._FAILED)
    on_device._FAILED.add("triton")
    try:
        yield
    finally:
        on_device._FAILED.clear()
        on_device._FAILED.update(before)


def by_wall(work: Step, device: str, after: Step = lambda: None) -> Run:
    """Seconds until the GPU is done; what comes after does not count."""

    def run() -> float:
        _wait(device)
        started = perf_counter()
        work()
        _wait(device)
        spent = perf_counter() - started
        after()
        return spent

    return run


def steps(training: Training, folder: Path) -> tuple[dict[str, Step], dict[str, Any]]:
    """Every variant as one step, and the recorders behind them."""
    recorders = {
        name: cutaway.record(folder / str(number), training.model, **options)
        for number, (name, options) in enumerate(OPTIONS.items())
    }
    found: dict[str, Step] = {PLAIN: training.step}
    found |= {name: training.recorded(recorder) for name, recorder in recorders.items()}
    plainly = found[NO_TRITON]

    def no_triton() -> None:
        with without_triton():
            plainly()

    found |= {NO_TRITON: no_triton, NAIVE: training.naive}
    return found, recorders


def measured(training: Training, folder: Path, n_pairs: int) -> tuple[list[Row], dict[str, str]]:
    """All variants beside a plain step, and what else is to be known."""
    works, recorders = steps(training, folder)
    device = training.device
    for work in works.values():  # the first recorded step is traced, and kernels are compiled
        work()
        work()
    runs = {
        name: by_wall(work, device, recorders[name].flush if name in recorders else lambda: None)
        for name, work in works.items()
    }
    found = paired(runs[PLAIN], runs, n_pairs=n_pairs, n_warm=1, settle=False)
    rows = [_row(name, work, found[name], device) for name, work in works.items()]
    notes = {"Triton": "failed, so all of this is torch alone" if on_device._FAILED else "used, where there is a GPU"}
    for recorder in recorders.values():
        recorder.close()
    for name, recorder in recorders.items():
        run: Any = cutaway.load(recorder.path)
        notes[name] = f"{len(run.at(-1).rows) if len(run) else 0} tensors, {len(run)} steps"
        if run.problems:
            notes[name] += f"; {run.problems}"
    return rows, notes


def _row(name: str, work: Step, value: Paired, device: str) -> Row:
    cpu = []
    for _ in range(5):
        _wait(device)
        started = thread_time()
        work()
        cpu.append(thread_time() - started)
    waits: tuple[int | None, int | None, float | None] = (None, None, None)
    if device != "cpu":
        waits = (profiled_waits(work), n_syncs(work), peak_mb(work))
    return Row(name, value.value * 1e3, value.ratio, value.low, value.high, median(cpu) * 1e3, *waits)


def profiled_waits(work: Step) -> int:
    """Calls of CUDA that wait, from start to end of the work."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        work()
    return sum(event.count for event in found.key_averages() if event.key in WAITS)


def peak_mb(work: Step) -> float:
    """The most memory of the GPU in use meanwhile."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 1e6


def overall(training: Training, folder: Path, *, n_rounds: int, n_steps: int) -> Paired:
    """Rounds of steps, of which one is recorded, beside rounds of plain steps; tracing the first one lies before."""
    with cutaway.record(folder / "overall", training.model, every=n_steps) as recorder:
        step = training.recorded(recorder)

        def rounds(one: Step) -> Run:
            return by_wall(lambda: [one() for _ in range(n_steps)], training.device)

        return paired(rounds(training.step), {"it": rounds(step)}, n_pairs=n_rounds, n_warm=1, settle=False)["it"]


def text(rows: list[Row]) -> str:
    """Aligned columns; waits as the profiler, and as torch counts them."""
    lines = [f"{'variant':28}{'wall ms':>10}{'ratio':>8}{'half within':>14}{'CPU ms':>9}{'waits':>12}{'peak MB':>10}"]
    for row in rows:
        waits = "" if row.n_waits is None else f"{row.n_waits} / {row.n_warned}"
        peak = "" if row.peak_mb is None else f"{row.peak_mb:.0f}"
        half = f"{row.low:.2f}–{row.high:.2f}"
        lines.append(
            f"{row.variant:28}{row.wall_ms:10.2f}{row.ratio:8.3f}{half:>14}{row.cpu_ms:9.1f}{waits:>12}{peak:>10}"
        )
    return "\n".join(lines)


def judged(rows: list[Row], whole: Paired) -> list[str]:
    """The aims; meaningful on a GPU and at full size alone."""
    by_name = {row.variant: row for row in rows}
    lines = [
        f"{name}: {by_name[name].ratio:.3f} ×, aim ≤ {aim}: {_verdict(by_name[name].ratio <= aim)}"
        for name, aim in AIMS.items()
    ]
    plain = by_name[PLAIN].n_waits or 0
    for name in (CORE, NO_TRITON, UPDATES, FULL):
        added = (by_name[name].n_waits or 0) - plain
        lines.append(f"{name}: {added} waits for the GPU added, aim 1: {_verdict(added <= 1)}")
    added = (by_name[FLIGHT].n_waits or 0) - plain
    lines.append(f"{FLIGHT}: {added} waits for the GPU added, aim 0: {_verdict(added <= 0)}")
    lines.append(
        f"50 steps, one recorded: {whole.ratio:.3f} ×, aim ≤ {OVERALL_AIM}: {_verdict(whole.ratio <= OVERALL_AIM)}"
    )
    return lines


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure recording on a GPU.")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU, to try the script out")
    parser.add_argument("--small", action="store_true", help="tiny models")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=6, help="pairs of 50 steps")
    parser.add_argument("--json", type=Path, default=ROOT / ".build" / "gpu_recording.json")
    options = parser.parse_args()
    device = "cpu" if options.cpu else "cuda"
    if options.cpu:
        torch.set_num_threads(1)
    tiny = {"n_layer": 2, "n_embd": 64, "n_head": 4}
    medium, small = ({"n_layer": 24, "n_embd": 1024, "n_head": 16}, {}) if not options.small else (tiny, tiny)
    shape = (2, 32) if options.small else (8, 1024)
    with TemporaryDirectory(prefix="cutaway-bench-") as folder:
        rows, notes = measured(Training(device, medium, shape), Path(folder), options.pairs)
        _print_head(options)
        print(text(rows), flush=True)
        if not options.cpu:
            torch.cuda.empty_cache()
        n_steps = 5 if options.small else 50
        training = Training(device, small, shape)
        whole = overall(training, Path(folder), n_rounds=options.rounds, n_steps=n_steps)
    print(f"{n_steps} steps of GPT-2-small's size, one recorded: {whole.value:.2f} s, plain {whole.plain:.2f} s,")
    print(f"  {whole.ratio:.3f} ×, half within {whole.low:.3f}–{whole.high:.3f}")
    print("\n".join(f"{name}: {note}" for name, note in notes.items()))
    is_trial = options.cpu or options.small
    print("no aim is judged: a trial of the script" if is_trial else "\n".join(judged(rows, whole)))
    content = {
        "torch": torch.__version__,
        "rows": [asdict(row) for row in rows],
        "overall": asdict(whole),
        "notes": notes,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(content, indent=1) + "\n")


def _print_head(options: argparse.Namespace) -> None:
    name = "CPU" if options.cpu else torch.cuda.get_device_name()
    size = "tiny" if options.small else "GPT-2-medium size"
    print(f"{name}, torch {torch.__version__}, {size}, bfloat16, one training step")


if __name__ == "__main__":
    main()
