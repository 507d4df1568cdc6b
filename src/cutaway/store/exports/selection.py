"""The selected part of an archive, tensor by tensor, read lazily."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from cutaway.core.arrays import Raw, nbytes_of
from cutaway.core.errors import DamagedError, InputError, SiteError
from cutaway.store.format.records import SAMPLE, Row, quantity_of
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.store.runs.series import Series
from cutaway.store.runs.step import Step

_UNSAFE = re.compile(r"[^A-Za-z0-9._\-@:#$+=,~]")
_MAX_LENGTH = 200
_MAX_DAMAGE = 1000


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor: its description, and a function that reads it."""

    step: int | None
    kind: str
    row: Row
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], Raw]

    @property
    def name(self) -> str:
        """Its unique name."""
        return self.row.site if self.step is None else f"{self.step}/{self.row.key}"

    @property
    def nbytes(self) -> int:
        return nbytes_of(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected part of an archive."""

    archive: Archive
    run: Run
    at: str
    steps: slice | None
    of: str
    damage: list[str] = field(default_factory=list)

    @staticmethod
    def from_archive(archive: Archive, *, at: str, steps: slice | int | None, of: str) -> Selection:
        step_range = slice(steps, steps + 1) if isinstance(steps, int) else steps
        if step_range is not None and step_range.step not in (None, 1):
            raise InputError("steps= takes a slice without a stride, such as slice(100, 200).")
        return Selection(archive, Run(archive), at, step_range, of)

    def has_step(self, step: int | None) -> bool:
        """Whether a step is selected."""
        if self.steps is None:
            return True
        if step is None:
            return False
        first, last = self.steps.start, self.steps.stop
        return (first is None or step >= first) and (last is None or step < last)

    def has_name(self, name: str) -> bool:
        """Whether the name of a scalar or an array is selected."""
        return self.at == "**" or fnmatchcase(name, self.at)

    def selected_steps(self) -> Iterator[Step]:
        """The selected steps."""
        return (step for step in self.run if self.has_step(step.step))

    def series(self) -> list[Series]:
        """The selected tensors over steps, one series per pass."""
        series = [
            Series(self.run, site, of=self.of, iteration=key.iteration, pass_=key.pass_)
            for site, pass_ in self._sites().items()
            for key in sorted(self.run.rows_of(site))
            if key.of == self.of and pass_ in (None, key.pass_)
        ]
        if not series:
            known = ", ".join(sorted({row.of for row in self.run.rows})) or "nothing"
            raise SiteError(f"{self.archive.path} has no {self.of!r} of {self.at!r}. It has: {known}.")
        return series

    def tensors(self) -> Iterator[Tensor]:
        """Every selected tensor with stored values, in the order of writing."""
        if self.archive.kind != "run":
            yield from self._blocks()
            return
        sites = self._sites()
        for step in self.selected_steps():
            try:
                rows = step.rows
                metas = [step.meta(row) for row in rows]
            except DamagedError as error:
                self.add_damage(f"step {step.step}: {error}")
                continue
            wanted = self._numbers(step, sites)
            for number, (row, meta) in enumerate(zip(rows, metas, strict=True)):
                if meta is not None and number in wanted:
                    yield Tensor(step.step, step.kind, row, *meta, _reader(step, row))

    def _blocks(self) -> Iterator[Tensor]:
        for block in self.archive.blocks.values():
            if block.name == "structure":
                continue
            for name in block.names:
                if self.has_name(name):
                    read = _block_reader(block.raw, name)
                    yield Tensor(None, "", Row(name), block.dtype(name), block.shape(name), read)

    def _sites(self) -> dict[str, int | None]:
        """Selected site → selected pass, or None for all passes."""
        if self.at == "**":
            return dict.fromkeys(row.base for row in self.run.rows if row.of == self.of)
        if quantity_of(self.of) == SAMPLE:
            return {row.site: None for row in self.run.rows if row.of == self.of and self.has_name(row.site)}
        sites = {series.site: series.pass_ for series in self.run.match(self.at)}
        if not sites:
            self.run[self.at]  # raises, with near matches
        return sites

    def _numbers(self, step: Step, sites: Mapping[str, int | None]) -> set[int]:
        """The selected row numbers of a step."""
        if quantity_of(self.of) == SAMPLE:
            return {number for number, row in enumerate(step.rows) if row.of == self.of and row.site in sites}
        return {
            number
            for site, pass_ in sites.items()
            for key, number in step.tensors.rows(site).items()
            if key.of == self.of and pass_ in (None, key.pass_)
        }

    def add_damage(self, message: str) -> None:
        """Record something that cannot be read."""
        if len(self.damage) < _MAX_DAMAGE:
            self.damage.append(message)


def _reader(step: Step, row: Row) -> Callable[[], Raw]:
    def read() -> Raw:
        raw = step.raw(row)
        assert raw is not None  # a row with dtype and shape has values
        return raw

    return read


def _block_reader(raw: Callable[[str], Raw], name: str) -> Callable[[], Raw]:
    return lambda: raw(name)


def file_name(text: str) -> str:
    """Convert a text to a file name that is valid on every system, by percent-escaping.

    >>> file_name("encoder.2/softmax"), file_name("a%b"), file_name("..")
    ('encoder.2%2Fsoftmax', 'a%25b', '%2E%2E')
    """
    data = text.encode("utf-8", "backslashreplace").decode()
    safe = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), data)
    if not safe.strip("."):
        safe = "%2E" * len(safe)
    return safe[:_MAX_LENGTH]
