"""Filters on the steps and samples of a run for the viewer: how each was understood, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutaway.core.errors import InputError
from cutaway.store.runs.filtered import RunFilter
from cutaway.store.runs.filters import EXAMPLES, Filter, parse_filter, sample_fields, sites_with_samples
from cutaway.store.runs.run import Run


@dataclass(frozen=True, slots=True)
class FilterTerm:
    """One filter."""

    text: str
    """As the user wrote it."""
    meaning: str
    """What it keeps: "steps whose logged loss is above 2"; "" if it was not understood."""
    error: str
    """Why it was not understood, and what would be; "" if it was."""


@dataclass(frozen=True, slots=True)
class FilterView:
    """What some filters leave of a run. Filters that were not understood are left out."""

    terms: tuple[FilterTerm, ...]
    steps: tuple[int, ...]
    """The recorded steps that are left, in order."""
    samples: tuple[tuple[int, ...], ...] | None
    """The kept samples of each of these steps that pass, by number; None if all do."""
    n_steps: int
    """Number of recorded steps."""
    n_samples: int
    """Number of kept samples that pass."""
    n_all_samples: int
    """Number of kept samples of all recorded steps."""
    names: tuple[str, ...]
    """What this run can be filtered by, to suggest: `loss`, `kind`, `label`…"""
    examples: str


def filter_view(run: Run, texts: Sequence[str], index: RunFilter) -> FilterView:
    """Apply filters to a run.

    Args:
        texts: the filters, one each.
        index: keeps what was read of the samples from one call to the next.
    """
    terms: list[FilterTerm] = []
    understood: list[Filter] = []
    for text in texts:
        try:
            parsed = parse_filter(text, run)
        except InputError as error:
            terms.append(FilterTerm(text, "", str(error)))
        else:
            understood.append(parsed)
            terms.append(FilterTerm(text, parsed.meaning, ""))
    left = index.apply(understood)
    names = ("step", "kind", *run.scalars, "note", "level", *sample_fields(run), "token", *sites_with_samples(run))
    return FilterView(
        terms=tuple(terms),
        steps=tuple(run.timeline.steps[left.places].tolist()),
        samples=left.samples,
        n_steps=len(run.timeline),
        n_samples=left.n_samples,
        n_all_samples=left.n_all_samples,
        names=tuple(dict.fromkeys(names)),
        examples=EXAMPLES,
    )


def passing_samples(run: Run, texts: Sequence[str], index: RunFilter, step: int) -> tuple[int, ...] | None:
    """The kept samples of a step that pass, by number; None if no filter is about samples."""
    view = filter_view(run, texts, index)
    if view.samples is None:
        return None
    return dict(zip(view.steps, view.samples, strict=True)).get(step, ())
