"""A real recorded training for tests of the viewer: kinds, iterations, two losses, samples, notes; and a saved trace.

`recorded` is made once for each process and must not be changed; `recorded_copy` is a copy that may be.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.compiling import forget_compiled

if TYPE_CHECKING:
    from torch import Tensor

EVERY, N_STEPS = 4, 48
N_SAMPLES = 3
WORDS = ("a", "cat", "sat", "on", "the", "mat", "<script>alert(1)</script>", "dog")
HOSTILE = "</script><img src=x onerror=alert(1)>"
"""A name that would run if a page took it for anything but text."""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs `base` and `deep/other`, and the saved trace `net.trace`."""
    folder = tmp_path_factory.mktemp("recorded") / "runs"
    record_into(folder / "base")
    record_into(folder / "deep" / "other", seed=1, n_steps=16)
    save_trace(folder / "net.trace")
    return folder


@pytest.fixture
def recorded_copy(recorded: Path, tmp_path: Path) -> Path:
    """The same folder, to be damaged."""
    return shutil.copytree(recorded, tmp_path / "runs")


def record_into(path: Path, *, seed: int = 0, n_steps: int = N_STEPS) -> None:
    """Train a small transformer that refines its answer twice, with two losses, and record it with everything on."""
    import torch
    from torch import nn

    import cutaway

    forget_compiled()
    torch.manual_seed(seed)
    model = _model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    config = {"optimizer": {"lr": 0.01}, "name": HOSTILE}
    with (
        one_thread(),
        cutaway.record(path, model, every=EVERY, samples=N_SAMPLES, statistics="full", config=config) as run,
    ):
        for number in range(n_steps):
            kind, length = ("long", 7) if number % 3 == 0 else ("short", 4)
            ids = torch.randint(0, len(WORDS), (5, length))
            label = ids.sum(1) % 3
            with run.step(kind=kind):
                state: Tensor = model.read(ids)
                for _ in range(2):
                    with run.iteration():
                        state, scores = model(state)
                guess = nn.functional.cross_entropy(scores, label)
                size = 0.01 * state.pow(2).mean()
                if run.recording:
                    texts = [[WORDS[word] for word in row] for row in ids.tolist()]
                    run.samples(
                        ids=[f"{number}-{row}" for row in range(5)],
                        text=[" ".join(row) for row in texts],
                        tokens=texts,
                        label=label,
                        image=torch.rand(5, 6, 6),
                    )
                    run.tensor("target", label, role="target")
                    run.tensor("margin", scores[:, 0] - scores[:, 1], node="head", part="margin")
                with run.gradients("guess"):
                    guess.backward(retain_graph=True)
                with run.gradients("size"):
                    size.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=guess + size, guess=guess, size=size, lr=0.01)
                if number % 20 == 8:
                    run.note(f"at step {number} all was well", level="info")
                if number == 12:
                    run.note(f"the loss rose: {HOSTILE}", level="warning")


@contextmanager
def one_thread() -> Iterator[None]:
    """Tensors this small are several times faster on one thread, above all on cores that others use too."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def save_trace(path: Path) -> None:
    """Trace the same model once and save it."""
    import torch

    import cutaway

    torch.manual_seed(0)
    model = _model()
    path.parent.mkdir(parents=True, exist_ok=True)
    cutaway.trace(model, torch.randn(2, 5, 8)).save(path)


def _model():  # type: ignore[no-untyped-def]  # its class needs torch, which is loaded when a test asks for it
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
            self.norm = nn.LayerNorm(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.attention(x, x, x, need_weights=False)[0]
            return self.norm(x + self.down(torch.relu(self.up(x))))

    class Refiner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(len(WORDS), 8)
            self.blocks = nn.ModuleList(Block() for _ in range(3))
            self.head = nn.Linear(8, 3)

        def read(self, ids: torch.Tensor) -> torch.Tensor:
            return self.table(ids)  # type: ignore[no-any-return]

        def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            for block in self.blocks:
                state = block(state)
            return state, self.head(state.mean(1))

    return Refiner()
