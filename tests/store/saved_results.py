"""Results to be saved, and an equality that looks at every part of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.results.neurons.ranking import Ranking, ranked
from cutaway.results.result import Result
from cutaway.store.activations.unit_selection import UnitNames, Units
from cutaway.store.activations.windows import CollectedSite


@dataclass(frozen=True, slots=True)
class Peak:
    """A part of `Lens`."""

    layer: int
    score: float | None


@dataclass(frozen=True, slots=True)
class Dip:
    """Another one, of the same fields."""

    layer: int
    score: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Lens(Result):
    """A result as a later part of Cutaway may have it."""

    scores: NDArray[np.float16]
    """(layer, token, k)."""
    chosen: NDArray[np.bool_] | None
    tokens: tuple[tuple[str, ...], ...]
    pair: tuple[int, str]
    kind: Literal["logits", "tuned"] = "logits"
    marks: Sequence[Peak | Dip] = ()
    labels: tuple[Any, ...] = ()
    by_name: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    parts: Mapping[Any, Lens] = field(default_factory=dict)
    more: object = None
    made: int = field(default=7, init=False)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to the last bit, types included."""
    if isinstance(one, UnitNames) or isinstance(other, UnitNames):
        return type(one) is type(other) and list(one) == list(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, np.generic):
        return one.tobytes() == other.tobytes()
    if is_dataclass(one):
        return all(same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if isinstance(one, Mapping):
        return same(list(one), list(other)) and same(list(one.values()), list(other.values()))
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (one == other and str(one) == str(other))
    return bool(one == other)


def names(*widths: int) -> UnitNames:
    return UnitNames(Units.all([CollectedSite(f"encoder.layer.{i}", width) for i, width in enumerate(widths)]))


def ranking(n: int = 6, **fields: Any) -> Ranking:
    """With labels, dead units, tiers and names."""
    rng = np.random.default_rng(n)
    shared = {"names": names(n // 2, n - n // 2), "dead": [1]}
    per_label = {
        label: ranked("probeless", rng.normal(size=n), signs=rng.integers(-1, 2, n), **shared)
        for label in ("noun", 3, True, 0.5, np.int64(9), np.str_("Ünïcode 🐕"))
    }
    about = {
        "n_rows": 200,
        "counts": {"noun": np.int64(5), "x": 2},
        "l1": 0.1,
        "of": [1, None, ("a",)],
        "nan": math.nan,
    }
    given: dict[str, Any] = {"per_label": per_label, "tiers": np.array([1, n]), "about": about, **shared, **fields}
    return ranked("probeless", rng.normal(size=n), signs=rng.integers(-1, 2, n), **given)
