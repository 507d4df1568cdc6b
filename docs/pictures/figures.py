"""Draws the pictures of docs/recurrence.md and docs/drawing.md again: `python docs/pictures/figures.py`."""

from pathlib import Path

import torch
from torch import Tensor, nn

import cutaway

HERE = Path(__file__).parent


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


if __name__ == "__main__":
    net = cutaway.trace(Net(), torch.ones(4, 3))
    net.draw(HERE / "drawing-rolled.svg", rolled=True, direction="right")
    net.draw(HERE / "drawing-color.svg", color_by="flops", depth=2)
    net.draw(HERE / "drawing-focus.svg", focus="blocks.2.inner.1")
    for name, model in (("shared-layer", SharedLayer()), ("back-to-back", BackToBack())):
        trace = cutaway.trace(model, torch.ones(2, 4))
        trace.draw(str(HERE / f"{name}.svg"))
        trace.draw(str(HERE / f"{name}-rolled.svg"), rolled=True)
    cutaway.trace(Recurrent(), torch.ones(100, 2, 4)).draw(str(HERE / "recurrent-rolled.svg"), rolled=True)
