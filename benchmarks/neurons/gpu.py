"""On a GPU: `collect` of tokens beside a plain batched forward that brings the same numbers to an npy file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

import cutaway

_N, _LENGTH, _AT_ONCE, _PAIRS = 2048, 64, 64, 5


def main() -> None:
    """Print seconds of both, in pairs; and what a linear probe takes on the device."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig()).cuda().eval()
    ids = torch.randint(1000, 20000, (_N, _LENGTH))
    sites = [f"encoder.layer.{i}" for i in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _plain(model, ids, place / "warm.npy")
        ratios, seconds = [], []
        for pair in range(_PAIRS):
            start = perf_counter()
            acts = cutaway.collect(
                model, {"input_ids": ids}, at=sites, rows="positions", path=place / f"{pair}", batch_size=_AT_ONCE,
                dtype="float16",
            )  # fmt: skip
            ours = perf_counter() - start
            start = perf_counter()
            rows = _plain(model, ids, place / f"{pair}.npy")
            plain = perf_counter() - start
            ratios.append(plain / ours)
            seconds.append((ours, plain))
            worst = float(np.abs(acts.rows(np.arange(640)).array() - rows[:640].astype(np.float32)).max())
            acts.close() if hasattr(acts, "close") else None
            del rows
            (place / f"{pair}.npy").unlink()
    print(f"collect {len(acts):,} positions × {acts.n_units:,} units, float16 on disk; differs by {worst:.2g}")
    print(f"words a second beside the plain loop: {median(ratios):.2f} ×; pairs {seconds}")
    x = torch.randn(20000, 384, device="cuda")
    y = (x[:, :6] + 0.5 * torch.randn(20000, 6, device="cuda")).argmax(1).cpu().numpy()
    cutaway.probes.Linear(l1=1e-3, l2=1e-3).fit(x, y)
    start = perf_counter()
    probe = cutaway.probes.Linear(l1=1e-3, l2=1e-3).fit(x, y)
    print(f"elastic-net probe 20,000 × 384, 6 classes: {perf_counter() - start:.3f} s, score {probe.score(x, y):.3f}")


@torch.no_grad()
def _plain(model: Any, ids: torch.Tensor, path: Path) -> Any:
    width = 12 * 768
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(ids.numel(), width))
    for start in range(0, len(ids), _AT_ONCE):
        hidden = model(ids[start : start + _AT_ONCE].cuda(), output_hidden_states=True).hidden_states[1:]
        found = torch.cat(hidden, dim=-1).half().reshape(-1, width).cpu().numpy()
        rows[start * _LENGTH : start * _LENGTH + len(found)] = found
    rows.flush()
    return rows


if __name__ == "__main__":
    main()
