"""What tracing costs on a GPU: `python -m benchmarks.capture.gpu`, where torch and transformers are.

A model of GPT-2-medium's size in bfloat16, 8 × 1,024 tokens. The forward is queued far ahead of the GPU, so
what costs is time on the CPU, and any wait for the GPU: both are looked at. `--cpu --small` tries the script out.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.capture.forward import metadata, no_op, traced  # noqa: E402
from benchmarks.capture.models import Example  # noqa: E402
from benchmarks.measure import Run, paired  # noqa: E402

Work = Callable[[], Any]
AIM = 2.0


@dataclass(frozen=True, slots=True)
class Row:
    """One variant, with and without the GPU's own clock."""

    variant: str
    grad: bool
    wall_ms: float
    wall_ratio: float
    event_ms: float
    event_ratio: float
    n_syncs: int | None
    """Waits for the GPU in one run, as torch counts them; None without a GPU."""
    raises: bool | None
    """Whether torch, told to allow no wait, stopped the run; None without a GPU."""


def example(device: str, *, small: bool) -> Example:
    """The model and one batch."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    shape = (2, 32) if small else (8, 1024)
    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 4} if small else {"n_layer": 24, "n_embd": 1024, "n_head": 16}
    model = GPT2LMHeadModel(GPT2Config(**sizes, use_cache=False)).eval()
    ids = torch.randint(50_257, shape, device=device)
    return Example(model.to(device, torch.bfloat16), (ids,))


def by_wall(work: Work, device: str) -> Run:
    """Seconds until the GPU is done."""

    def run() -> float:
        _wait(device)
        started = perf_counter()
        result = work()
        _wait(device)
        spent = perf_counter() - started
        del result
        return spent

    return run


def by_events(work: Work, device: str) -> Run:
    """Seconds between two marks in the GPU's queue; on the CPU the same as by wall."""
    if device == "cpu":
        return by_wall(work, device)

    def run() -> float:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        _wait(device)
        first.record()
        result = work()
        last.record()
        _wait(device)
        del result
        return first.elapsed_time(last) * 1e-3

    return run


def n_syncs(work: Work) -> int:
    """How often the work waits for the GPU."""
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(warning.message) for warning in caught)


def raises(work: Work) -> bool:
    """Whether the work fails where no wait is allowed; unlike the count, blind to errors that are caught inside."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        work()
    except RuntimeError as error:
        if "synchronizing CUDA operation" not in str(error):
            raise
        return True
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return False


def measured(model: Example, device: str, *, grad: bool, n_pairs: int) -> list[Row]:
    """All variants beside a plain forward."""
    works: dict[str, Work] = {
        "plain": model.run,
        "no-op function mode": lambda: no_op(model),
        "cutaway.trace, save all": lambda: traced(model),
        "cutaway.watch, save=None": lambda: metadata(model),
    }
    with torch.set_grad_enabled(grad):
        by = []
        for clock in (by_wall, by_events):
            runs = {name: clock(work, device) for name, work in works.items()}
            by.append(paired(runs["plain"], runs, n_pairs=n_pairs, n_warm=3))
        waits = {
            name: (n_syncs(work), raises(work)) if device != "cpu" else (None, None) for name, work in works.items()
        }
    wall, events = by
    return [
        Row(
            name,
            grad,
            wall[name].value * 1e3,
            wall[name].ratio,
            events[name].value * 1e3,
            events[name].ratio,
            *waits[name],
        )
        for name in works
    ]


def text(rows: list[Row]) -> str:
    """Aligned columns."""
    names = (
        f"{'variant':26}{'grad':>6}",
        f"{'wall ms':>10}{'ratio':>8}",
        f"{'event ms':>10}{'ratio':>8}",
        f"{'waits':>7}",
    )
    lines = ["".join(names) + "  with waiting forbidden"]
    for row in rows:
        waits = f"{row.n_syncs:7}  {'raises' if row.raises else 'runs'}" if row.n_syncs is not None else "  no GPU"
        lines.append(
            f"{row.variant:26}{'on' if row.grad else 'off':>6}{row.wall_ms:10.2f}{row.wall_ratio:8.2f}"
            f"{row.event_ms:10.2f}{row.event_ratio:8.2f}{waits}"
        )
    return "\n".join(lines)


def judged(rows: list[Row]) -> list[str]:
    """The aim, and whether a wait was added; meaningful on a GPU and at full size alone."""
    plain = {row.grad: row for row in rows if row.variant == "plain"}
    ours = [row for row in rows if row.variant.startswith("cutaway")]
    worst = max(row.wall_ratio for row in ours if "save all" in row.variant)
    added = max((row.n_syncs or 0) - (plain[row.grad].n_syncs or 0) for row in ours)
    newly = any(row.raises and not plain[row.grad].raises for row in ours)
    return [
        f"traced forward {worst:.2f} × plain, aim ≤ {AIM}: {'met' if worst <= AIM else 'missed'}",
        f"waits for the GPU added: {added}, aim 0: {'met' if added <= 0 and not newly else 'missed'}",
    ]


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure tracing on a GPU.")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU, to try the script out")
    parser.add_argument("--small", action="store_true", help="a tiny model")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--json", type=Path, default=ROOT / ".build" / "gpu.json")
    options = parser.parse_args()
    device = "cpu" if options.cpu else "cuda"
    if options.cpu:
        torch.set_num_threads(1)
    model = example(device, small=options.small)
    rows = [row for grad in (False, True) for row in measured(model, device, grad=grad, n_pairs=options.pairs)]
    name = "CPU" if options.cpu else torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}, {'tiny' if options.small else 'GPT-2-medium size'}, bfloat16")
    print(text(rows))
    print(
        "\n".join(judged(rows)) if not options.cpu and not options.small else "no aim is judged: a trial of the script"
    )
    content = {
        "device": name,
        "torch": torch.__version__,
        "small": options.small,
        "rows": [asdict(row) for row in rows],
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content))


if __name__ == "__main__":
    main()
