"""Small real recordings of what is seldom: images, attention, dead units, unlike siblings, NaN, very many units."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.recorded import one_thread

TOKENS = ("the", "cat", "sat", "on", "it", ".")
N_UNITS = 100_000
NAMES = ("disc", "square", "ring")


@pytest.fixture(scope="session")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs `images` and `looks`."""
    folder = tmp_path_factory.mktemp("strange") / "runs"
    with one_thread():
        record_images(folder / "images")
        record_looks(folder / "looks")
    return folder


def record_images(path: Path) -> None:
    """A convolution, and two branches of which one is small and half dead; beside them whatever a tensor can be."""
    import torch
    from torch import nn

    import cutaway

    class Branch(nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.up = nn.Linear(64, 8)
            self.cut = nn.ReLU()
            with torch.no_grad():
                self.up.weight.mul_(scale)
                self.up.bias.copy_(scale * torch.tensor([-1e4] * 4 + [1.0] * 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.cut(self.up(x))
            return found

    class Images(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)
            self.left, self.right = Branch(1.0), Branch(1e-5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            flat = self.conv(x).mean(1).flatten(1)
            return torch.cat([self.left(flat), self.right(flat)], 1)[:, 4:7]

    torch.manual_seed(0)
    model = Images()
    nan = float("nan")
    with cutaway.record(path, model, every=1, samples=2, statistics="full") as run:
        for number in range(3):
            with run.step():
                x = torch.rand(4, 3, 8, 8)
                scores = model(x)
                label = torch.tensor([number % 3, 1, 2, 0])
                run.samples(image=x, label=[NAMES[one] for one in label.tolist()])
                run.tensor("target", label, role="target")
                run.tensor("only_nan", torch.full((4, 6), nan))
                run.tensor("some_nan", torch.tensor([[1.0, nan, 3.0]] * 4))
                run.tensor("empty", torch.empty(4, 0))
                run.tensor("one", torch.tensor(2.5))
                run.tensor("many", torch.randn(4, N_UNITS), unit_dim=1, batch_dim=0)
                nn.functional.cross_entropy(scores, label).backward()
                run.log(loss=1.0 / (number + 1), steep=10.0 ** (3 * number))


def record_looks(path: Path) -> None:
    """Weights of attention of three heads over words."""
    import torch
    from torch import nn

    import cutaway

    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.Softmax(-1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.weights(x)
            return found

    torch.manual_seed(0)
    model = Looks()
    with cutaway.record(path, model, every=1, samples=2, statistics="full") as run:
        for _ in range(2):
            with run.step():
                model(3 * torch.randn(4, 3, 6, 6))
                run.samples(tokens=[list(TOKENS)] * 4)
