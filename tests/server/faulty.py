"""A recorded training with planted faults, for tests of what the viewer marks.

`side` is detached, `frozen` requires no gradient, no optimizer has `emb`, `zero` returns zeros, `src_mask` is a causal
mask of −Inf, `norm` counts its batches, `ids` are whole numbers. At step `SPIKE` the input `gain` is 10,000 times as
large, at step `BROKEN` it is infinite, and `late` is detached from step `LATE` on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compiling import forget_compiled
from tests.server.recorded import one_thread

SPIKE, LATE, BROKEN, N_STEPS = 24, 30, 35, 36


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run `faulty`; it must not be changed."""
    folder = tmp_path_factory.mktemp("faulty") / "runs"
    record_faults(folder / "faulty")
    return folder


def record_faults(path: Path) -> None:
    import torch
    from torch import nn

    import cutaway

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb = nn.Embedding(20, 8)
            self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4))
            self.norm = nn.BatchNorm1d(8)
            self.side, self.late, self.frozen = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
            self.zero = nn.Threshold(1e9, 0.0)
            self.head = nn.Linear(8, 5)
            self.is_late = False

        def forward(self, ids: torch.Tensor, src_mask: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
            x = self.emb(ids)
            x = x + self.attn(x, x, x, attn_mask=src_mask, need_weights=False)[0]
            for layer in self.layers:
                x = x + layer(x)
            x = self.norm(x.transpose(1, 2)).transpose(1, 2)
            late = self.late(x)
            x = x + self.side(x).detach() + (late.detach() if self.is_late else late) + self.frozen(x) + self.zero(x)
            return self.head(x * gain)  # type: ignore[no-any-return]

    forget_compiled()
    torch.manual_seed(0)
    model = Net()
    model.frozen.requires_grad_(False)
    optimizer = torch.optim.SGD([p for name, p in model.named_parameters() if not name.startswith("emb")], lr=0.02)
    mask = torch.triu(torch.full((6, 6), -torch.inf), 1)
    with one_thread(), cutaway.record(path, model, every=1, samples=2) as run:
        for number in range(N_STEPS):
            model.is_late = number >= LATE
            ids = torch.randint(0, 20, (4, 6))
            gain = torch.rand(4, 1, 1) + 0.5
            gain = gain * (1e4 if number == SPIKE else torch.inf if number == BROKEN else 1)
            with run.step(kind="train"):
                loss = nn.functional.cross_entropy(
                    model(ids, src_mask=mask, gain=gain).flatten(0, 1), ids.flatten() % 5
                )
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if number != BROKEN:
                    optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)
