"""The lesion sweep: each part of a model changed in turn, and what that does to a metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from cutaway.capture.editing import edit
from cutaway.capture.model_state import ModelState
from cutaway.capture.parts import Part, heads_of
from cutaway.capture.places import Named
from cutaway.core.errors import InputError
from cutaway.core.progress import progress
from cutaway.core.sites import ROOT
from cutaway.results.lesions import Each, Lesions, name_of
from cutaway.studies.fingerprints import in_words, of_change, of_state, state_of
from cutaway.studies.journal import Head, Journal
from cutaway.studies.looking import Seen, look
from cutaway.studies.measuring import as_metric, called, check_unchanged

_EACH = ("site", "unit", "head")


@dataclass(frozen=True, slots=True)
class _Lesion:
    """One edit of the sweep."""

    seen: Seen
    name: str
    part: int = -1
    n_heads: int = 0
    width: int = -1

    def edit(self, model: nn.Module, to: Any) -> edit:
        site = self.seen.site
        if self.part < 0:
            return edit(model, site, to)
        if self.n_heads:
            return edit(model, site, to, **Part(heads=self.part, n_heads=self.n_heads))
        return edit(model, replace(site, unit=self.part), to)


def lesion(
    model: nn.Module,
    metric: Callable[[], Any],
    *,
    at: Any,
    each: Each = "site",
    to: Any = 0,
    n_heads: int | None = None,
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
        path: a folder or `.jsonl` file that holds what is done, so that the study goes on after an interruption.
    """
    if each not in _EACH:
        raise InputError(f"each={each!r}: give {', '.join(map(repr, _EACH))}.")
    if not callable(metric):
        raise InputError(f"metric={metric!r}: give a function that runs the model and returns a number.")
    before, state = state_of(model), ModelState(getattr(model, "_orig_mod", model))
    keep = "means" if isinstance(to, str) and to == "mean" else "shapes"
    with state.undone():
        returned, found = look(model, at, lambda: called(metric), keep=keep)
        baseline = as_metric(returned, "without a lesion")
    check_unchanged(model, before, "the metric")
    lesions = [lesion for seen in found for lesion in _lesions_of(seen, each, n_heads, model)]
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
            with state.undone(), now.edit(model, changes[id(now.seen)]):
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
        )


def _lesions_of(seen: Seen, each: Each, n_heads: int | None, model: nn.Module) -> Iterator[_Lesion]:
    site = str(seen.site)
    if each == "head":
        yield from _heads(seen, n_heads or _heads_around(seen, model))
    elif each == "unit":
        n = seen.size(seen.dimension, "unit")
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
    if len(seen.shape) == 4 and seen.shape[1] == n:
        width = 0
    else:
        width, rest = divmod(seen.size(-1, "unit"), n)
        if rest:
            raise InputError(f"{n} heads do not divide the last dimension of {site!r}, of shape {list(seen.shape)}.")
    for head in range(n):
        yield _Lesion(seen, name_of(site, head, "head"), head, n, width)


def _heads_around(seen: Seen, model: nn.Module) -> int | None:
    """How many heads the module says it has, or the nearest one around it."""
    named = Named.of(getattr(model, "_orig_mod", model))
    parts = [] if seen.site.address == ROOT else seen.site.address.split(".")
    for n in range(len(parts), -1, -1):
        found = heads_of(named.modules.get(".".join(parts[:n]) or ROOT))
        if found is not None:
            return found
    return None
