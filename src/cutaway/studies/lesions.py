"""The lesion sweep: each part of a model changed in turn, and what that does to a metric."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from cutaway.capture.interventions.edit import edit
from cutaway.capture.interventions.regions import Part, heads_of
from cutaway.capture.interventions.targets import ModelIndex
from cutaway.capture.model.state import ModelState
from cutaway.capture.units.live_units import UnitDim
from cutaway.core.errors import InputError, UnitError
from cutaway.core.progress import progress
from cutaway.core.sites import ROOT
from cutaway.results.lesions import Each, Lesions, name_of
from cutaway.studies.fingerprints import in_words, of_change, of_state, state_of
from cutaway.studies.journal import Head, Journal
from cutaway.studies.metric_call import as_metric, called, check_unchanged
from cutaway.studies.reached_sites import Keep, Seen, look

_EACH = ("site", "unit", "head")


@dataclass(frozen=True, slots=True)
class _Lesion:
    """One edit of the sweep."""

    seen: Seen
    name: str
    part: int = -1
    n_heads: int = 0
    width: int = -1

    def edit(self, model: nn.Module, to: Any, stated: Part) -> edit:
        """The edit, which counts units as the first run did."""
        if self.part < 0:
            return edit(model, self.seen.named(), to, **stated)
        if self.n_heads:
            part = Part(heads=self.part, n_heads=self.n_heads)
            part.update(stated)
            return edit(model, self.seen.named(), to, **part)
        return edit(model, self.seen.named(self.part), to, **stated)


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
    """Change each part of a model in turn, and measure what that does.

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
        metric: runs the model as it likes, and returns a number or an array of numbers: one a class, one a sample.
        at: what `cutaway.edit` takes: sites, patterns, ops, a selection.
        each: one lesion a "site", a "unit" or a "head".
        to: what `cutaway.edit` takes, or "mean": the mean of each unit over the unedited run.
        n_heads: how many heads there are, where neither the module nor one around it says so.
        unit_dim: the dimension that counts units, or several in the order of the flat index, as for `cutaway.edit`.
        path: a folder or `.jsonl` file that holds what is done, so that the study goes on after an interruption.
    """
    if each not in _EACH:
        raise InputError(f"each={each!r}: give {', '.join(map(repr, _EACH))}.")
    if not callable(metric):
        raise InputError(f"metric={metric!r}: give a function that runs the model and returns a number.")
    before, state = state_of(model), ModelState(getattr(model, "_orig_mod", model))
    keep: Keep = "means" if isinstance(to, str) and to == "mean" else "shapes"
    counts = each != "site" or keep == "means"
    with state.undo_changes():
        returned, every = look(model, at, lambda: called(metric), keep=keep, counts=counts, unit_dim=unit_dim)
        baseline = as_metric(returned, "without a lesion")
    check_unchanged(model, before, "the metric")
    found, left_out = _counted(every) if counts else (every, {})
    lesions = [lesion for seen in found for lesion in _lesions_of(seen, each, n_heads, model)]
    stated = Part() if unit_dim is None else Part(unit_dim=unit_dim)
    changes = {id(seen): seen.mean() if keep == "means" else to for seen in found}
    head = Head.of(
        "lesions",
        type(model).__name__,
        values=of_state(before, model),
        change=of_change(to),
        sites=[str(seen.site) for seen in found],
        rows=[lesion.name for lesion in lesions],
        baseline=baseline[None],
    )
    with Journal(path, head) as journal:
        left = [row for row in range(len(lesions)) if row not in journal.done]
        for row in progress(left, len(left), "lesions"):
            now = lesions[row]
            with state.undo_changes(), now.edit(model, changes[id(now.seen)], stated):
                score = as_metric(called(metric), f"with a lesion at {now.name!r}", baseline)
            journal.add(row, now.name, score)
        return Lesions(
            model=type(model).__name__,
            each=each,
            to=in_words(to),
            sites=tuple(str(lesion.seen.site) for lesion in lesions),
            parts=np.array([lesion.part for lesion in lesions], dtype=np.int64),
            widths=np.array([lesion.width for lesion in lesions], dtype=np.int64),
            baseline=np.array(journal.baseline).reshape(baseline.shape),
            scores=journal.scores(),
            left_out=left_out,
        )


def _counted(every: list[Seen]) -> tuple[list[Seen], dict[str, str]]:
    """Sites whose units are known; of those that a pattern covers, the others with the reason."""
    found, left_out = [], {}
    for seen in every:
        try:
            seen.layout.check(str(seen.site))
        except UnitError as error:
            if seen.is_named:
                raise
            left_out[str(seen.site)] = str(error)
        else:
            found.append(seen)
    if not found:
        raise UnitError(next(iter(left_out.values())))
    if left_out:
        n = f"{len(left_out):,} site{'s' if len(left_out) > 1 else ''}"
        why = next(iter(left_out.values()))
        warnings.warn(
            f"cutaway: {n} that the pattern covers have no lesion, all in lesions.left_out. {why}",
            UserWarning,
            stacklevel=3,
        )
    return found, left_out


def _lesions_of(seen: Seen, each: Each, n_heads: int | None, model: nn.Module) -> Iterator[_Lesion]:
    site = str(seen.site)
    if each == "head":
        yield from _heads(seen, n_heads or _heads_around(seen, model))
    elif each == "unit":
        n = seen.n_units
        for unit in seen.chosen if seen.chosen is not None else range(n):
            if unit >= n:
                raise InputError(f"{site!r} has {n} units, and unit {unit} was asked for.")
            yield _Lesion(seen, name_of(site, unit, each), unit)
    elif seen.chosen is not None:
        raise InputError(f'{site}#{seen.chosen[0]} is a unit: say each="unit", or leave the unit out.')
    else:
        yield _Lesion(seen, site)


def _heads(seen: Seen, n: int | None) -> Iterator[_Lesion]:
    site = str(seen.site)
    if seen.module is None or seen.chosen is not None:
        raise InputError(f"{site!r} has no heads: give a site of a module or op, without a unit.")
    if n is None:
        raise InputError(f"neither {site!r} nor a module around it says how many heads there are: add n_heads=.")
    width, rest = divmod(seen.n_units, n)
    if rest or not width:
        raise InputError(
            f"{n} heads do not divide the {seen.n_units} units of {site!r}, of shape {list(seen.layout.shape)}."
        )
    for head in range(n):
        yield _Lesion(seen, name_of(site, head, "head"), head, n, width)


def _heads_around(seen: Seen, model: nn.Module) -> int | None:
    """How many heads the module says it has, or the nearest one around it."""
    named = ModelIndex.of(getattr(model, "_orig_mod", model))
    parts = [] if seen.site.address == ROOT else seen.site.address.split(".")
    for n in range(len(parts), -1, -1):
        found = heads_of(named.modules.get(".".join(parts[:n]) or ROOT))
        if found is not None:
            return found
    return None
