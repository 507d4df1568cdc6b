"""Small trainings, recorded for real, and runs written by hand where a training would be too slow or too tame."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from tests.server.recorded import one_thread as one_thread
from torch import Tensor, nn

import cutaway
from cutaway.core.arrays import Raw
from cutaway.store.format.records import Row
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Writer

WORDS = ("a", "cat", "sat", "on", "mats")
BATCH, KEPT, LENGTH = 4, 3, 5


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.mlp(self.norm(x))
        return result


class Net(nn.Module):
    """Tied weights at its ends, four equal blocks between them."""

    def __init__(self, n_blocks: int = 4, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), width)
        self.first = nn.Identity()
        self.h = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.register_buffer("scale", torch.full((width,), 0.5))
        self.head = nn.Linear(width, len(WORDS), bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.first(self.embed(tokens) * self.scale)
        for block in self.h:
            x = block(x)
        result: Tensor = self.head(x)
        return result


_FOLDER = TemporaryDirectory(prefix="cutaway-")


@cache
def trained() -> Run:
    """The net, trained for six steps: recorded once for each process, and not to be changed."""
    return train(Path(_FOLDER.name) / "run")


def train(path: Path, model: nn.Module | None = None, *, n_steps: int = 6, seed: int = 0, **settings: Any) -> Run:
    """Train a net on words for some steps, with everything said that can be said."""
    torch.manual_seed(seed)
    model = Net() if model is None else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    chosen = {"every": 1, "samples": KEPT, "statistics": "full", "config": {"lr": 0.01}, **settings}
    with one_thread(), cutaway.record(path, model, **chosen) as run:
        for number in range(n_steps):
            ids = torch.randint(0, len(WORDS), (BATCH, LENGTH))
            with run.step(kind="odd" if number % 2 else "even"):
                scores = model(ids)
                words = [[WORDS[word] for word in row] for row in ids.tolist()]
                run.samples(
                    ids=[f"{number}/{row}" for row in range(BATCH)],
                    text=[" ".join(row) for row in words],
                    tokens=words,
                    label=ids[:, 0],
                    image=torch.rand(BATCH, 3, 6, 4),
                    weight=torch.rand(BATCH),
                )
                run.tensor("target", ids[:, 0], role="target")
                run.tensor("margin", scores[..., 0] - scores[..., 1], node="head", part="margin")
                loss = nn.functional.cross_entropy(scores.mean(1), ids[:, 0])
                with run.gradients("guess"):
                    loss.backward(retain_graph=True)
                (0.01 * scores.pow(2).mean()).backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss, lr=0.01)
                if number == 2:
                    run.note("third\nstep", level="warning")
    loaded: Run = cutaway.load(path)
    return loaded


def written(
    path: Path,
    matrices: Sequence[np.ndarray[Any, Any]],
    *,
    rows: Sequence[Row] | None = None,
    statistics: Sequence[str] = ("count", "mean", "std"),
    kinds: Sequence[str] = (),
    values: Sequence[dict[int, np.ndarray[Any, Any]]] = (),
    **options: Any,
) -> Run:
    """A run of given matrices, one a step."""
    rows = [Row(f"t{number}") for number in range(len(matrices[0]))] if rows is None else rows
    with Writer(path, kind="run", **options) as writer:
        schema = writer.schema(rows, statistics)
        for step, matrix in enumerate(matrices):
            kept = values[step] if values else {}
            writer.step(
                step,
                schema=schema,
                kind=kinds[step] if kinds else "",
                matrix=matrix,
                values={row: Raw.of(array) for row, array in kept.items()},
            )
    loaded: Run = cutaway.load(path)
    return loaded
