"""One recorded step of a run, and one tensor at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np

from cutaway.core.arrays import Array, Raw
from cutaway.core.errors import AmbiguousSiteError, DamagedError, NotSavedError, ShapesDifferError, SiteError
from cutaway.core.sites import split_pass
from cutaway.core.formatting import nearest
from cutaway.core.dataframes import to_dataframe
from cutaway.store.reading.archive import Archive
from cutaway.store.reading.index import SessionIndex
from cutaway.store.format.passes import Pass, PassKey, Tensors, is_picked, pass_name, said_pass, stacked
from cutaway.store.format.records import GRAD, UPDATE, VALUE, Layout, Row, Schema, StepRecord
from cutaway.store.runs.samples import Samples, read_samples


class Step:
    """One recorded step: `run.at(400)`."""

    def __init__(self, archive: Archive, index: SessionIndex, record: StepRecord) -> None:
        self._archive = archive
        self._index = index
        self._record = record

    @property
    def step(self) -> int:
        """Its number."""
        return self._record.step

    @property
    def kind(self) -> str:
        """Its kind: "train", "long"…"""
        return self._record.kind

    @property
    def time(self) -> float:
        """When it was recorded, in seconds since 1970 by the clock of then."""
        return self._record.time

    @property
    def elapsed(self) -> float:
        """Seconds since its session began."""
        return self._record.elapsed

    @property
    def session(self) -> int:
        """The session that recorded it."""
        return self._index.number

    @property
    def about(self) -> Mapping[str, Any]:
        """What else was said of it."""
        return self._record.about

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every tensor that was recorded at it, and what of it."""
        return self._schema.rows

    @property
    def sites(self) -> tuple[str, ...]:
        """The tensors whose value, or statistics of it, was recorded; one that made several passes once."""
        return tuple(dict.fromkeys(row.base for row in self.rows if row.of == VALUE))

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics."""
        return self._schema.statistics

    @cached_property
    def matrix(self) -> Array:
        """All statistics, `[row, statistic]`."""
        return self._archive.segments.matrix(self._index, self._record)

    def __getitem__(self, site: str) -> Moment:
        found = self._find(site)
        if found is not None:
            return found
        close = nearest(str(site), self._schema.tensors.names)
        near = f" Nearest: {', '.join(map(repr, close))}." if close else ""
        raise SiteError(f"{site!r} was not recorded at step {self.step}.{near}")

    def _find(self, site: object) -> Moment | None:
        """A tensor by any of its names, in the pass that is named with it."""
        tensors = self._schema.tensors
        if not isinstance(site, str):
            return None
        if tensors.rows(site):
            return Moment(self, tensors.site(site), VALUE)
        name, pass_ = split_pass(site)
        picked = Moment(self, tensors.site(name), VALUE, pass_=pass_)
        return picked if picked.n_passes else None

    def __contains__(self, site: object) -> bool:
        return self._find(site) is not None

    def __iter__(self) -> Iterator[Moment]:
        return (self[site] for site in self.sites)

    @property
    def has_samples(self) -> bool:
        """Whether it is known what its samples are."""
        return any(row.is_sample for row in self.rows)

    @cached_property
    def samples(self) -> Samples:
        """What the kept samples are: their ids, texts, tokens, labels, images."""
        return read_samples({row: self.raw(row) for row in self._valued if row.is_sample})

    def table(self) -> Any:
        """One row for each tensor and pass: a pandas DataFrame where pandas is installed, else a list of dicts."""
        return to_dataframe(
            {"site": row.base, "of": row.of, "iteration": row.iteration, "pass": row.pass_, "role": row.role}
            | dict(zip(self.statistics, self.matrix[number].tolist(), strict=True))
            for number, row in enumerate(self.rows)
        )

    def __repr__(self) -> str:
        kind = f" ({self.kind})" if self.kind else ""
        try:
            kept = len({row.base for row in self._valued if not row.is_sample})
            return f"<Step {self.step}{kind}: {len(self.sites):,} tensors, {kept:,} of them with values>"
        except DamagedError:
            return f"<Step {self.step}{kind}: damaged>"

    # for Moment

    @property
    def _schema(self) -> Schema:
        return self._index.schema_of(self._record.schema)

    @cached_property
    def _layout(self) -> Layout | None:
        if self._record.block is None:
            return None
        layout = self._index.layout_of(self._record.block)
        if layout.schema != self._record.schema:
            raise DamagedError(
                f"{self._index.name}: step {self.step} is of schema {self._record.schema}, and its values of "
                f"{layout.schema}."
            )
        return layout

    @cached_property
    def _valued(self) -> dict[Row, int]:
        """The rows that have values → their place in the block."""
        layout = self._layout
        return {} if layout is None else {self._schema.rows[row]: place for place, row in enumerate(layout.rows)}

    @property
    def tensors(self) -> Tensors:
        """Its tensors by name, with their passes."""
        return self._schema.tensors

    def row_number(self, site: str, of: str, iteration: int) -> int | None:
        """The row of a tensor in one pass, by a name as rows have it."""
        return self._schema.row_number(site, of, iteration)

    def meta(self, row: Row) -> tuple[str, tuple[int, ...]] | None:
        """Dtype and shape of what was kept of a row."""
        place = self._valued.get(row)
        return (
            None if place is None or self._layout is None else (self._layout.dtypes[place], self._layout.shapes[place])
        )

    def raw(self, row: Row) -> Raw | None:
        """What was kept of a row, as it was written."""
        place = self._valued.get(row)
        block = self._record.block
        return None if place is None or block is None else self._archive.segments.raw(self._index, block, place)


_MOST_SHOWN: Final = 6


class Moment:
    """One tensor at one step: `run.at(400)["encoder.2"]`.

    Where the tensor was computed several times in the step, it has several passes: `values()` stacks them, `passes`
    has each of them as a moment of its own, and what there is one of a pass (`value`, `shape`) raises.

    Args:
        site: a name of the tensor, without a pass.
        iteration: the one that is picked; None for all.
        pass_: the pass within each iteration that is picked, from 1; None for all.
    """

    def __init__(
        self, step: Step, site: str, of: str, *, iteration: int | None = None, pass_: int | None = None
    ) -> None:
        self.step = step
        self.site = site
        self.of = of
        self._picked = (iteration, pass_)
        rows = step.tensors.rows(site)
        chosen = [one for one in step.tensors.passes(site) if is_picked(one, iteration, pass_)]
        self._rows: dict[Pass, int | None] = {one: rows.get(PassKey(of, *one)) for one in chosen}
        """In order of execution; None where this was not recorded of a pass."""

    # passes

    @property
    def n_passes(self) -> int:
        """How often it was computed in this step."""
        return len(self._rows)

    @property
    def passes(self) -> tuple[Moment, ...]:
        """Each pass, in order of execution."""
        return tuple(
            Moment(self.step, self.site, self.of, iteration=one.iteration, pass_=one.number) for one in self._rows
        )

    @property
    def iteration(self) -> int | None:
        """The iteration it is of, 0 where the step has none; None if its passes are of several."""
        found = {one.iteration for one in self._rows}
        return found.pop() if len(found) == 1 else None

    @property
    def pass_(self) -> int | None:
        """Which pass of its iteration it is, from 1; None if it has several."""
        found = {one.number for one in self._rows}
        return found.pop() if len(found) == 1 else None

    def where(self, *, iteration: int | None = None, pass_: int | None = None) -> Moment:
        """The same tensor in one iteration, or one pass of each; what is not said stays."""
        picked = (
            self._picked[0] if iteration is None else iteration,
            self._picked[1] if pass_ is None else pass_,
        )
        found = Moment(self.step, self.site, self.of, iteration=picked[0], pass_=picked[1])
        if not found.n_passes:
            known = "; ".join(map(said_pass, self._rows)) or "none"
            raise SiteError(f"{self._name!r} has no such pass at step {self.step.step}. It has: {known}.")
        return found

    @property
    def _name(self) -> str:
        return pass_name(self.site, self._picked[1])

    @property
    def _number(self) -> int:
        """The row of the only pass."""
        if len(self._rows) > 1:
            what = "value" if self.of == VALUE else self.of
            shown = "; ".join(map(said_pass, list(self._rows)[:_MOST_SHOWN]))
            more = f" and {len(self._rows) - _MOST_SHOWN} more" if len(self._rows) > _MOST_SHOWN else ""
            raise AmbiguousSiteError(
                f"{self._name!r} ran {len(self._rows)} times at step {self.step.step}, and each pass has its own "
                f"{what}: {shown}{more}. Ask for one of them with .passes[0] to .passes[{len(self._rows) - 1}], or for "
                "all with .values()."
            )
        number = next(iter(self._rows.values()), None)
        if number is None:
            raise SiteError(f"no {self.of!r} of {self._name!r} was recorded at step {self.step.step}.")
        return number

    @property
    def _row(self) -> Row:
        return self.step.rows[self._number]

    @property
    def _recorded(self) -> list[Row]:
        """The rows of those passes of which this was recorded."""
        return [self.step.rows[number] for number in self._rows.values() if number is not None]

    @property
    def role(self) -> str:
        """What the tensor is for."""
        return self._recorded[0].role if self._recorded else self._row.role

    # values

    @property
    def has_value(self) -> bool:
        """Whether its value was kept, that of every pass, and not only statistics of it."""
        rows = self._recorded
        return bool(rows) and all(self.step.meta(row) is not None for row in rows)

    @property
    def dtype(self) -> str | None:
        """Dtype of what was kept, as torch names it, of each pass; None if nothing was."""
        meta = self._meta()
        return meta[0] if meta else None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of what was kept, of each pass; None if nothing was."""
        meta = self._meta()
        return meta[1] if meta else None

    def _meta(self) -> tuple[str, tuple[int, ...]] | None:
        kept = (self.step.meta(row) for row in self._recorded)
        metas = list(dict.fromkeys(meta for meta in kept if meta is not None))
        if len(metas) > 1:
            raise ShapesDifferError(
                f"the passes of {self._name!r} at step {self.step.step} have values of several shapes or dtypes: ask "
                f"each of .passes for its own."
            )
        return metas[0] if metas else None

    @property
    def value(self) -> Array:
        """The kept values, as a read-only NumPy array; `values()` where it has several passes."""
        return self.raw.array()

    def values(self) -> Array:
        """The kept values of all passes, stacked over a new first dimension; NaN where a pass has no such row.

        A new array, free to be written to. Where shapes or dtypes differ, `ShapesDifferError` says which.
        """
        if not self._recorded:
            self._number  # noqa: B018  (says that nothing was recorded)
        arrays = [
            None if number is None else self._raw(self.step.rows[number]).array() for number in self._rows.values()
        ]
        who = f"{self._name!r} at step {self.step.step}"
        return stacked(arrays, list(self._rows), who, "Take them one by one: [one.value for one in moment.passes].")

    @property
    def raw(self) -> Raw:
        """The kept values as they were written: bfloat16 stays bfloat16."""
        return self._raw(self._row)

    def _raw(self, row: Row) -> Raw:
        raw = self.step.raw(row)
        if raw is None:
            is_held = row.role in ("parameter", "buffer")
            how = (
                "run.tensor(name, tensor) inside a step keeps one"
                if is_held
                else "record with samples=n to keep values"
            )
            raise NotSavedError(f"of {row.site!r} only statistics were recorded at step {self.step.step}: {how}.")
        return raw

    @property
    def stats(self) -> Mapping[str, Any]:
        """Its statistics by name: a number, or of several passes an array of them, NaN where one has none."""
        names, matrix = self.step.statistics, self.step.matrix
        if len(self._rows) < 2:
            return dict(zip(names, matrix[self._number].tolist(), strict=True))
        if not self._recorded:
            raise SiteError(f"no {self.of!r} of {self._name!r} was recorded at step {self.step.step}.")
        found = np.full((len(self._rows), len(names)), np.nan, matrix.dtype)
        for place, number in enumerate(self._rows.values()):
            if number is not None:
                found[place] = matrix[number]
        return dict(zip(names, found.T, strict=True))

    # others like it

    @property
    def grad(self) -> Moment | None:
        """Its gradient at this step; None if there was none, which is not the same as zero."""
        return self.other(GRAD)

    @property
    def update(self) -> Moment | None:
        """What the optimizer changed in it at this step; None if nothing was recorded."""
        return self.other(UPDATE)

    def other(self, of: str, *, iteration: int | None = None) -> Moment | None:
        """The same tensor, but its gradient, its update or another iteration; None if that was not recorded."""
        iteration = self._picked[0] if iteration is None else iteration
        found = Moment(self.step, self.site, of, iteration=iteration, pass_=self._picked[1])
        return found if found._recorded else None

    def __repr__(self) -> str:
        of = "" if self.of == VALUE else f" {self.of}"
        several = f", {self.n_passes} passes" if self.n_passes > 1 else ""
        several = several or (f", iteration {self.iteration}" if self.iteration else "")
        try:
            return f"<Moment {self._name}{of} at step {self.step.step}{several}: {self._kept}>"
        except DamagedError:
            return f"<Moment {self._name}{of} at step {self.step.step}{several}: damaged>"

    @property
    def _kept(self) -> str:
        try:
            return f"{self.dtype} {list(self.shape)}" if self.shape is not None else "statistics only"
        except ShapesDifferError:
            return "several shapes"
