"""`lesion`: change each part of a model in turn and measure the effect on a metric."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from cutaway.capture.interventions.edit import edit
from cutaway.capture.interventions.regions import heads_of
from cutaway.capture.interventions.targets import ModelIndex
from cutaway.capture.model.state import ModelState
from cutaway.capture.units.live_units import UnitDim
from cutaway.core.errors import InputError, InputTypeError, UnitError
from cutaway.core.formatting import hint, plural, type_text
from cutaway.core.progress import progress
from cutaway.core.sites import ROOT
from cutaway.results.lesions import Each, Lesions, name_of
from cutaway.studies.fingerprints import change_fingerprint, combined_fingerprint, describe_change, state_fingerprints
from cutaway.studies.journal import Journal, StudyHeader
from cutaway.studies.metric_call import call_metric, check_model, check_unchanged, to_metric
from cutaway.studies.reached_sites import Keep, ReachedSite, reach_sites

_EACH = ("site", "unit", "head")


@dataclass(frozen=True, slots=True)
class _Lesion:
    """One edit of the sweep."""

    reached: ReachedSite
    name: str
    part: int = -1
    n_heads: int = 0
    width: int = -1

    def edit(self, model: nn.Module, to: Any, unit_dim: UnitDim | None) -> edit:
        """The edit, with the units as the first run counted them."""
        if self.part < 0:
            return edit(model, self.reached.named(), to, unit_dim=unit_dim)
        if self.n_heads:
            return edit(model, self.reached.named(), to, unit_dim=unit_dim, heads=self.part, n_heads=self.n_heads)
        return edit(model, self.reached.named(self.part), to, unit_dim=unit_dim)


def lesion(
    model: nn.Module,
    metric: Callable[[], Any],
    *,
    at: Any,
    each: Each = "site",
    to: Any = 0,
    n_heads: int | None = None,
    unit_dim: UnitDim | None = None,
    path: str | Path | None = None,
) -> Lesions:
    """Change each part of a model in turn, and measure the effect on a metric.

    >>> import torch, cutaway
    >>> model = torch.nn.Linear(3, 1, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[5.0, 0.0, -1.0]]))
    >>> x = torch.ones(1, 3)
    >>> lesions = cutaway.studies.lesion(model, lambda: model(x), at=".@in.0", each="unit")
    >>> lesions.effect.ravel()
    array([-5.,  0.,  1.])
    >>> lesions.top(2)
    ['.@in.0#0', '.@in.0#2']

    Args:
        model: the model to edit.
        metric: a function that runs the model and returns a number, or an array of numbers (per class or sample).
        at: sites, patterns, ops or a selection, as for `cutaway.edit`.
        each: one lesion per "site", "unit" or "head".
        to: the new value, as for `cutaway.edit`, or "mean": the mean of each unit over the unedited run.
        n_heads: the number of attention heads, if neither the module nor a module around it defines it.
        unit_dim: the unit dimension, or several in the order of the flat index, as for `cutaway.edit`.
        path: a folder or `.jsonl` file that stores finished rows. Repeat the call to resume after an interruption.
    """
    check_model(model, "lesion(model, metric, at=…)")
    if each not in _EACH:
        raise InputError(f"each={each!r}: pass {', '.join(map(repr, _EACH))}.{hint(each, _EACH)}")
    if not callable(metric):
        raise InputTypeError(
            f"metric is {type_text(metric)}: pass a function that runs the model and returns a number, such as "
            "lambda: loss(model(x)).item()."
        )
    before, state = state_fingerprints(model), ModelState(getattr(model, "_orig_mod", model))
    keep: Keep = "means" if isinstance(to, str) and to == "mean" else "shapes"
    counts = each != "site" or keep == "means"
    with state.undo_changes():
        returned, every = reach_sites(
            model, at, lambda: call_metric(metric), keep=keep, counts=counts, unit_dim=unit_dim
        )
        baseline = to_metric(returned, "without a lesion")
    check_unchanged(model, before, "the metric")
    sites, left_out = _with_known_units(every) if counts else (every, {})
    lesions = [lesion for reached in sites for lesion in _lesions_of(reached, each, n_heads, model)]
    # By identity: ReachedSite compares by value and has no hash.
    changes = {id(reached): reached.mean() if keep == "means" else to for reached in sites}
    header = StudyHeader.of(
        "lesions",
        type(model).__name__,
        values=combined_fingerprint(before, model),
        change=change_fingerprint(to),
        sites=[str(reached.site) for reached in sites],
        rows=[lesion.name for lesion in lesions],
        baseline=baseline[None],
    )
    with Journal(path, header) as journal:
        remaining = [row for row in range(len(lesions)) if row not in journal.done]
        for row in progress(remaining, len(remaining), "lesions"):
            current = lesions[row]
            with state.undo_changes(), current.edit(model, changes[id(current.reached)], unit_dim):
                score = to_metric(call_metric(metric), f"with a lesion at {current.name!r}", baseline)
            journal.add(row, current.name, score)
        return Lesions(
            model=type(model).__name__,
            each=each,
            to=describe_change(to),
            sites=tuple(str(lesion.reached.site) for lesion in lesions),
            parts=np.array([lesion.part for lesion in lesions], dtype=np.int64),
            widths=np.array([lesion.width for lesion in lesions], dtype=np.int64),
            baseline=np.array(journal.baseline).reshape(baseline.shape),
            scores=journal.scores(),
            left_out=left_out,
        )


def _with_known_units(every: list[ReachedSite]) -> tuple[list[ReachedSite], dict[str, str]]:
    """Sites whose units are known, and the others that a pattern matches → the reason."""
    sites, left_out = [], {}
    for reached in every:
        try:
            reached.layout.check(str(reached.site))
        except UnitError as error:
            if reached.is_named:
                raise
            left_out[str(reached.site)] = str(error)
        else:
            sites.append(reached)
    if not sites:
        raise UnitError(next(iter(left_out.values())))
    if left_out:
        n = plural(len(left_out), "site")
        why = next(iter(left_out.values()))
        warnings.warn(
            f"cutaway: {n} matched by the pattern cannot be lesioned, see lesions.left_out. {why}",
            UserWarning,
            stacklevel=3,
        )
    return sites, left_out


def _lesions_of(reached: ReachedSite, each: Each, n_heads: int | None, model: nn.Module) -> Iterator[_Lesion]:
    site = str(reached.site)
    if each == "head":
        yield from _heads(reached, n_heads or _heads_around(reached, model))
    elif each == "unit":
        for unit in reached.chosen if reached.chosen is not None else range(reached.n_units):
            reached.layout.check_unit(unit, site)
            yield _Lesion(reached, name_of(site, unit, each), unit)
    elif reached.chosen is not None:
        raise InputError(f'{site}#{reached.chosen[0]} is a unit: set each="unit", or drop the unit.')
    else:
        yield _Lesion(reached, site)


def _heads(reached: ReachedSite, n: int | None) -> Iterator[_Lesion]:
    site = str(reached.site)
    if reached.module is None or reached.chosen is not None:
        raise InputError(f"{site!r} has no heads: pass a site of a module or op, without a unit.")
    if n is None:
        raise InputError(f"neither {site!r} nor a module around it defines the number of heads: set n_heads=.")
    width, rest = divmod(reached.n_units, n)
    if rest or not width:
        raise InputError(
            f"{n} heads do not divide the {reached.n_units} units of {site!r}, shape {list(reached.layout.shape)}."
        )
    for head in range(n):
        yield _Lesion(reached, name_of(site, head, "head"), head, n, width)


def _heads_around(reached: ReachedSite, model: nn.Module) -> int | None:
    """The number of heads that the module defines, or the nearest module around it."""
    named = ModelIndex.of(getattr(model, "_orig_mod", model))
    parts = [] if reached.site.address == ROOT else reached.site.address.split(".")
    for n in range(len(parts), -1, -1):
        n_heads = heads_of(named.modules.get(".".join(parts[:n]) or ROOT))
        if n_heads is not None:
            return n_heads
    return None
