"""The model families of timm: the smallest member of each.

A family is what shares a file and the leading letters of its name, such as `resnet` and `seresnext` in one file. Which
member is the smallest is written in `timm_smallest.txt`, because finding out means building all of them;
`python -m benchmarks.sweep.timm_models` writes it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.sweep import packages
from benchmarks.sweep.attempts import Attempt, first_that_runs
from benchmarks.sweep.families import Case

LIST = Path(__file__).with_name("timm_smallest.txt")
SIDES = (64, 84, 96, 128, 160)
MOST_PARAMETERS = 60_000_000
"""Above this, fewer blocks are asked for."""


class Timm:
    """One member of each family, with random weights and ten classes, on the smallest image that it takes."""

    def names(self) -> Sequence[str]:
        return LIST.read_text().split()

    def make(self, name: str) -> Case:
        return first_that_runs(_attempts(name))


def _attempts(name: str) -> Iterator[Attempt]:
    timm = packages.of("timm")
    channels, side = timm.get_pretrained_cfg(name).input_size[:2]
    build = partial(timm.create_model, name, pretrained=False, num_classes=10)
    with torch.device("meta"):
        whole = build()
    shallow: list[dict[str, int]] = [{"depth": 2}, {}] if _size(whole) > MOST_PARAMETERS else [{}]
    for options in shallow:
        for length in (*SIDES, side):
            for given in (options | {"img_size": length}, options):
                how = ", ".join(f"{key} {value}" for key, value in given.items())
                shape = (1, channels, length, length)
                yield f"image {list(shape)} {how}".strip(), partial(build, **given), partial(_image, shape)


def _image(shape: tuple[int, ...]) -> tuple[Any, ...]:
    torch.manual_seed(1)
    return (torch.randn(shape),)


def family(name: str, file: str) -> tuple[str, str]:
    """The file and the leading letters: `resnet10t` of `resnet` → `("resnet", "resnet")`."""
    letters = re.match(r"[a-z]+", name)
    return file, letters[0] if letters else name


def smallest() -> list[str]:
    """The member of each family with the fewest parameters, in alphabetical order; takes minutes."""
    timm = packages.of("timm")
    file_of = packages.of("timm.models._registry")._model_to_module
    sizes: dict[tuple[str, str], tuple[int, str]] = {}
    for name in timm.list_models(exclude_filters="test_*"):
        with torch.device("meta"):
            size = _size(timm.create_model(name, pretrained=False))
        key = family(name, file_of[name])
        sizes[key] = min(sizes.get(key, (size, name)), (size, name))
    return sorted(name for _, name in sizes.values())


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    LIST.write_text("\n".join(smallest()) + "\n")
