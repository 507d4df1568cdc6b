"""Draws the SVG figures of the documentation: `python docs/pictures/figures.py [NAME …]`.

`screenshots.py` makes the PNG pictures, `examples/gallery.py` the figures of the gallery.
"""

import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

import cutaway

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))
Draw = Callable[[Path], None]


class SharedLayer(nn.Module):
    """One layer, used twice with the same functions around it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(torch.cos(x)) + 1
        x = torch.sin(x)
        return self.fc(torch.cos(x)) + 1


class BackToBack(nn.Module):
    """Three functions, twice in a row and once more behind another."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(torch.cos(x)) * 2
        x = torch.relu(torch.cos(x)) * 2
        x = torch.tan(x)
        return torch.relu(torch.cos(x)) * 2


class Recurrent(nn.Module):
    """An LSTM cell that reads a hundred steps."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        h, c = torch.zeros(2, 5), torch.zeros(2, 5)
        states = []
        for t in range(x.shape[0]):
            h, c = self.cell(x[t], (h, c))
            states.append(h)
        return torch.stack(states)


class Block(nn.Module):
    """The block of docs/drawing.md."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(self.norm(x))


class Net(nn.Module):
    """Six of them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(3, 8), nn.Linear(8, 2)
        self.blocks = nn.Sequential(*(Block(8) for _ in range(6)))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.blocks(self.stem(x)))
        return out


def drawn_on(page: str, name: str) -> Draw:
    """A picture that the examples of a page draw themselves."""

    def draw(path: Path) -> None:
        from tests.docs.test_docs import blocks, run

        source = ROOT / "docs" / f"{page}.md"
        names: dict[str, Any] = {"__name__": "page"}
        torch.manual_seed(0)
        with TemporaryDirectory() as folder, chdir(folder):
            for block in blocks(source):
                if block.language == "python" and not Path(name).exists():
                    run(source, block, names)
            path.write_bytes(Path(name).read_bytes())

    return draw


def drawn(model: type[nn.Module], shape: tuple[int, ...], **options: Any) -> Draw:
    def draw(path: Path) -> None:
        torch.manual_seed(0)
        cutaway.trace(model(), torch.ones(shape)).draw(path, **options)

    return draw


FIGURES: dict[str, Draw] = {
    "drawing-rolled": drawn(Net, (4, 3), rolled=True, direction="right"),
    "drawing-color": drawn(Net, (4, 3), color_by="flops", depth=2),
    "drawing-focus": drawn(Net, (4, 3), focus="blocks.2.inner.1"),
    "shared-layer": drawn(SharedLayer, (2, 4)),
    "shared-layer-rolled": drawn(SharedLayer, (2, 4), rolled=True),
    "back-to-back": drawn(BackToBack, (2, 4)),
    "back-to-back-rolled": drawn(BackToBack, (2, 4), rolled=True),
    "recurrent-rolled": drawn(Recurrent, (100, 2, 4), rolled=True),
    "conditional": drawn_on("conditionals", "conditional.svg"),
    "selection": drawn_on("questions", "shortest.svg"),
}


if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name](HERE / f"{name}.svg")
