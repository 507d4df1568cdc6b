"""`patch`: activation patching, by site and position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from cutaway.capture.interventions.edit import edit
from cutaway.capture.model.state import ModelState
from cutaway.core.errors import EditError, InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.core.progress import progress
from cutaway.results.patching import Patching
from cutaway.studies.fingerprints import combined_fingerprint, state_fingerprints
from cutaway.studies.journal import Journal, StudyHeader
from cutaway.studies.metric_call import call_metric, check_model, check_unchanged, to_metric
from cutaway.studies.reached_sites import ReachedSite, reach_sites

Positions = Literal["each"] | Sequence[int] | None


@dataclass(frozen=True, slots=True)
class _CleanValues:
    """Source of an edit: the values of the clean run at one site."""

    reached: ReachedSite

    def value_at(self, site: str, /) -> Tensor:
        try:
            return self.reached.values[site]
        except KeyError:
            raise EditError(f"the clean run has no value at {site!r}, but the corrupted run does.") from None


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
    """Patch activations of a clean run into a corrupted run, and measure how much of the clean metric is recovered.

    >>> import torch, cutaway
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
    >>> x, y = torch.ones(1, 4), torch.zeros(1, 4)
    >>> patching = cutaway.studies.patch(
    ...     model, lambda out: out.item(), clean=lambda: model(x), corrupted=lambda: model(y), at="*"
    ... )
    >>> patching.recovered.ravel().tolist()
    [1.0, 1.0]

    Args:
        model: the model to edit.
        metric: converts the result of `clean` or `corrupted` to a number or an array of numbers.
        clean: a function that runs the model on the clean input.
        corrupted: a function that runs the model on the corrupted input.
        at: sites, patterns, ops or a selection, as for `cutaway.edit`; each is a row.
        positions: None patches whole values; "each", or a list of positions (tokens), patches one at a time. Both
            inputs must then have the same length.
        path: a folder or `.jsonl` file that stores finished rows. Repeat the call to resume after an interruption.
    """
    check_model(model, "patch(model, metric, clean=…, corrupted=…, at=…)")
    for name, function in (("metric", metric), ("clean", clean), ("corrupted", corrupted)):
        if not callable(function):
            example = "lambda output: output[0, 1].item()" if name == "metric" else f"{name}=lambda: model(x)"
            raise InputTypeError(f"{name} is {type_text(function)}: pass a function, such as {example}.")
    before, state = state_fingerprints(model), ModelState(getattr(model, "_orig_mod", model))
    with state.undo_changes():
        returned, sites = reach_sites(
            model, at, lambda: call_metric(clean), keep="values", counts=positions is not None
        )
        clean_metric = to_metric(call_metric(lambda: metric(returned)), "of the clean run")
    with state.undo_changes():
        # The sites of the clean run, not `at`: a pattern may match others in the corrupted run.
        same_sites = [reached.site for reached in sites]
        returned, corrupted_sites = reach_sites(model, same_sites, lambda: call_metric(corrupted), counts=False)
        _check_shapes(sites, corrupted_sites)
        corrupted_metric = to_metric(call_metric(lambda: metric(returned)), "of the corrupted run", clean_metric)
    check_unchanged(model, before, "a run")
    columns = _columns(sites, positions)
    rows = [(reached, position) for reached in sites for position in columns]
    names = [str(reached.site) + ("" if position is None else f" position {position}") for reached, position in rows]
    header = StudyHeader.of(
        "patching",
        type(model).__name__,
        values=combined_fingerprint(before, model),
        change="positions " + ", ".join(map(str, columns)),
        sites=[str(reached.site) for reached in sites],
        rows=names,
        baseline=np.stack([clean_metric, corrupted_metric]),
    )
    with Journal(path, header) as journal:
        remaining = [row for row in range(len(rows)) if row not in journal.done]
        for row in progress(remaining, len(remaining), "patches"):
            reached, position = rows[row]
            with state.undo_changes():
                with edit(model, reached.named(), _CleanValues(reached), positions=position):
                    returned = call_metric(corrupted)
                # Outside the edit: a metric may run the model itself.
                score = call_metric(lambda: metric(returned))
            journal.add(row, names[row], to_metric(score, f"with a patch at {names[row]!r}", clean_metric))
        both = np.array(journal.baseline).reshape(2, *clean_metric.shape)
        return Patching(
            model=type(model).__name__,
            sites=tuple(str(reached.site) for reached in sites),
            positions=np.array([-1 if position is None else position for position in columns], dtype=np.int64),
            clean=both[0].copy(),
            corrupted=both[1].copy(),
            scores=journal.scores().reshape(len(sites), len(columns), *clean_metric.shape),
        )


def _check_shapes(clean: list[ReachedSite], corrupted: list[ReachedSite]) -> None:
    corrupted_shapes = {str(reached.site): reached.shapes for reached in corrupted}
    for reached in clean:
        if reached.module is None:
            raise InputError(f"{str(reached.site)!r} is a parameter, the same in both runs: patch activations.")
        for full, shape in corrupted_shapes[str(reached.site)].items():
            was = reached.shapes.get(full)
            if was != shape:
                had = "none" if was is None else f"one of shape {list(was)}"
                raise InputError(
                    f"the value of {full!r} has shape {list(shape)} in the corrupted run, but the clean run has {had}: "
                    "both inputs must have the same shape. Choose or pad them so that they have the same length."
                )


def _columns(sites: list[ReachedSite], positions: Positions) -> list[int | None]:
    if positions is None:
        return [None]
    lengths = {str(reached.site): reached.n_positions for reached in sites}
    shortest, longest = min(lengths, key=lambda site: lengths[site]), max(lengths, key=lambda site: lengths[site])
    if isinstance(positions, str):
        if positions != "each":
            raise InputError(f'positions={positions!r}: pass None, "each", or a list of numbers.')
        if lengths[shortest] != lengths[longest]:
            raise InputError(
                f"{shortest!r} has {lengths[shortest]} positions and {longest!r} {lengths[longest]}: choose sites of "
                "one sequence with at=, or pass a list of positions."
            )
        return [*range(lengths[longest])]
    chosen: list[int | None] = []
    for position in positions:
        if isinstance(position, bool) or not 0 <= int(position) < lengths[shortest]:
            raise InputError(f"position {position!r} does not exist: {shortest!r} has {lengths[shortest]} positions.")
        chosen.append(int(position))
    if not chosen:
        raise InputError('positions= is empty: pass None, "each", or a list of numbers.')
    return chosen
