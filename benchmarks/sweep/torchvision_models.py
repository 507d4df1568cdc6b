"""The model families of torchvision: the smallest of each for images, masks, boxes, key points, clips and flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import torch

from benchmarks.sweep import packages
from benchmarks.sweep.attempts import Attempt, first_that_runs
from benchmarks.sweep.families import Case
from benchmarks.sweep.timm_models import family

CLIP = (1, 3, 8, 32, 32)
_SIDES: dict[str, Any] = {"min_size": 64, "max_size": 96}
_FEW = _SIDES | {"rpn_pre_nms_top_n_test": 40, "rpn_post_nms_top_n_test": 12, "box_detections_per_img": 4}
_MADE_SMALL: dict[str, dict[str, Any]] = {
    "vit": {"image_size": 64},
    "maxvit": {"input_size": (224, 224)},
    "fasterrcnn": _FEW,
    "maskrcnn": _FEW,
    "keypointrcnn": _FEW | {"num_classes": 2},
    "retinanet": _SIDES | {"topk_candidates": 50, "detections_per_img": 8},
    "fcos": _SIDES | {"topk_candidates": 50, "detections_per_img": 8},
    "ssd": {"topk_candidates": 50, "detections_per_img": 8},
    "ssdlite": {"topk_candidates": 50, "detections_per_img": 8},
}
"""Leading letters of a name → what its maker is given besides."""


class Torchvision:
    """One member of each family, with random weights; what shares a file and leading letters is a family."""

    def names(self) -> Sequence[str]:
        return _smallest() if packages.made_importable() else []

    def make(self, name: str) -> Case:
        return first_that_runs(_attempts(name))


@cache
def _smallest() -> list[str]:
    models = packages.of("torchvision.models")
    sizes: dict[tuple[str, str], tuple[int, str]] = {}
    for name in models.list_models():
        plain = name.removeprefix("quantized_")
        weights = next(iter(models.get_model_weights(plain)))
        key = family(plain, models.get_model_builder(name).__module__)
        found = (weights.meta["num_params"], name)
        sizes[key] = min(sizes.get(key, found), found)
    return sorted(name for _, name in sizes.values())


def _attempts(name: str) -> Iterator[Attempt]:
    models = packages.of("torchvision.models")
    _, kind = family(name.removeprefix("quantized_"), "")
    file = models.get_model_builder(name).__module__.rsplit("models.", 1)[1]
    options: dict[str, Any] = {"weights": None} | _MADE_SMALL.get(kind, {})
    if "detection" in file:
        options = {"num_classes": 4, "weights_backbone": None} | options
    elif "segmentation" in file:
        options |= {"num_classes": 4, "weights_backbone": None}
    elif "optical_flow" not in file:
        options |= {"num_classes": 10}
    if name in ("googlenet", "inception_v3", "quantized_googlenet", "quantized_inception_v3"):
        options |= {"init_weights": True}
    how = ", ".join(f"{key} {value}" for key, value in options.items())
    for quantized in (True, False) if name.startswith("quantized_") else (False,):
        more = options | {"quantize": True} if quantized else options
        build = partial(models.get_model, name, **more)
        for words, args_of in _arguments(file):
            yield f"{words}; {how}{', quantized' * quantized}", build, args_of


def _arguments(file: str) -> Iterator[tuple[str, Callable[[], tuple[Any, ...]]]]:
    if "video" in file:
        shapes: list[Any] = [CLIP, (1, 3, 16, 224, 224)]
    elif "optical_flow" in file:
        yield "two images [1, 3, 128, 128]", lambda: (_random(1, 3, 128, 128), _random(1, 3, 128, 128))
        return
    elif "detection" in file:
        yield "images [3, 64, 64] and [3, 56, 72]", lambda: ([_random(3, 64, 64).sigmoid(), torch.rand(3, 56, 72)],)
        return
    else:
        shapes = [(1, 3, side, side) for side in (64, 96, 128, 224, 299)]
    for shape in shapes:
        yield f"image {list(shape)}", partial(lambda given: (_random(*given),), shape)


def _random(*shape: int) -> torch.Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(shape)
