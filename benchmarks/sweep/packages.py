"""The packages that only the sweep uses: in a folder of their own, imported without their compiled libraries.

`make sweep` installs them there without dependencies. Their compiled libraries ask for a CUDA build of torch and do
not load; the models are Python, but for the few operators that are declared here.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FOLDER = Path(sys.prefix) / "sweep"


@cache
def made_importable() -> bool:
    """Put the folder on the path and declare what torchvision's library would register; False where it is missing.

    Last on the path, so that nothing there hides a package of the environment.
    """
    if not (FOLDER / "torchvision").is_dir():
        return False
    sys.path.append(str(FOLDER))
    _declare()
    extension = importlib.import_module("torchvision.extension")
    importlib.import_module("torchvision")
    extension._has_ops = lambda: True  # type: ignore[attr-defined]  # nms asks; it is ours
    align = importlib.import_module("torchvision.ops.roi_align")
    # Written in Python and compiled on first use, which would hide its operations behind one.
    align._roi_align = align._roi_align.__wrapped__  # type: ignore[attr-defined]
    return True


def of(name: str) -> Any:
    """A module of one of the packages."""
    if not made_importable():
        raise ImportError(f"{name} is not in {FOLDER}. `make sweep` installs it.")
    return importlib.import_module(name)


def versions() -> dict[str, str]:
    """Package → version, of those that models come from."""
    found = {found.name: found.version for found in distributions(path=[str(FOLDER)])}
    return {name: found[name] for name in ("timm", "torchvision", "torchaudio") if name in found}


def _declare() -> None:
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", _nms, "CPU")
    _kept.append(library)


_kept: list[torch.library.Library] = []
"""A library forgets its operators when it is collected."""


def _nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of the boxes that overlap no better one, best first."""
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left, found = scores.argsort(descending=True, stable=True), []
    while len(left):
        best, left = left[0], left[1:]
        found.append(best)
        low, high = boxes[best, :2].maximum(boxes[left, :2]), boxes[best, 2:].minimum(boxes[left, 2:])
        common = (high - low).clamp(min=0).prod(dim=1)
        left = left[common / (area[best] + area[left] - common) <= iou_threshold]
    return torch.stack(found) if found else scores.new_empty(0, dtype=torch.long)
