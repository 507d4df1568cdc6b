"""The family of all architectures in `transformers`, built small from their configurations with random weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from itertools import chain
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto import configuration_auto, modeling_auto

from benchmarks.sweep.config_overrides import CLASSES
from benchmarks.sweep.families import CannotRun, CannotShrink, Case
from benchmarks.sweep.input_overrides import given
from benchmarks.sweep.inputs import Inputs, candidates
from benchmarks.sweep.reduction import STRENGTHS, Strength, shrunk

MOST_PARAMETERS = 200_000_000


class Transformers:
    """Every model type that an auto class of `transformers` can build."""

    def names(self) -> Sequence[str]:
        return sorted(_classes())

    def make(self, name: str) -> Case:
        transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        reasons: list[str] = []
        built = False
        for strength in STRENGTHS:
            try:
                model = _build(name, strength)
            except Exception as error:
                reasons.append(f"{strength}: {_said(error)}")
                continue
            built = True
            try:
                inputs = _runnable(name, model)
            except CannotRun as error:
                reasons.append(f"{strength}: {error}")
                continue
            given = ", ".join(f"{key} {list(getattr(value, 'shape', []))}" for key, value in inputs.items())
            return Case(model, (), inputs, f"{strength} {type(model).__name__}: {given}")
        raise (CannotRun if built else CannotShrink)("; ".join(reasons))


@cache
def _classes() -> dict[str, str]:
    """Model type → the class that stands for it: its bare model, or else its first model for a task."""
    found: dict[str, str] = {}
    names = [name for name in dir(modeling_auto) if re.fullmatch(r"MODEL(_FOR_\w+)?_MAPPING_NAMES", name)]
    for mapping in sorted(names, key=lambda name: (name != "MODEL_MAPPING_NAMES", name)):
        for model_type, classes in getattr(modeling_auto, mapping).items():
            found.setdefault(model_type, classes if isinstance(classes, str) else classes[0])
    return found | CLASSES


def _build(name: str, strength: Strength) -> nn.Module:
    default = configuration_auto.CONFIG_MAPPING[name]()
    config = type(default).from_dict(shrunk(_plain(default.to_dict()), strength))
    cls: Any = getattr(transformers, _classes()[name])
    with torch.device("meta"):
        size = sum(p.numel() for p in cls(deepcopy(config)).parameters()) if strength != "small" else 0
    if size > MOST_PARAMETERS:
        raise CannotShrink(f"{size / 1e6:.0f} million parameters are left")
    torch.manual_seed(0)
    model: nn.Module = cls(config)
    return model.float().eval()


def _plain(tree: Any) -> Any:
    """Tuples as lists, so that the rules have one kind of sequence."""
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    return [_plain(item) for item in tree] if isinstance(tree, (list, tuple)) else tree


def _runnable(name: str, model: Any) -> Inputs:
    reason = ""
    for made in chain(given(name, model.config), candidates(model, model.config)):
        for _ in range(3):
            try:
                with torch.no_grad():
                    model(**deepcopy(made))
                return made
            except Exception as error:
                reason = reason or _said(error)
                if not _match_placeholders(str(error), made, model.config):
                    break
    raise CannotRun(reason or "no input could be made")


def _match_placeholders(message: str, made: Inputs, config: Any) -> bool:
    """Put as many image or audio tokens into the text as the model asked for in its error."""
    asked = re.search(r"(image|video|audio|Image|Video|Audio)\D*tokens:?\s*(\d+)\D+features:?\s*(\d+)", message)
    ids = made.get("input_ids")
    if asked is None or ids is None:
        return False
    kind, wanted = asked[1].lower(), int(asked[3])
    names = (f"{kind}_token_id", f"{kind}_token_index")
    token = next((getattr(config, n) for n in names if isinstance(getattr(config, n, None), int)), None)
    each, rest = divmod(wanted, len(ids))
    if token is None or rest or each > 2000:
        return False
    text = ids[:, :4]
    made["input_ids"] = torch.cat([text, torch.full((len(ids), each), token), text], dim=1)
    for name in ("attention_mask", "token_type_ids"):
        if name in made:
            made[name] = torch.full_like(made["input_ids"], int(name == "attention_mask"))
    return True


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    text = lines[0] if len(lines[0]) > 30 or len(lines) == 1 else " ".join(line.strip() for line in lines[:3])
    return f"{type(error).__name__}: {text[:200]}"
