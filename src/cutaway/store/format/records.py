"""Record types of an index, as validated dataclasses.

Every `read` takes a decoded map, which is untrusted input. It ignores unknown keys, so that a later minor version may
add some, and raises `DamagedError` if a required field is missing or has the wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import nbytes_of
from cutaway.core.errors import DamagedError
from cutaway.core.sites import split_pass
from cutaway.core.units.layout import UnitLayout
from cutaway.store.format.fields import count, counts, mapping, number, packed_array, text, texts
from cutaway.store.format.passes import PassKey, Tensors
from cutaway.store.format.step_ranges import ranges_of, steps_in

VALUE: Final = "value"
GRAD: Final = "grad"
INNER_GRAD: Final = "inner_grad"
UPDATE: Final = "update"
SAMPLE: Final = "sample"
STEPS: Final = "steps"
"""What is lost if steps are; see `Loss.what`."""
OPEN_STEP: Final = "open_step"
"""The document with the number of the step that is being recorded."""
_MAX_LISTED_STEPS: Final = 64
MOST_CELLS: Final = 1 << 21
"""Most statistics of one step: rows times names."""


def quantity_of(of: str) -> str:
    """The recorded quantity of a row without its qualifier.

    >>> quantity_of("grad/aux"), quantity_of("grad@2"), quantity_of("inner_grad")
    ('grad', 'grad', 'inner_grad')
    """
    return of.partition("/")[0].partition("@")[0]


@dataclass(frozen=True, slots=True)
class Row:
    """A recorded quantity of one tensor: a row of the statistics matrix of each step."""

    site: str
    of: str = VALUE
    """"value", "grad", "grad/<loss>", "grad@2", "inner_grad", "update", "sample" (describes samples), or a further
    statistic; see docs/recording.md."""
    iteration: int = 0
    role: str = ""
    node: str = ""
    """The node of the dependency graph, if it is not the site."""
    part: str = ""
    """Its role in the node, if several tensors share one."""
    names: tuple[str, ...] = ()
    """Aliases of the tensor."""
    layout: UnitLayout | None = None
    """Which dimensions are units and samples, without the sizes that vary between steps; None if not known."""

    @property
    def base(self) -> str:
        """The site without its pass: the name of the tensor."""
        return split_pass(self.site)[0]

    @property
    def pass_(self) -> int:
        """The number of the pass within its iteration, from 1."""
        return split_pass(self.site)[1]

    @property
    def bare_names(self) -> tuple[str, ...]:
        """Its aliases without passes, without duplicates."""
        return tuple(dict.fromkeys(split_pass(name)[0] for name in self.names))

    @property
    def is_sample(self) -> bool:
        """Whether it describes the samples."""
        return quantity_of(self.of) == SAMPLE

    @property
    def key(self) -> str:
        """Its name in a sealed segment, after the step."""
        iteration = f":{self.iteration}" if self.iteration else ""
        return f"{self.of}{iteration}/{self.site}"

    def to_record(self) -> list[Any]:
        layout = None if self.layout is None else self.layout.to_list()
        fields = [self.site, self.of, self.iteration, self.role, self.node, self.part, list(self.names), layout]
        # Most rows have only a site; without trailing defaults a schema stays small.
        while len(fields) > 1 and fields[-1] == _DEFAULTS[len(fields) - 1]:
            fields.pop()
        return fields

    @staticmethod
    def read(fields: Any) -> Row:
        if not isinstance(fields, list) or not fields:
            raise DamagedError("a row of a schema is not a list of fields")
        # Cut to the known length: a newer version may append fields, and readers ignore what they do not know.
        filled = [*fields, *_DEFAULTS[len(fields) :]][: len(_DEFAULTS)]
        site, of, iteration, role, node, part, names, layout = filled
        return Row(
            text(site, "site of a row"),
            text(of, "what of a row"),
            count(iteration, "an iteration"),
            text(role, "role of a row"),
            text(node, "node of a row"),
            text(part, "part of a row"),
            texts(names, "names of a row"),
            _layout(layout),
        )


_DEFAULTS: Final[list[Any]] = [None, VALUE, 0, "", "", "", [], None]


def _layout(data: Any) -> UnitLayout | None:
    try:
        return None if data is None else UnitLayout.from_list(data)
    except (TypeError, ValueError):
        raise DamagedError("the unit layout of a row has wrong fields") from None


@dataclass(frozen=True)
class Schema:
    """The rows and the statistics that many steps share, written once."""

    id: int
    rows: tuple[Row, ...]
    statistics: tuple[str, ...] = ()
    dtype: str = "float32"

    @property
    def matrix_bytes(self) -> int:
        """Size of the statistics matrix of one step."""
        return len(self.rows) * len(self.statistics) * np.dtype(self.dtype).itemsize

    @cached_property
    def tensors(self) -> Tensors:
        """Its tensors by name, with their passes and rows."""
        return Tensors(self.rows)

    def row_number(self, site: str, of: str, iteration: int) -> int | None:
        """The row number of a tensor in one pass, by any of its names; None if there is none."""
        name, pass_ = split_pass(site)
        return self.tensors.rows(name).get(PassKey(of, iteration, pass_))

    def to_record(self) -> dict[str, Any]:
        rows = [row.to_record() for row in self.rows]
        return {
            "type": "schema",
            "id": self.id,
            "rows": rows,
            "statistics": list(self.statistics),
            "dtype": self.dtype,
        }

    @staticmethod
    def read(record: Mapping[str, Any]) -> Schema:
        rows = record.get("rows")
        if not isinstance(rows, list):
            raise DamagedError("a schema has no rows")
        dtype = text(record.get("dtype"), "dtype of statistics")
        if dtype not in ("float32", "float64"):
            raise DamagedError(f"statistics have dtype {dtype!r}, expected float32 or float64")
        statistics = texts(record.get("statistics"), "names of statistics")
        if len(rows) * len(statistics) > MOST_CELLS:
            raise DamagedError(f"{len(rows):,} rows of {len(statistics):,} statistics exceed the limit {MOST_CELLS:,}")
        return Schema(count(record.get("id"), "id of a schema"), tuple(map(Row.read, rows)), statistics, dtype)


@dataclass(frozen=True)
class Layout:
    """Which rows of a schema have values in a block, with dtypes and shapes; the tensors are stored back to back."""

    id: int
    schema: int
    rows: tuple[int, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Offset of each tensor within the block, then the end of the last one."""
        starts = [0]
        for dtype, shape in zip(self.dtypes, self.shapes, strict=True):
            starts.append(starts[-1] + nbytes_of(dtype, shape))
        return tuple(starts)

    @cached_property
    def places(self) -> dict[int, int]:
        """Row number → position in the block."""
        return {row: position for position, row in enumerate(self.rows)}

    def to_record(self) -> dict[str, Any]:
        kinds = list(dict.fromkeys(self.dtypes))
        return {
            "type": "layout",
            "id": self.id,
            "schema": self.schema,
            "rows": np.asarray(self.rows, "<u4").tobytes(),
            "dtypes": kinds,
            # One byte per tensor instead of its name: layouts are repeated with every seal.
            "dtype_of": bytes(map(kinds.index, self.dtypes)),
            "shapes": [list(shape) for shape in self.shapes],
        }

    @staticmethod
    def read(record: Mapping[str, Any]) -> Layout:
        rows = packed_array(record.get("rows"), "<u4", "rows of a layout")
        kinds = texts(record.get("dtypes"), "dtypes of a layout")
        codes = packed_array(record.get("dtype_of"), "u1", "dtypes of a layout")
        shapes = record.get("shapes")
        if not isinstance(shapes, list) or not len(rows) == len(codes) == len(shapes):
            raise DamagedError("rows, dtypes and shapes of a layout differ in length")
        if len(codes) and int(codes.max()) >= len(kinds):
            raise DamagedError("a layout refers to a dtype that it does not list")
        layout = Layout(
            count(record.get("id"), "id of a layout"),
            count(record.get("schema"), "schema of a layout"),
            tuple(rows.tolist()),
            tuple(kinds[code] for code in codes.tolist()),
            tuple(counts(shape, "a shape") for shape in shapes),
        )
        if layout.starts[-1] >= 1 << 62:
            raise DamagedError("layout too large: its shapes need more than 2**62 bytes")
        return layout


@dataclass(frozen=True, slots=True)
class Block:
    """The location of the arrays of a step or of a named block."""

    layout: int
    segment: int
    offset: int
    checksums: bytes
    """CRC-32 of each tensor, four bytes each."""

    def to_record(self) -> list[Any]:
        return [self.layout, self.segment, self.offset, self.checksums]

    @staticmethod
    def read(fields: Any) -> Block | None:
        if fields is None:
            return None
        if not isinstance(fields, list) or len(fields) < 4 or not isinstance(fields[3], bytes):
            raise DamagedError("the location of a block has wrong fields")
        layout, segment, offset = (count(part, "location of a block") for part in fields[:3])
        return Block(layout, segment, offset, fields[3])


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One recorded step."""

    step: int
    kind: str
    time: float
    elapsed: float
    schema: int
    matrix: tuple[int, int, int] | None
    """Segment, offset and CRC-32 of its matrix of statistics."""
    block: Block | None
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "type": "step",
            "step": self.step,
            "kind": self.kind,
            "time": self.time,
            "elapsed": self.elapsed,
            "schema": self.schema,
        }
        if self.matrix is not None:
            record["matrix"] = list(self.matrix)
        if self.block is not None:
            record["block"] = self.block.to_record()
        if self.about:
            record["about"] = dict(self.about)
        return record

    @staticmethod
    def read(record: Mapping[str, Any]) -> StepRecord:
        matrix = record.get("matrix")
        location = None if matrix is None else counts(matrix, "location of statistics")
        if location is not None and len(location) != 3:
            raise DamagedError("the location of statistics has wrong fields")
        return StepRecord(
            count(record.get("step"), "a step"),
            text(record.get("kind"), "kind of a step"),
            number(record.get("time"), "time of a step"),
            number(record.get("elapsed"), "time of a step"),
            count(record.get("schema"), "schema of a step"),
            None if location is None else (location[0], location[1], location[2]),
            Block.read(record.get("block")),
            mapping(record.get("about"), "about of a step"),
        )


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """A named group of arrays: the storage of traces, activations and results."""

    name: str
    block: Block
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        return {"type": "block", "name": self.name, "block": self.block.to_record(), "about": dict(self.about)}

    @staticmethod
    def read(record: Mapping[str, Any]) -> BlockRecord:
        block = Block.read(record.get("block"))
        if block is None:
            raise DamagedError("a block has no location")
        return BlockRecord(text(record.get("name"), "name of a block"), block, mapping(record.get("about"), "a block"))


@dataclass(frozen=True, slots=True)
class Note:
    """A note logged during a run."""

    text: str
    step: int | None
    time: float
    level: str = "info"
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        record = {"type": "note", "text": self.text, "step": self.step, "time": self.time, "level": self.level}
        return {**record, "about": dict(self.about)}

    @staticmethod
    def read(record: Mapping[str, Any]) -> Note:
        step = record.get("step")
        return Note(
            text(record.get("text"), "a note"),
            None if step is None else count(step, "step of a note"),
            number(record.get("time"), "time of a note"),
            text(record.get("level", "info"), "level of a note"),
            mapping(record.get("about"), "about of a note"),
        )


@dataclass(frozen=True, slots=True)
class Points:
    """Some points of one scalar."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    elapsed: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScalarsRecord:
    """Numbers logged since the last record of this type."""

    points: Mapping[str, Points]

    def to_record(self) -> dict[str, Any]:
        series = {
            name: [points.steps.astype("<i8").tobytes(), points.values.astype("<f8").tobytes(),
                   points.elapsed.astype("<f8").tobytes()]
            for name, points in self.points.items()
        }  # fmt: skip
        return {"type": "scalars", "series": series}

    @staticmethod
    def read(record: Mapping[str, Any]) -> ScalarsRecord:
        points = {}
        for name, fields in mapping(record.get("series"), "scalars").items():
            if not isinstance(fields, list) or len(fields) < 3:
                raise DamagedError("the points of a scalar have wrong fields")
            steps, values, elapsed = (
                packed_array(part, kind, "points of a scalar")
                for part, kind in zip(fields, ("<i8", "<f8", "<f8"), strict=False)
            )
            if not len(steps) == len(values) == len(elapsed):
                raise DamagedError("steps and values of a scalar differ in length")
            if len(steps) and steps.min() < 0:
                raise DamagedError(f"step {steps.min()} of a scalar is below 0")
            points[text(name, "name of a scalar")] = Points(steps, values, elapsed)
        return ScalarsRecord(points)


@dataclass(frozen=True, slots=True)
class Seal:
    """Marks a finished segment."""

    segment: int
    is_statistics: bool
    size: int
    """Size of the file in bytes."""
    head: int
    """CRC-32 of everything before the data."""
    checksums: Mapping[str, bytes] = field(default_factory=dict)
    """Statistics: CRC-32 of each row of each tensor; for `steps/…`, of the whole tensor."""

    def to_record(self) -> dict[str, Any]:
        return {
            "type": "seal",
            "segment": self.segment,
            "is_statistics": self.is_statistics,
            "size": self.size,
            "head": self.head,
            "checksums": dict(self.checksums),
        }

    @staticmethod
    def read(record: Mapping[str, Any]) -> Seal:
        checksums = mapping(record.get("checksums"), "checksums of a seal")
        if not all(isinstance(part, bytes) for part in checksums.values()):
            raise DamagedError("the checksums of a seal have wrong fields")
        return Seal(
            count(record.get("segment"), "a segment"),
            bool(record.get("is_statistics")),
            count(record.get("size"), "size of a segment"),
            count(record.get("head"), "checksum of a segment"),
            checksums,
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """Data that could not be written, and why."""

    what: str
    steps: tuple[int, ...]
    reason: str
    time: float

    def to_record(self) -> dict[str, Any]:
        steps = self.steps
        record = {"type": "lost", "what": self.what, "reason": self.reason, "time": self.time}
        ranges = ranges_of(steps)
        # On a full disk a few bytes must say much. Readers that know no ranges see the ends.
        if len(steps) > _MAX_LISTED_STEPS and 6 * len(ranges) < len(steps):
            record["ranges"] = np.asarray(ranges, "<i8").tobytes()
            steps = (*steps[: _MAX_LISTED_STEPS // 2], *steps[-_MAX_LISTED_STEPS // 2 :])
        return {**record, "steps": np.asarray(steps, "<i8").tobytes()}

    @staticmethod
    def read(record: Mapping[str, Any]) -> Loss:
        steps = tuple(packed_array(record.get("steps"), "<i8", "lost steps").tolist())
        if record.get("ranges") is not None:
            steps = steps_in(packed_array(record["ranges"], "<i8", "ranges of lost steps"))
        return Loss(
            text(record.get("what"), "what was lost"),
            steps,
            text(record.get("reason"), "reason of a loss"),
            number(record.get("time"), "time of a loss"),
        )


@dataclass(frozen=True, slots=True)
class Session:
    """The first record of a session: its writer and start time."""

    number: int
    kind: str
    version: int
    cutaway: str
    rank: int
    world_size: int
    time: float

    def to_record(self) -> dict[str, Any]:
        return {
            "type": "session",
            "number": self.number,
            "kind": self.kind,
            "version": self.version,
            "cutaway": self.cutaway,
            "rank": self.rank,
            "world_size": self.world_size,
            "time": self.time,
        }

    @staticmethod
    def read(record: Mapping[str, Any]) -> Session:
        return Session(
            count(record.get("number"), "number of a session"),
            text(record.get("kind"), "kind of a session"),
            count(record.get("version"), "version of a session"),
            text(record.get("cutaway"), "version of a session"),
            count(record.get("rank"), "rank of a session"),
            count(record.get("world_size"), "world size of a session"),
            number(record.get("time"), "time of a session"),
        )
