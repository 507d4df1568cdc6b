"""The steps and samples of a run that pass some filters."""

from __future__ import annotations

import math
import operator
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError
from cutaway.store.format.records import SAMPLE, VALUE, Row, StepRecord
from cutaway.store.reading.index import SessionIndex
from cutaway.store.runs.filters import Filter, is_number_per_sample
from cutaway.store.runs.run import Run
from cutaway.store.runs.samples import read_samples
from cutaway.store.runs.step import Step

_ORDER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MOST_TERMS: Final = 32
"""How many filters on samples keep their results."""
_MOST_ENTRIES: Final = 1_000_000
"""How many entries of samples are kept in memory: another value of the same field is then a matter of milliseconds."""

Numbers = tuple[int, ...]
StepKey = tuple[int, int]
"""Session and step: a step that was recorded again has another key."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """What some filters leave of a run."""

    places: NDArray[np.intp]
    """Places of the steps in the timeline, in order."""
    samples: tuple[Numbers, ...] | None
    """The kept samples of each of these steps that pass, by number; None if no filter is about samples."""
    n_samples: int
    """How many kept samples pass, over all of these steps."""
    n_all_samples: int
    """How many samples were kept at all steps of the run."""


class RunFilter:
    """Applies filters to a run, and keeps what it read of the samples for the next time.

    A step is left if it passes all filters on steps and at least one of its kept samples passes all filters on samples.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._n_kept: dict[tuple[int, int], int] = {}
        """Session and layout → number of kept samples."""
        self._rows: dict[tuple[str, str, int, int], list[tuple[Row, int]]] = {}
        """What is read, session and layout → its rows with their positions in a block."""
        self._passing: OrderedDict[Filter, dict[StepKey, Numbers]] = OrderedDict()
        self._entries: dict[tuple[str, str], dict[StepKey, Sequence[Any]]] = {}
        """What was read → its entries by step."""
        self._n_entries = 0

    def apply(self, filters: Sequence[Filter]) -> Filtered:
        """The steps and samples that pass all of these filters.

        Args:
            filters: from `parse_filter`.
        """
        timeline = self._run.timeline
        is_left = np.ones(len(timeline), bool)
        for each in filters:
            if each.is_of_steps:
                is_left &= self._passing_steps(each)
        places = np.flatnonzero(is_left)
        counts = self._counts()
        of_samples = [each for each in filters if not each.is_of_steps]
        if not of_samples:
            return Filtered(places, None, int(counts[places].sum()), int(counts.sum()))
        left: dict[int, Numbers] = {}
        known = [(each, self._known(each)) for each in of_samples]
        for place in places[counts[places] > 0].tolist():
            numbers: set[int] | None = None
            for each, results in known:
                passing = self._passing_samples(each, results, place)
                numbers = set(passing) if numbers is None else numbers.intersection(passing)
                if not numbers:
                    break
            if numbers:
                left[place] = tuple(sorted(numbers))
        n = sum(map(len, left.values()))
        return Filtered(np.fromiter(left, np.intp, len(left)), tuple(left.values()), n, int(counts.sum()))

    def field_at(self, step: int, name: str) -> Sequence[Any]:
        """One field of the kept samples of a step, without reading the others; empty if the step has none.

        Args:
            step: any step, recorded or not.
            name: the field: "ids", "label"…
        """
        place = self._run.timeline.position(step)
        if place is None:
            return ()
        field = Filter("field", name, "=", "", float("nan"))
        return self._entries_at(field, self._run.timeline.indexes[place], self._run.timeline.records[place])

    # steps

    def _passing_steps(self, filter_: Filter) -> NDArray[np.bool_]:
        timeline = self._run.timeline
        if filter_.source == "step":
            return np.asarray(_ORDER[filter_.comparison](timeline.steps, filter_.number))
        is_left = np.zeros(len(timeline), bool)
        if filter_.source == "kind":
            for kind, places in timeline.kinds.items():
                is_left[places] = passes(kind, filter_)
            return is_left
        if filter_.source == "logged":
            values = _at_steps(self._run, filter_.name)
            with np.errstate(invalid="ignore"):
                # NaN is above and below nothing, and a step without a value passes no comparison at all.
                return np.asarray(_ORDER[filter_.comparison](values, filter_.number)) & ~np.isnan(values)
        # Steps with a note that does not match would also pass "!=": it means that no note matches.
        is_negated = filter_.comparison == "!="
        wanted = filter_ if not is_negated else _negated(filter_)
        texts = ((note.step, note.text if filter_.source == "note" else note.level) for note in self._run.notes)
        steps = {step for step, text in texts if step is not None and passes(text, wanted)}
        return np.isin(timeline.steps, list(steps), invert=is_negated)

    # samples

    def _counts(self) -> NDArray[np.int64]:
        """The number of kept samples of each step."""
        timeline = self._run.timeline
        return np.fromiter(map(self._count, timeline.indexes, timeline.records), np.int64, len(timeline))

    def _count(self, index: SessionIndex, record: StepRecord) -> int:
        if record.block is None:
            return 0
        key = (index.number, record.block.layout)
        if key not in self._n_kept:
            try:
                self._n_kept[key] = Step(self._run.archive, index, record).n_samples
            except DamagedError:
                self._n_kept[key] = 0
        return self._n_kept[key]

    def _known(self, filter_: Filter) -> dict[StepKey, Numbers]:
        """The results of a filter so far."""
        known = self._passing.setdefault(filter_, {})
        self._passing.move_to_end(filter_)
        while len(self._passing) > _MOST_TERMS:
            self._passing.popitem(last=False)
        return known

    def _passing_samples(self, filter_: Filter, known: dict[StepKey, Numbers], place: int) -> Numbers:
        timeline = self._run.timeline
        index, record = timeline.indexes[place], timeline.records[place]
        key = (index.number, record.step)
        if key not in known:
            entries = self._entries_at(filter_, index, record)
            known[key] = tuple(number for number, entry in enumerate(entries) if passes(entry, filter_))
        return known[key]

    def _entries_at(self, filter_: Filter, index: SessionIndex, record: StepRecord) -> Sequence[Any]:
        """The entry of each kept sample that a filter is about; none if the step lacks it or it is damaged."""
        known = self._entries.setdefault((filter_.source, filter_.name), {})
        key = (index.number, record.step)
        if key in known:
            return known[key]
        entries = self._read(filter_, index, record)
        n = sum(len(entry) if isinstance(entry, (list, np.ndarray)) else 1 for entry in entries)
        if self._n_entries + n <= _MOST_ENTRIES:
            self._n_entries += n
            known[key] = entries
        return entries

    def _read(self, filter_: Filter, index: SessionIndex, record: StepRecord) -> Sequence[Any]:
        block = record.block
        if block is None:
            return ()
        name = "tokens" if filter_.source == "token" else filter_.name
        key = (filter_.source, name, index.number, block.layout)
        try:
            if key not in self._rows:
                layout = index.layout_of(block)
                rows = index.schema_of(layout.schema).rows
                self._rows[key] = [
                    (rows[number], position)
                    for position, number in enumerate(layout.rows)
                    if _is_wanted(rows[number], filter_.source, name, layout.shapes[position])
                ]
            raws: dict[Row, Raw | None] = {
                row: self._run.archive.segments.raw(index, block, position) for row, position in self._rows[key]
            }
            if filter_.source == "value":
                # Of several passes the last one counts: what the step ended with.
                arrays = [raw.array().reshape(-1) for raw in raws.values() if raw is not None]
                return list(arrays[-1].tolist()) if arrays else ()
            fields = read_samples(raws).fields
        except DamagedError as error:
            self._run.archive.segments.note(error)
            return ()
        entries = fields.get(name, ())
        return list(entries.tolist() if isinstance(entries, np.ndarray) and entries.ndim == 1 else entries)


def passes(entry: Any, filter_: Filter) -> bool:
    """Whether one entry passes: numbers compare as numbers, texts without case, lists if any of their items passes.

    "!=" on a list asks that no item is equal.
    """
    if isinstance(entry, (list, tuple)) or (isinstance(entry, np.ndarray) and entry.ndim):
        if filter_.comparison == "!=":
            equal = _negated(filter_)
            return not any(passes(item, equal) for item in entry)
        return any(passes(item, filter_) for item in (entry.reshape(-1) if isinstance(entry, np.ndarray) else entry))
    if isinstance(entry, np.generic):
        entry = entry.item()
    if filter_.comparison == "~":
        return filter_.value.casefold() in str(entry).casefold()
    if isinstance(entry, (bool, int, float)) and not math.isnan(filter_.number):
        return bool(_ORDER[filter_.comparison](float(entry), filter_.number))
    if filter_.comparison in ("=", "!="):
        return bool(_ORDER[filter_.comparison](_text(entry), _text(filter_.value)))
    try:
        return bool(_ORDER[filter_.comparison](float(entry), filter_.number))
    except ValueError:
        return False


def _text(entry: Any) -> str:
    # Tokens carry their leading space; nobody types it.
    return str(entry).strip().casefold()


def _negated(filter_: Filter) -> Filter:
    return Filter(filter_.source, filter_.name, "=", filter_.value, filter_.number)


def _is_wanted(row: Row, source: str, name: str, shape: tuple[int, ...]) -> bool:
    if source == "value":
        return row.base == name and row.of == VALUE and is_number_per_sample(row.role, shape)
    return row.site == name and row.of.startswith(f"{SAMPLE}/")


def _at_steps(run: Run, scalar: str) -> NDArray[np.float64]:
    """A logged scalar at the recorded steps, NaN where it was not logged; of several values at a step the last."""
    curve, steps = run.scalars[scalar], run.timeline.steps
    out = np.full(len(steps), np.nan)
    if len(curve.steps):
        at = np.maximum(np.searchsorted(curve.steps, steps, side="right") - 1, 0)
        is_there = curve.steps[at] == steps
        out[is_there] = curve.values[at[is_there]]
    return out
