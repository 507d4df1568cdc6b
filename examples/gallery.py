"""Draws the models of docs/gallery.md: as figures, and as pages to click through.

    python examples/gallery.py                  # all, into docs/pictures/gallery
    python examples/gallery.py gpt2 --html out  # one, with its interactive page in out/

The weights are random: what is drawn is the computation.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

import cutaway

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
FIGURES: dict[str, dict[str, Any]] = {
    "mlp": {},
    "resnet50": {"depth": 4, "rolled": True},
    "googlenet": {"depth": 2},
    "unet": {"depth": 1},
    "lstm": {"rolled": True},
    "gpt2": {"depth": 3, "rolled": True},
    "t5": {"depth": 3, "rolled": True},
    "mixture": {"depth": 3, "rolled": True},
    "mamba": {"depth": 3, "rolled": True},
    "conditional": {},
    "siamese": {"depth": 1},
}
"""How the figure of each is drawn."""


class Inception(nn.Module):
    """Four branches side by side, joined by their channels."""

    def __init__(self, width: int, *, out: int) -> None:
        super().__init__()
        part = out // 4
        self.one = nn.Sequential(nn.Conv2d(width, part, 1), nn.ReLU())
        self.three = nn.Sequential(nn.Conv2d(width, part, 1), nn.ReLU(), nn.Conv2d(part, part, 3, padding=1), nn.ReLU())
        self.five = nn.Sequential(nn.Conv2d(width, part, 1), nn.ReLU(), nn.Conv2d(part, part, 5, padding=2), nn.ReLU())
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(width, part, 1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)


class GoogLeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.a3, self.b3 = Inception(32, out=64), Inception(64, out=96)
        self.a4, self.b4 = Inception(96, out=128), Inception(128, out=128)
        self.drop, self.head = nn.Dropout(0.4), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.b3(self.a3(self.stem(x)))
        x = self.b4(self.a4(F.max_pool2d(x, 3, 2, 1)))
        return self.head(self.drop(x.mean((2, 3))))


class Twice(nn.Sequential):
    def __init__(self, width: int, out: int) -> None:
        super().__init__(nn.Conv2d(width, out, 3, padding=1), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([Twice(1, 8), Twice(8, 16), Twice(16, 32)])
        self.bottom = Twice(32, 64)
        self.wide = nn.ModuleList([nn.ConvTranspose2d(2 * n, n, 2, 2) for n in (32, 16, 8)])
        self.up = nn.ModuleList([Twice(64, 32), Twice(32, 16), Twice(16, 8)])
        self.mask = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for wide, block in zip(self.wide, self.up, strict=True):
            x = block(torch.cat([wide(x), kept.pop()], 1))
        return self.mask(x)


class Reader(nn.Module):
    """A cell that reads step by step, and a word for the end."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(50, 16), nn.LSTMCell(16, 32), nn.Linear(32, 50)

    def forward(self, tokens: Tensor) -> Tensor:
        state = torch.zeros(tokens.shape[0], 32), torch.zeros(tokens.shape[0], 32)
        for step in self.embed(tokens).unbind(1):
            state = self.cell(step, state)
        return self.head(state[0])


class Conditional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.small, self.large = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.enter(x))
        x = self.large(x) if x.mean() > 0.5 else self.small(x)
        noise = torch.rand(8)
        while x.norm() > 1:
            x = x / 2
        return x + noise


class Siamese(nn.Module):
    """The same tower for both pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1352, 16))
        self.head = nn.Linear(16, 1)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return torch.sigmoid(self.head((self.tower(left) - self.tower(right)).abs()))


def _mlp() -> Case:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Dropout(), nn.Linear(128, 10)), (torch.rand(32, 784),), {}


def _resnet50() -> Case:
    return transformers.ResNetForImageClassification(transformers.ResNetConfig()), (torch.rand(1, 3, 224, 224),), {}


def _gpt2() -> Case:
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=192, n_head=6, vocab_size=1000))
    return model, (), {"input_ids": torch.arange(16)[None], "use_cache": False}


def _t5() -> Case:
    config = transformers.T5Config(d_model=64, d_ff=128, d_kv=16, num_heads=4, num_layers=6, vocab_size=500)
    model = transformers.T5ForConditionalGeneration(config)
    ids = torch.arange(12)[None]
    return model, (), {"input_ids": ids, "decoder_input_ids": ids[:, :5], "use_cache": False}


def _mixture() -> Case:
    config = transformers.MixtralConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        num_local_experts=4, vocab_size=500,
    )  # fmt: skip
    return transformers.MixtralForCausalLM(config), (), {"input_ids": torch.arange(10)[None], "use_cache": False}


def _mamba() -> Case:
    config = transformers.MambaConfig(hidden_size=64, num_hidden_layers=4, vocab_size=500, state_size=8)
    return transformers.MambaForCausalLM(config), (), {"input_ids": torch.arange(8)[None], "use_cache": False}


MODELS: dict[str, Callable[[], Case]] = {
    "mlp": _mlp,
    "resnet50": _resnet50,
    "googlenet": lambda: (GoogLeNet(), (torch.rand(2, 3, 64, 64),), {}),
    "unet": lambda: (UNet(), (torch.rand(1, 1, 64, 64),), {}),
    "lstm": lambda: (Reader(), (torch.arange(12).reshape(2, 6),), {}),
    "gpt2": _gpt2,
    "t5": _t5,
    "mixture": _mixture,
    "mamba": _mamba,
    "conditional": lambda: (Conditional(), (torch.full((4, 8), 2.0),), {}),
    "siamese": lambda: (Siamese(), (torch.rand(4, 1, 28, 28), torch.rand(4, 1, 28, 28)), {}),
}


def traced(name: str) -> cutaway.Trace:
    """The trace of one of the models, with the same random numbers each time."""
    torch.manual_seed(0)
    logging.getLogger("transformers").setLevel(logging.ERROR)  # it misses kernels that only a GPU would use
    model, args, kwargs = MODELS[name]()
    with torch.no_grad():
        return cutaway.trace(model.eval(), *args, **kwargs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*MODELS, []], help="all of them unless some are named")
    parser.add_argument("--out", default="docs/pictures/gallery", help="folder for the figures")
    parser.add_argument("--html", help="folder for the interactive pages")
    args = parser.parse_args()
    for folder in filter(None, (args.out, args.html)):
        Path(folder).mkdir(parents=True, exist_ok=True)
    for name in args.names or MODELS:
        trace = traced(name)
        trace.draw(f"{args.out}/{name}.svg", **FIGURES[name])
        print(f"{name}: {len(trace):,} ops, {args.out}/{name}.svg")
        if args.html:
            trace.to_html(f"{args.html}/{name}.html")
            print(f"  {args.html}/{name}.html")


if __name__ == "__main__":
    main()
