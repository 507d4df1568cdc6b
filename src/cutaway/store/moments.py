"""One recorded step of a run, and one tensor at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from cutaway.core.arrays import Array, Raw
from cutaway.core.errors import DamagedError, NotSavedError, SiteError
from cutaway.core.sites import nearest
from cutaway.core.tables import framed
from cutaway.store.archive import Archive
from cutaway.store.index import SessionIndex
from cutaway.store.records import GRAD, UPDATE, VALUE, Layout, Row, Schema, StepRecord
from cutaway.store.samples import Samples, read_samples


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
        """The tensors whose value, or statistics of it, was recorded."""
        return tuple(dict.fromkeys(row.site for row in self.rows if row.of == VALUE))

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics."""
        return self._schema.statistics

    @cached_property
    def matrix(self) -> Array:
        """All statistics, `[row, statistic]`."""
        return self._archive.segments.matrix(self._index, self._record)

    def __getitem__(self, site: str) -> Moment:
        tensors = self._schema.tensors
        if isinstance(site, str) and site in tensors:
            first, iteration = tensors[site]
            return Moment(self, first, VALUE, iteration)
        close = nearest(str(site), tensors)
        near = f" Nearest: {', '.join(map(repr, close))}." if close else ""
        raise SiteError(f"{site!r} was not recorded at step {self.step}.{near}")

    def __contains__(self, site: object) -> bool:
        return isinstance(site, str) and site in self._schema.tensors

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
        """One row a tensor: a pandas DataFrame where pandas is installed, else a list of dicts."""
        return framed(
            {"site": row.site, "of": row.of, "iteration": row.iteration, "role": row.role}
            | dict(zip(self.statistics, self.matrix[number].tolist(), strict=True))
            for number, row in enumerate(self.rows)
        )

    def __repr__(self) -> str:
        kind = f" ({self.kind})" if self.kind else ""
        try:
            kept = sum(not row.is_sample for row in self._valued)
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

    def row_number(self, site: str, of: str, iteration: int) -> int | None:
        return self._schema.row_numbers.get((site, of, iteration))

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


class Moment:
    """One tensor at one step: `run.at(400)["encoder.2"]`."""

    def __init__(self, step: Step, site: str, of: str, iteration: int) -> None:
        self.step = step
        self.site = site
        self.of = of
        self.iteration = iteration
        self._number = step.row_number(site, of, iteration)

    @property
    def _row(self) -> Row:
        if self._number is None:
            raise SiteError(f"no {self.of!r} of {self.site!r} was recorded at step {self.step.step}.")
        return self.step.rows[self._number]

    @property
    def role(self) -> str:
        """What the tensor is for."""
        return self._row.role

    @property
    def has_value(self) -> bool:
        """Whether its value was kept, and not only statistics of it."""
        return self._number is not None and self.step.meta(self._row) is not None

    @property
    def dtype(self) -> str | None:
        """Dtype of what was kept, as torch names it; None if nothing was."""
        meta = None if self._number is None else self.step.meta(self._row)
        return meta[0] if meta else None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of what was kept; None if nothing was."""
        meta = None if self._number is None else self.step.meta(self._row)
        return meta[1] if meta else None

    @property
    def value(self) -> Array:
        """The kept values, as a read-only NumPy array."""
        return self.raw.array()

    @property
    def raw(self) -> Raw:
        """The kept values as they were written: bfloat16 stays bfloat16."""
        raw = self.step.raw(self._row)
        if raw is None:
            is_held = self._row.role in ("parameter", "buffer")
            how = (
                "run.tensor(name, tensor) inside a step keeps one"
                if is_held
                else "record with samples=n to keep values"
            )
            raise NotSavedError(f"of {self.site!r} only statistics were recorded at step {self.step.step}: {how}.")
        return raw

    @property
    def stats(self) -> Mapping[str, float]:
        """Its statistics by name."""
        self._row  # noqa: B018  (says so where there is none)
        values = self.step.matrix[self._number].tolist()
        return dict(zip(self.step.statistics, values, strict=True))

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
        iteration = self.iteration if iteration is None else iteration
        if self.step.row_number(self.site, of, iteration) is None:
            return None
        return Moment(self.step, self.site, of, iteration)

    def __repr__(self) -> str:
        of = "" if self.of == VALUE else f" {self.of}"
        try:
            return f"<Moment {self.site}{of} at step {self.step.step}: {self._kept}>"
        except DamagedError:
            return f"<Moment {self.site}{of} at step {self.step.step}: damaged>"

    @property
    def _kept(self) -> str:
        return f"{self.dtype} {list(self.shape)}" if self.shape is not None else "statistics only"
