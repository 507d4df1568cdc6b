"""Which part of an archive is to be exported, and its tensors one by one, without reading them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from cutaway.core.arrays import Raw, nbytes_of
from cutaway.core.errors import DamagedError, InputError, SiteError
from cutaway.store.format.records import SAMPLE, Row, what_of
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.store.runs.series import Series
from cutaway.store.runs.step import Step

_UNSAFE = re.compile(r"[^A-Za-z0-9._\-@:#$+=,~]")
_LONGEST = 200
_MOST_PROBLEMS = 1000


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor that was kept: what it is, and how to read it."""

    step: int | None
    kind: str
    row: Row
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], Raw]

    @property
    def name(self) -> str:
        """Its name among all others."""
        return self.row.site if self.step is None else f"{self.step}/{self.row.key}"

    @property
    def nbytes(self) -> int:
        return nbytes_of(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A part of an archive."""

    archive: Archive
    run: Run
    at: str
    steps: slice | None
    of: str
    problems: list[str] = field(default_factory=list)

    @staticmethod
    def of_archive(archive: Archive, *, at: str, steps: slice | int | None, of: str) -> Chosen:
        found = slice(steps, steps + 1) if isinstance(steps, int) else steps
        if found is not None and found.step not in (None, 1):
            raise InputError("steps= takes a first and a last step, and nothing between: slice(100, 200).")
        return Chosen(archive, Run(archive), at, found, of)

    def has_step(self, step: int | None) -> bool:
        """Whether a step is among those chosen."""
        if self.steps is None:
            return True
        if step is None:
            return False
        first, last = self.steps.start, self.steps.stop
        return (first is None or step >= first) and (last is None or step < last)

    def has_name(self, name: str) -> bool:
        """Whether the name of a scalar or of an array is among those chosen."""
        return self.at == "**" or fnmatchcase(name, self.at)

    def moments(self) -> Iterator[Step]:
        """The recorded steps."""
        return (step for step in self.run if self.has_step(step.step))

    def series(self) -> list[Series]:
        """The tensors over steps, each pass on its own."""
        found = [
            Series(self.run, site, of=self.of, iteration=key.iteration, pass_=key.pass_)
            for site, pass_ in self._sites().items()
            for key in sorted(self.run.rows_of(site))
            if key.of == self.of and pass_ in (None, key.pass_)
        ]
        if not found:
            known = ", ".join(sorted({row.of for row in self.run.rows})) or "nothing"
            raise SiteError(f"no {self.of!r} was recorded of {self.at!r} in {self.archive.path}, which has: {known}.")
        return found

    def tensors(self) -> Iterator[Tensor]:
        """Every kept tensor, in the order it was written."""
        if self.archive.kind != "run":
            yield from self._blocks()
            return
        sites = self._sites()
        for step in self.moments():
            try:
                rows = step.rows
                metas = [step.meta(row) for row in rows]
            except DamagedError as error:
                self.problem(f"step {step.step}: {error}")
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
        """The tensors that are chosen → the pass that is, or None for all."""
        if self.at == "**":
            return dict.fromkeys(row.base for row in self.run.rows if row.of == self.of)
        if what_of(self.of) == SAMPLE:
            return {row.site: None for row in self.run.rows if row.of == self.of and self.has_name(row.site)}
        found = {series.site: series.pass_ for series in self.run.match(self.at)}
        if not found:
            self.run[self.at]  # says what is there instead
        return found

    def _numbers(self, step: Step, sites: Mapping[str, int | None]) -> set[int]:
        """The rows of a step that are chosen."""
        if what_of(self.of) == SAMPLE:
            return {number for number, row in enumerate(step.rows) if row.of == self.of and row.site in sites}
        return {
            number
            for site, pass_ in sites.items()
            for key, number in step.tensors.rows(site).items()
            if key.of == self.of and pass_ in (None, key.pass_)
        }

    def problem(self, said: str) -> None:
        """Note something that cannot be read."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(said)


def _reader(step: Step, row: Row) -> Callable[[], Raw]:
    def read() -> Raw:
        raw = step.raw(row)
        assert raw is not None  # it has a dtype and a shape
        return raw

    return read


def _block_reader(raw: Callable[[str], Raw], name: str) -> Callable[[], Raw]:
    return lambda: raw(name)


def file_name(text: str) -> str:
    """A text as the name of a file on every system: what is odd is percent-escaped.

    >>> file_name("encoder.2/softmax"), file_name("a%b"), file_name("..")
    ('encoder.2%2Fsoftmax', 'a%25b', '%2E%2E')
    """
    data = text.encode("utf-8", "backslashreplace").decode()
    safe = _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), data)
    if not safe.strip("."):
        safe = "%2E" * len(safe)
    return safe[:_LONGEST]
