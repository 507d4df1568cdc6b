"""The models on which tracing is measured, with seeded weights and nothing to download.

Peers load this file in environments of their own, so it needs torch alone; transformers is imported when
one of its models is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

Size = Literal["toy", "op-bound", "large"]


@dataclass(frozen=True, slots=True)
class Example:
    """A model with the arguments of one forward."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Any:
        return self.model(*self.args, **self.kwargs)


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table: how the model is made, and which aims hold for it."""

    name: str
    title: str
    size: Size
    make: Callable[[], Example]

    def build(self) -> Example:
        """The model with the same weights and inputs in every process."""
        torch.manual_seed(0)
        return self.make()


class OneOp(nn.Module):
    """What a trace costs before it has seen anything."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.neg(x)


class CellLoop(nn.Module):
    """`nn.LSTMCell` over a sequence: many aten ops behind few functions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, width)

    def forward(self, x: Tensor) -> Tensor:
        h = c = torch.zeros_like(x[0])
        for step in x:
            h, c = self.cell(step, (h, c))
        return h


class HandWrittenLSTM(nn.Module):
    """An LSTM in plain torch, 14 functions a step: the cost of watching with hardly any work to hide it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.into = nn.Parameter(torch.randn(4 * width, width) * width**-0.5)
        self.back = nn.Parameter(torch.randn(4 * width, width) * width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        h = c = torch.zeros_like(x[0])
        for t in range(x.shape[0]):
            gates = nn.functional.linear(x[t], self.into) + nn.functional.linear(h, self.back)
            i, f, g, o = gates.chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h


class InPlaceAndViews(nn.Module):
    """Writes through slices, transposes and masks, read again through their base."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        state = torch.zeros_like(x)
        for _ in range(17):
            y = self.fc(x)
            y[:, :half] += x[:, half:]
            y.relu_()
            left = y.view(-1, 2, half).transpose(1, 2)
            left.mul_(0.9)
            y.masked_fill_(y > 1, 1.0)
            state.add_(y)
            x = state.clone()
        return x


class LoopOfOps(nn.Module):
    """`n_ops` operations in a row, to see whether the cost of one grows with their number."""

    def __init__(self, n_ops: int) -> None:
        super().__init__()
        self.n_pairs = n_ops // 2

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.n_pairs):
            x = torch.mul(x, 0.999)
            x = torch.add(x, 0.001)
        return x


class Bottleneck(nn.Module):
    """The block of ResNet-50: 1×1, 3×3, 1×1, and a way around."""

    def __init__(self, n_in: int, n_mid: int, stride: int) -> None:
        super().__init__()
        n_out = 4 * n_mid
        self.convs = nn.Sequential(
            nn.Conv2d(n_in, n_mid, 1, bias=False), nn.BatchNorm2d(n_mid), nn.ReLU(inplace=True),
            nn.Conv2d(n_mid, n_mid, 3, stride, 1, bias=False), nn.BatchNorm2d(n_mid), nn.ReLU(inplace=True),
            nn.Conv2d(n_mid, n_out, 1, bias=False), nn.BatchNorm2d(n_out),
        )  # fmt: skip
        self.around: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.around = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.convs(x) + self.around(x))


def resnet50() -> nn.Module:
    """ResNet-50 as torchvision lays it out."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    n_in = 64
    for n_mid, n_blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(n_blocks):
            layers.append(Bottleneck(n_in, n_mid, 2 if i == 0 and n_mid > 64 else 1))
            n_in = 4 * n_mid
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, 1000))


def _mlp() -> Example:
    layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
    return Example(nn.Sequential(*layers).eval(), (torch.randn(8, 64),))


def _encoder(*, training: bool) -> Example:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return Example(model.train(training), (torch.randn(8, 32, 64),))


def _gpt2() -> Example:
    from transformers import GPT2Config, GPT2LMHeadModel

    return Example(GPT2LMHeadModel(GPT2Config()).eval(), (torch.randint(50_257, (1, 64)),))


def _bert() -> Example:
    from transformers import BertConfig, BertModel

    return Example(BertModel(BertConfig()).eval(), (torch.randint(30_522, (1, 64)),))


def _t5() -> Example:
    from transformers import T5Config, T5Model

    ids = torch.randint(32_128, (2, 1, 64))
    return Example(T5Model(T5Config()).eval(), (), {"input_ids": ids[0], "decoder_input_ids": ids[1]})


CASES = (
    Case("mlp", "MLP-3", "toy", _mlp),
    Case("lstmcell", "LSTMCell ×100", "op-bound", lambda: Example(CellLoop(64).eval(), (torch.randn(100, 8, 64),))),
    Case("lstm", "hand-written LSTM ×100", "op-bound",
         lambda: Example(HandWrittenLSTM(32).eval(), (torch.randn(100, 4, 32),))),
    Case("encoder", "TransformerEncoder, eval", "op-bound", lambda: _encoder(training=False)),
    Case("encoder-train", "TransformerEncoder, train", "op-bound", lambda: _encoder(training=True)),
    Case("inplace", "in-place and views", "op-bound",
         lambda: Example(InPlaceAndViews(64).eval(), (torch.randn(8, 64),))),
    Case("gpt2", "GPT-2 small, 1 × 64", "large", _gpt2),
    Case("bert", "BERT-base, 1 × 64", "large", _bert),
    Case("resnet50", "ResNet-50, 224", "large", lambda: Example(resnet50().eval(), (torch.randn(1, 3, 224, 224),))),
    Case("t5", "T5-small, 64 + 64", "large", _t5),
)  # fmt: skip


def one_op() -> Example:
    return Example(OneOp().eval(), (torch.ones(1),))


class Steered(nn.Module):
    """A loop that asks, each time round, whether to go on."""

    def __init__(self, n_steps: int) -> None:
        super().__init__()
        self.n_steps = n_steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = 0
        while x.sum() < 1e9:
            x = x * 1.0001
            n += 1
            if n == self.n_steps:
                break
        return x


def steered(n_steps: int) -> Example:
    return Example(Steered(n_steps).eval(), (torch.ones(4),))


def cell_loop(n_steps: int) -> Example:
    return Example(CellLoop(8).eval(), (torch.randn(n_steps, 1, 8),))


def loop(n_ops: int) -> Example:
    return Example(LoopOfOps(n_ops).eval(), (torch.ones(4),))


def chosen(names: Iterable[str]) -> tuple[Case, ...]:
    """The cases of these names, or all of them."""
    wanted = set(names)
    unknown = wanted - {case.name for case in CASES}
    if unknown:
        raise SystemExit(
            f"no case is called {', '.join(sorted(unknown))}; there are {', '.join(c.name for c in CASES)}"
        )
    return tuple(case for case in CASES if not wanted or case.name in wanted)
