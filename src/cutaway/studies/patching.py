"""The patching sweep: values of a clean run put into a corrupted one, site by site and position by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from cutaway.capture.interventions.edit import edit
from cutaway.capture.interventions.regions import Part
from cutaway.capture.model.state import ModelState
from cutaway.core.errors import EditError, InputError
from cutaway.core.progress import progress
from cutaway.results.patching import Patching
from cutaway.studies.fingerprints import of_state, state_of
from cutaway.studies.journal import Head, Journal
from cutaway.studies.metric_call import as_metric, called, check_unchanged
from cutaway.studies.reached_sites import Seen, look

Positions = Literal["each"] | Sequence[int] | None


@dataclass(frozen=True, slots=True)
class _Clean:
    """The values of the clean run at one site, for an edit to take."""

    seen: Seen

    def value_at(self, site: str, /) -> Tensor:
        try:
            return self.seen.values[site]
        except KeyError:
            raise EditError(f"the clean run has no value at {site!r}, and the corrupted one does.") from None


def patch(
    model: nn.Module,
    metric: Callable[[Any], Any],
    *,
    clean: Callable[[], Any],
    corrupted: Callable[[], Any],
    at: Any,
    positions: Positions = None,
    path: str | Path | None = None,
) -> Patching:
    """Put single values of a clean run into a corrupted run, and measure how much of the clean result comes back.

    >>> import torch, cutaway
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
    >>> x, y = torch.ones(1, 4), torch.zeros(1, 4)
    >>> patching = cutaway.studies.patch(
    ...     model, lambda out: out.item(), clean=lambda: model(x), corrupted=lambda: model(y), at="*"
    ... )
    >>> patching.recovered.ravel().tolist()
    [1.0, 1.0]

    Args:
        metric: from what `corrupted` (or `clean`) returned to a number or an array of numbers.
        clean: runs the model on the input from which values are taken.
        corrupted: runs it on the input into which they are put.
        at: what `cutaway.edit` takes: sites, patterns, ops, a selection; each is a row.
        positions: None patches whole values; "each", or some positions (tokens of a text), one at a time. The two
            inputs then have to have the same length.
        path: a folder or `.jsonl` file that holds what is done, so that the study goes on after an interruption.
    """
    for name, function in (("metric", metric), ("clean", clean), ("corrupted", corrupted)):
        if not callable(function):
            raise InputError(f"{name}={type(function).__name__}: give a function; clean=lambda: model(x), say.")
    before, state = state_of(model), ModelState(getattr(model, "_orig_mod", model))
    with state.undo_changes():
        returned, found = look(model, at, lambda: called(clean), keep="values", counts=positions is not None)
        clean_metric = as_metric(called(lambda: metric(returned)), "of the clean run")
    with state.undo_changes():
        sites = [seen.site for seen in found]
        returned, there = look(model, sites, lambda: called(corrupted), counts=False)
        _check_shapes(found, there)
        corrupted_metric = as_metric(called(lambda: metric(returned)), "of the corrupted run", clean_metric)
    check_unchanged(model, before, "a run")
    columns = _columns(found, positions)
    rows = [(seen, position) for seen in found for position in columns]
    names = [str(seen.site) + ("" if position is None else f" position {position}") for seen, position in rows]
    head = Head.of(
        "patching",
        type(model).__name__,
        values=of_state(before, model),
        change="positions " + ", ".join(map(str, columns)),
        sites=[str(seen.site) for seen in found],
        rows=names,
        baseline=np.stack([clean_metric, corrupted_metric]),
    )
    with Journal(path, head) as journal:
        left = [row for row in range(len(rows)) if row not in journal.done]
        for row in progress(left, len(left), "patches"):
            seen, position = rows[row]
            part = Part() if position is None else Part(positions=position)
            with state.undo_changes():
                with edit(model, seen.named(), _Clean(seen), **part):
                    returned = called(corrupted)
                score = called(lambda: metric(returned))
            journal.add(row, names[row], as_metric(score, f"with a patch at {names[row]!r}", clean_metric))
        both = np.array(journal.baseline).reshape(2, *clean_metric.shape)
        return Patching(
            model=type(model).__name__,
            sites=tuple(str(seen.site) for seen in found),
            positions=np.array([-1 if position is None else position for position in columns], dtype=np.int64),
            clean=both[0].copy(),
            corrupted=both[1].copy(),
            scores=journal.scores().reshape(len(found), len(columns), *clean_metric.shape),
        )


def _check_shapes(clean: list[Seen], corrupted: list[Seen]) -> None:
    there = {str(seen.site): seen.shapes for seen in corrupted}
    for seen in clean:
        if seen.module is None:
            raise InputError(f"{str(seen.site)!r} is a parameter, the same in both runs: patch values.")
        for full, shape in there[str(seen.site)].items():
            was = seen.shapes.get(full)
            if was != shape:
                had = "none" if was is None else f"one of shape {list(was)}"
                raise InputError(
                    f"the value of {full!r} has shape {list(shape)} in the corrupted run, and the clean run has {had}: "
                    "both inputs have to have the same shape. Choose or pad them so that they have the same length."
                )


def _columns(found: list[Seen], positions: Positions) -> list[int | None]:
    if positions is None:
        return [None]
    lengths = {str(seen.site): seen.n_positions for seen in found}
    shortest, longest = min(lengths, key=lambda site: lengths[site]), max(lengths, key=lambda site: lengths[site])
    if isinstance(positions, str):
        if positions != "each":
            raise InputError(f'positions={positions!r}: give None, "each", or some numbers.')
        if lengths[shortest] != lengths[longest]:
            raise InputError(
                f"{shortest!r} has {lengths[shortest]} positions and {longest!r} {lengths[longest]}: choose sites of "
                "one sequence with at=, or give the positions."
            )
        return [*range(lengths[longest])]
    chosen: list[int | None] = []
    for position in positions:
        if isinstance(position, bool) or not 0 <= int(position) < lengths[shortest]:
            raise InputError(f"position {position!r}: {shortest!r} has {lengths[shortest]} positions, from 0.")
        chosen.append(int(position))
    if not chosen:
        raise InputError('positions= is empty: give None, "each", or some numbers.')
    return chosen
