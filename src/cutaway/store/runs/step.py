"""One recorded step of a run, and one tensor at that step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from cutaway.core.arrays import Array, Raw
from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import (
    AmbiguousSiteError,
    DamagedError,
    InputTypeError,
    NotFoundError,
    NotSavedError,
    ShapesDifferError,
    SiteError,
)
from cutaway.core.formatting import listed, nearest_hint
from cutaway.core.sites import spellings, split_pass
from cutaway.store.format.fields import counts
from cutaway.store.format.passes import Pass, PassKey, Tensors, is_selected, pass_name, pass_text, stack_passes
from cutaway.store.format.records import GRAD, SAMPLE, UPDATE, VALUE, Layout, Row, Schema, StepRecord
from cutaway.store.reading.archive import Archive
from cutaway.store.reading.index import SessionIndex
from cutaway.store.runs.samples import Samples, read_samples
from cutaway.store.runs.step_facts import StepFacts

_MAX_SHOWN: Final = 6
STATE_ROLES: Final = ("parameter", "buffer")
"""Roles of tensors that belong to the model, not to a batch: their values have no samples."""


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
        """When it was recorded, in seconds since 1970."""
        return self._record.time

    @property
    def elapsed(self) -> float:
        """Seconds since the start of its session."""
        return self._record.elapsed

    @property
    def session(self) -> int:
        """The session that recorded it."""
        return self._index.number

    @property
    def about(self) -> Mapping[str, Any]:
        """Additional data of the step."""
        return self._record.about

    @cached_property
    def facts(self) -> StepFacts | None:
        """How it was trained: learning rates, modes, micro-batches, clipping; None in runs of older versions."""
        record = self._record.about.get("facts")
        return None if record is None else StepFacts.read(record, self._index.documents)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every recorded quantity of every tensor."""
        return self._schema.rows

    @property
    def sites(self) -> tuple[str, ...]:
        """Tensors with a recorded value or statistics of it; tensors with several passes appear once."""
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
        moment = self._find(site)
        if moment is not None:
            return moment
        if not isinstance(site, str):
            raise InputTypeError(f"a site must be text, got {site!r}.")
        near = nearest_hint(site, self._schema.tensors.names)
        raise SiteError(f"step {self.step} did not record {site!r}.{near} step.sites lists all {len(self.sites):,}.")

    def _find(self, site: object) -> Moment | None:
        """A tensor by any of its names, in the pass that the name selects."""
        tensors = self._schema.tensors
        if not isinstance(site, str):
            return None
        for spelled in spellings(site):
            if tensors.rows(spelled):
                return Moment(self, tensors.site(spelled), VALUE)
            name, pass_ = split_pass(spelled)
            picked = Moment(self, tensors.site(name), VALUE, pass_=pass_)
            if picked.n_passes:
                return picked
        return None

    def __contains__(self, site: object) -> bool:
        return self._find(site) is not None

    def __iter__(self) -> Iterator[Moment]:
        return (self[site] for site in self.sites)

    @property
    def has_samples(self) -> bool:
        """Whether it recorded its samples."""
        return any(row.is_sample for row in self.rows)

    @property
    def n_samples(self) -> int:
        """How many samples have values: from their fields, else from a tensor with a known sample dimension, else from
        the first input; 0 if unknown."""
        metas = {(row.site, row.of): self.meta(row) for row in self.rows if row.is_sample}
        for (site, of), meta in metas.items():
            if meta is not None and meta[1]:
                if of == f"{SAMPLE}/array":
                    return meta[1][0]
                if of == f"{SAMPLE}/lists" or (of == f"{SAMPLE}/starts" and (site, f"{SAMPLE}/lists") not in metas):
                    return max(meta[1][0] - 1, 0)  # offsets: one more than samples
        for row in self._value_positions:
            dim = None if row.layout is None or row.of != VALUE else row.layout.sample_dim
            meta = None if dim is None else self.meta(row)
            if dim is not None and meta is not None and dim < len(meta[1]):
                return meta[1][dim]
        inputs = (self.meta(row) for row in self.rows if row.role == "input" and row.of == VALUE)
        return next((meta[1][0] for meta in inputs if meta is not None and meta[1]), 0)

    @property
    def sample_indices(self) -> tuple[int, ...] | None:
        """Positions in the batch of samples that `run.keep(samples=)` chose; None if it chose none."""
        indices = self._record.about.get("samples")
        return None if indices is None else counts(indices, "indices of samples")

    @cached_property
    def samples(self) -> Samples:
        """The recorded samples: ids, texts, tokens, labels, images."""
        return read_samples({row: self.raw(row) for row in self._value_positions if row.is_sample})

    def table(self) -> Any:
        """One row per tensor and pass: a pandas DataFrame if pandas is installed, else a list of dicts."""
        return to_dataframe(
            {"site": row.base, "of": row.of, "iteration": row.iteration, "pass": row.pass_, "role": row.role}
            | dict(zip(self.statistics, self.matrix[number].tolist(), strict=True))
            for number, row in enumerate(self.rows)
        )

    def __repr__(self) -> str:
        kind = f" ({self.kind})" if self.kind else ""
        try:
            n_values = len({row.base for row in self._value_positions if not row.is_sample})
            return f"<Step {self.step}{kind}: {len(self.sites):,} tensors, {n_values:,} of them with values>"
        except DamagedError:
            return f"<Step {self.step}{kind}: damaged>"

    # For Moment

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
                f"{self._index.name}: step {self.step} has schema {self._record.schema}, but its values have "
                f"{layout.schema}."
            )
        return layout

    @cached_property
    def _value_positions(self) -> dict[Row, int]:
        """Rows with values → position in the block."""
        layout = self._layout
        return {} if layout is None else {self._schema.rows[row]: position for position, row in enumerate(layout.rows)}

    @property
    def tensors(self) -> Tensors:
        """Its tensors by name, with their passes."""
        return self._schema.tensors

    def row_number(self, site: str, of: str, iteration: int) -> int | None:
        """The row number of a tensor in one pass."""
        return self._schema.row_number(site, of, iteration)

    def meta(self, row: Row) -> tuple[str, tuple[int, ...]] | None:
        """Dtype and shape of the stored value of a row; None if there is none."""
        position = self._value_positions.get(row)
        return (
            None
            if position is None or self._layout is None
            else (self._layout.dtypes[position], self._layout.shapes[position])
        )

    def raw(self, row: Row) -> Raw | None:
        """The stored value of a row with its stored dtype; None if there is none."""
        position = self._value_positions.get(row)
        block = self._record.block
        return None if position is None or block is None else self._archive.segments.raw(self._index, block, position)

    def required_raw(self, row: Row) -> Raw:
        """The stored value of a row; `NotSavedError`, which says how to record it, if there is none."""
        raw = self.raw(row)
        if raw is None:
            how = "To get values, record with samples=n."
            if row.role in STATE_ROLES:
                how = "To get values, call run.tensor(name, tensor) inside a step."
            elif self.n_samples:
                how = (
                    "Values were recorded at this step, but not of this tensor: without a sample dimension, values are "
                    "stored up to 65,536 elements."
                )
            raise NotSavedError(f"step {self.step} recorded only statistics of {row.site!r}. {how}")
        return raw

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        raise InputTypeError(
            f"{self!r} has many arrays: use step[site] for one tensor, or step.matrix for the statistics of all."
        )


class Statistics(dict[str, Any]):
    """Statistics by name; a name that is not there raises an error with the nearest ones."""

    def __missing__(self, name: object) -> Any:
        near = nearest_hint(str(name), self) or f" It has: {listed(self)}."
        raise NotFoundError(f"there is no statistic {name!r}.{near}")


class Moment:
    """One tensor at one step: `run.at(400)["encoder.2"]`.

    If the tensor was computed several times in the step, it has several passes: `values` stacks them, `passes` has
    each as its own Moment, and attributes of a single pass (`value`, `shape`) raise.

    Args:
        site: a name of the tensor, without a pass.
        iteration: the selected iteration; None for all.
        pass_: the selected pass within each iteration, from 1; None for all.
    """

    def __init__(
        self, step: Step, site: str, of: str, *, iteration: int | None = None, pass_: int | None = None
    ) -> None:
        self.step = step
        self.site = site
        self.of = of
        self._selection = (iteration, pass_)
        rows = step.tensors.rows(site)
        chosen = [each for each in step.tensors.passes(site) if is_selected(each, iteration, pass_)]
        self._rows: dict[Pass, int | None] = {each: rows.get(PassKey(of, *each)) for each in chosen}
        """In execution order; None if this quantity was not recorded for a pass."""

    # Passes

    @property
    def n_passes(self) -> int:
        """How often it was computed in this step."""
        return len(self._rows)

    @property
    def passes(self) -> tuple[Moment, ...]:
        """Each pass, in execution order."""
        return tuple(
            Moment(self.step, self.site, self.of, iteration=each.iteration, pass_=each.number) for each in self._rows
        )

    @property
    def iteration(self) -> int | None:
        """Its iteration, 0 outside `run.iteration()`; None if its passes are of several iterations."""
        iterations = {each.iteration for each in self._rows}
        return iterations.pop() if len(iterations) == 1 else None

    @property
    def pass_(self) -> int | None:
        """The number of its pass within the iteration, from 1; None if it has several."""
        numbers = {each.number for each in self._rows}
        return numbers.pop() if len(numbers) == 1 else None

    def where(self, *, iteration: int | None = None, pass_: int | None = None) -> Moment:
        """The same tensor in one iteration, or one pass of each; None keeps the current selection.

        Args:
            iteration: the iteration, from 1; 0 for outside `run.iteration()`.
            pass_: the pass within each iteration, from 1.
        """
        picked = (
            self._selection[0] if iteration is None else iteration,
            self._selection[1] if pass_ is None else pass_,
        )
        moment = Moment(self.step, self.site, self.of, iteration=picked[0], pass_=picked[1])
        if not moment.n_passes:
            known = self._pass_texts() or "none"
            raise SiteError(f"{self._name!r} has no such pass at step {self.step.step}. It has: {known}.")
        return moment

    @property
    def _name(self) -> str:
        return pass_name(self.site, self._selection[1])

    @property
    def _number(self) -> int:
        """The row number of the only pass."""
        if len(self._rows) > 1:
            what = "value" if self.of == VALUE else self.of
            raise AmbiguousSiteError(
                f"{self._name!r} ran {len(self._rows)} times at step {self.step.step}, and each pass has its own "
                f"{what}: {self._pass_texts()}. Select one with .passes[0] to .passes[{len(self._rows) - 1}], or "
                "get all with .values."
            )
        number = next(iter(self._rows.values()), None)
        if number is None:
            raise SiteError(f"step {self.step.step} has no {self.of!r} of {self._name!r}.")
        return number

    def _pass_texts(self) -> str:
        # Semicolons, because the text of a pass may have a comma itself.
        shown = "; ".join(map(pass_text, list(self._rows)[:_MAX_SHOWN]))
        return shown + (f" and {len(self._rows) - _MAX_SHOWN} more" if len(self._rows) > _MAX_SHOWN else "")

    @property
    def _row(self) -> Row:
        return self.step.rows[self._number]

    @property
    def _recorded(self) -> list[Row]:
        """The rows of the passes with this quantity."""
        return [self.step.rows[number] for number in self._rows.values() if number is not None]

    @property
    def role(self) -> str:
        """The role of the tensor."""
        return self._recorded[0].role if self._recorded else self._row.role

    # Values

    @property
    def has_value(self) -> bool:
        """Whether the value of every pass was recorded, not only statistics."""
        rows = self._recorded
        return bool(rows) and all(self.step.meta(row) is not None for row in rows)

    @property
    def dtype(self) -> str | None:
        """Dtype of the recorded value, with torch's name; None if there is none."""
        meta = self._meta()
        return meta[0] if meta else None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the recorded value of each pass; None if there is none."""
        meta = self._meta()
        return meta[1] if meta else None

    def _meta(self) -> tuple[str, tuple[int, ...]] | None:
        stored = (self.step.meta(row) for row in self._recorded)
        metas = list(dict.fromkeys(meta for meta in stored if meta is not None))
        if len(metas) > 1:
            raise ShapesDifferError(
                f"the passes of {self._name!r} at step {self.step.step} have several shapes or dtypes. Use "
                f".passes to get them one by one."
            )
        return metas[0] if metas else None

    @property
    def value(self) -> Array:
        """The recorded value as a read-only NumPy array; with several passes, use `values`."""
        return self.raw.array()

    @property
    def values(self) -> Array:
        """The recorded values of all passes, stacked along a new first dimension; NaN for a pass without one.

        Returns a new, writable array. Raises `ShapesDifferError` if shapes or dtypes differ.
        """
        if not self._recorded:
            self._number  # noqa: B018  (raises: nothing was recorded)
        arrays = [
            None if number is None else self.step.required_raw(self.step.rows[number]).array()
            for number in self._rows.values()
        ]
        who = f"{self._name!r} at step {self.step.step}"
        return stack_passes(arrays, list(self._rows), who, "Use [each.value for each in moment.passes].")

    @property
    def raw(self) -> Raw:
        """The recorded value with its stored dtype: bfloat16 stays bfloat16."""
        return self.step.required_raw(self._row)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """The recorded value; refuses if the tensor has several passes."""
        return np.array(self.value, dtype=dtype, copy=copy)

    @property
    def stats(self) -> Mapping[str, Any]:
        """Its statistics by name: a number, or an array over several passes (NaN if one has none)."""
        names, matrix = self.step.statistics, self.step.matrix
        if len(self._rows) < 2:
            return Statistics(zip(names, matrix[self._number].tolist(), strict=True))
        if not self._recorded:
            raise SiteError(f"step {self.step.step} has no {self.of!r} of {self._name!r}.")
        values = np.full((len(self._rows), len(names)), np.nan, matrix.dtype)
        for position, number in enumerate(self._rows.values()):
            if number is not None:
                values[position] = matrix[number]
        return Statistics(zip(names, values.T, strict=True))

    # Related tensors

    @property
    def grad(self) -> Moment | None:
        """Its gradient at this step; None if there was none, which is not the same as zero."""
        return self.other(GRAD)

    @property
    def update(self) -> Moment | None:
        """The optimizer's update at this step; None if not recorded."""
        return self.other(UPDATE)

    def other(self, of: str, *, iteration: int | None = None) -> Moment | None:
        """Another quantity of the same tensor, or another iteration; None if not recorded.

        Args:
            of: "value", "grad", "grad/<loss>", "update", "unit"…
            iteration: only passes of this iteration; None keeps the current selection.
        """
        iteration = self._selection[0] if iteration is None else iteration
        moment = Moment(self.step, self.site, of, iteration=iteration, pass_=self._selection[1])
        return moment if moment._recorded else None

    def __repr__(self) -> str:
        of = "" if self.of == VALUE else f" {self.of}"
        several = f", {self.n_passes} passes" if self.n_passes > 1 else ""
        several = several or (f", iteration {self.iteration}" if self.iteration else "")
        try:
            return f"<Moment {self._name}{of} at step {self.step.step}{several}: {self._value_text}>"
        except DamagedError:
            return f"<Moment {self._name}{of} at step {self.step.step}{several}: damaged>"

    @property
    def _value_text(self) -> str:
        try:
            return f"{self.dtype} {list(self.shape)}" if self.shape is not None else "statistics only"
        except ShapesDifferError:
            return "several shapes"
