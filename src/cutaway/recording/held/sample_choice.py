"""Chooses the samples whose values are stored: indices, a mask, the largest numbers, as many of each category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import listed, nearest_hint, plural, type_text
from cutaway.recording.settings import parse_samples

ANOMALY = "anomaly"


@dataclass(frozen=True, slots=True)
class SampleChoice:
    """Which samples of a step to store; `run.keep` documents the fields.

    >>> SampleChoice(2, by=[0.1, 9.0, float("nan")]).indices({})
    (2, 1)
    >>> SampleChoice(1, per="label").indices({"label": ["cat", "cat", "dog"]})
    (0, 2)
    """

    samples: Any
    by: Any = None
    """One number per sample, or `ANOMALY`."""
    per: str | None = None

    def __post_init__(self) -> None:
        if self.by is not None or self.per is not None:
            given = "by=" if self.by is not None else "per="
            if type(self.samples) is not int:
                raise InputError(f"run.keep({given}…) needs samples= as a number: how many samples to store.")
        if isinstance(self.by, str) and self.by != ANOMALY:
            raise InputError(f"run.keep(by={self.by!r}): pass one number per sample, or by={ANOMALY!r}.")
        if self.per is not None and not isinstance(self.per, str):
            raise InputTypeError(
                f"run.keep(per=) got {type_text(self.per)}: pass the name of a field of run.samples, as in 'label'."
            )

    @staticmethod
    def of(samples: Any, by: Any, per: str | None) -> SampleChoice | None:
        """The choice that the options of `run.keep` state, checked; None for the samples of `cutaway.record`.

        Tensors are copied: the program may overwrite them before the step ends.
        """
        if samples is None and by is None and per is None:
            return None
        if not _is_mask(samples):
            samples = parse_samples(samples.tolist() if isinstance(samples, (Tensor, np.ndarray)) else samples)
        return SampleChoice(_copied(samples), _copied(by), per)

    @property
    def is_by_anomaly(self) -> bool:
        """Whether the most unusual samples are chosen, for which the recorded values must be known."""
        return isinstance(self.by, str)

    def indices(self, fields: Mapping[str, Sequence[Any]]) -> tuple[int, ...]:
        """The indices of the chosen samples.

        Args:
            fields: what `run.samples` got in this step, one entry per sample.
        """
        if _is_mask(self.samples):
            return tuple(np.flatnonzero(_numbers(self.samples, "samples")).tolist())
        if not isinstance(self.samples, int):
            return tuple(self.samples)
        if self.by is None and self.per is None:
            return tuple(range(self.samples))
        categories = None if self.per is None else self._categories(fields)
        if self.by is None:
            assert categories is not None
            order = list(range(len(categories)))
        else:
            scores = _numbers(self.by, "by")
            # NaN counts as the largest: of a loss it is what one looks for. Stable: equal scores keep their order.
            order = np.argsort(-np.where(np.isnan(scores), np.inf, scores), kind="stable").tolist()
            if categories is not None and len(categories) != len(scores):
                raise InputError(
                    f"run.keep(by=) has {plural(len(scores), 'number')}, but run.samples({self.per}=) has "
                    f"{plural(len(categories), 'entry', 'entries')}: pass one per sample."
                )
        return tuple(order[: self.samples] if categories is None else _first_of_each(order, categories, self.samples))

    def _categories(self, fields: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
        if self.per is None or self.per not in fields:
            known = f" It has: {listed(map(repr, fields))}." if fields else ""
            near = nearest_hint(str(self.per), fields) or known
            raise InputError(f"run.keep(per={self.per!r}): this step has no such field of run.samples.{near}")
        return fields[self.per]


def _first_of_each(order: Sequence[int], categories: Sequence[Any], n: int) -> list[int]:
    """The first `n` indices of each category, in the order given."""
    counts: dict[Any, int] = {}
    chosen = []
    for index in order:
        category = str(categories[index])
        counts[category] = counts.get(category, 0) + 1
        if counts[category] <= n:
            chosen.append(index)
    return chosen


def _is_mask(samples: Any) -> bool:
    if isinstance(samples, (Tensor, np.ndarray)):
        return str(samples.dtype).endswith("bool")
    return isinstance(samples, (list, tuple)) and bool(samples) and all(isinstance(each, bool) for each in samples)


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray) else value


def _numbers(values: Any, option: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values.cpu().double() if isinstance(values, Tensor) else values, np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(f"run.keep({option}=) got {type_text(values)}: pass one number per sample.") from None
    if array.ndim != 1:
        shape = list(array.shape)
        raise InputError(f"run.keep({option}=) has shape {shape}: pass one number per sample, as in loss.mean(dim=1).")
    return array


def hold_field(values: Any) -> Any:
    """A field of `run.samples` until the step is kept: a copy, because the program may reuse its list or tensor."""
    if isinstance(values, Tensor):
        return values.detach().clone()
    if isinstance(values, np.ndarray):
        return values.copy()
    return list(values) if isinstance(values, list) else values


def entries_of(values: Any) -> Sequence[Any]:
    """The entries of a field, one per sample; a tensor is fetched from its device."""
    if isinstance(values, (Tensor, np.ndarray)):
        entries: Sequence[Any] = values.tolist() if values.ndim else [values.item()]
        return entries
    return [values] if isinstance(values, (str, bytes)) else list(values)
