"""A run as the viewer's first page of facts: its steps, the rows of its matrices, what stands beside them."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

import numpy as np

from cutaway.store.format.records import GRAD, Row
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.views.pages.page_items import PageItem, collection_item, result_item
from cutaway.views.run.arrangement import structure_hash
from cutaway.views.run.rows import RunRows

RunState = Literal["live", "ended", "killed", "unknown"]
RunKind = Literal["run", "trace", "activations", "result"]

_MOST_NOTES: Final = 5_000
_MOST_LOST: Final = 1_000
_DEEPEST: Final = 24


@dataclass(frozen=True, slots=True)
class RunItem:
    """One entry in the list of a folder."""

    id: str
    """Short, the same at every start, and safe in an address."""
    name: str
    path: str
    kind: RunKind
    state: RunState
    """`unknown` where another machine may be writing it."""
    n_steps: int
    last_step: int | None
    n_tensors: int
    kinds: tuple[str, ...]
    """Kinds of steps, in the order they first were."""
    problems: tuple[str, ...]
    """What is damaged, or why it could not be opened."""
    ranks: tuple[int, ...] = ()
    """The ranks that wrote; all else here is about the first of them, or the one that was asked for."""
    page: PageItem | None = None
    """Of a collection, or a saved result; none of all else, and of what could not be opened."""


@dataclass(frozen=True, slots=True)
class RowView:
    """One tensor and what of it was recorded: one row of every matrix of statistics."""

    row: int
    """The viewer's own number, the same over all steps and schemas, also while the run grows."""
    site: str
    """Without its pass: the same for all passes of a tensor."""
    of: str
    """"value", "grad", "grad/<loss>", "grad@2", "inner_grad", "update"…"""
    iteration: int
    """From 1; 0 where steps have none."""
    pass_: int
    """Within its iteration, from 1."""
    n_passes: int
    """The most passes that a step of the run has of the tensor, over all iterations."""
    role: str
    """"input", "target", "loss", "parameter", "buffer", "value"; or whatever the writer said."""
    node: str
    """The node of the dependency graph it was given to; "" for one of its own."""
    part: str
    names: tuple[str, ...]
    """Further names of the same tensor, without passes."""


@dataclass(frozen=True, slots=True)
class NoteView:
    """Something that was said during a run."""

    step: int | None
    time: float
    """Seconds since 1970."""
    level: str
    text: str
    about: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StructureView:
    """One dependency graph of the run."""

    hash: str
    from_step: int
    """The first recorded step that has it."""
    n_steps: int
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LostView:
    """Something that could not be written, and why."""

    what: str
    steps: tuple[int, ...]
    reason: str
    time: float


@dataclass(frozen=True, slots=True)
class RunView:
    """All that is known of a run before any statistics or values are read."""

    item: RunItem
    steps: tuple[int, ...]
    """The recorded steps in order."""
    kinds: tuple[str, ...]
    kind_of: tuple[int, ...]
    """By step, its kind: an index into `kinds`."""
    structures: tuple[StructureView, ...]
    structure_of: tuple[int, ...]
    """By step, its dependency graph: an index into `structures`; -1 where it is not known."""
    sessions: tuple[int, ...]
    """The steps with which a resumed session began."""
    rows: tuple[RowView, ...]
    statistics: tuple[str, ...]
    """The columns of every matrix."""
    digest: str
    """Changes when rows or statistics were added: matrices got before that are shorter."""
    edition: str
    """Changes when steps that were there before may hold something else: resumed, recorded anew, rows were added."""
    iterations: tuple[int, ...]
    losses: tuple[str, ...]
    """The losses with gradients of their own, `grad/<loss>`; in old runs a number may be a step of the optimizer."""
    scalars: tuple[str, ...]
    logged: tuple[int, ...]
    """The first and the last step of which a number was logged; empty where none was."""
    notes: tuple[NoteView, ...]
    """The newest ones, in the order they were noted."""
    n_notes: int
    sample_fields: tuple[str, ...]
    """What is known of samples, at some step: text, label…"""
    config: dict[str, Any]
    environment: dict[str, Any]
    problems: tuple[str, ...]
    lost: tuple[LostView, ...]
    """What could not be written."""


def item_id(name: str) -> str:
    """Twelve letters that stand for a run: those of its path below the folder that was opened.

    >>> item_id("base") == item_id("base") != item_id("deep/base")
    True
    """
    digest = sha256(name.encode(errors="surrogatepass")).digest()
    return base64.b32encode(digest).decode()[:12].lower()


def run_item(run: Run, *, name: str | None = None) -> RunItem:
    """A run for the list of its folder.

    Args:
        name: its path below the folder that was opened; its own name where nothing is said.
    """
    name = run.name if name is None else name
    steps = run.steps
    return RunItem(
        id=item_id(name),
        name=name,
        path=run.path,
        kind="run",
        state=_state(run),
        n_steps=len(steps),
        last_step=int(steps[-1]) if len(steps) else None,
        n_tensors=len(run.sites),
        kinds=run.kinds,
        problems=run.problems,
        ranks=run.ranks,
    )


def other_item(name: str, path: str, *, kind: RunKind = "run", problem: str = "") -> RunItem:
    """A saved trace, or whatever could not be opened and why, for the same list."""
    problems = (problem,) if problem else ()
    state: RunState = "unknown" if problem else "ended"
    return RunItem(item_id(name), name, path, kind, state, 0, None, 0, (), problems)


def archive_item(archive: Archive, *, name: str, edition: str) -> RunItem:
    """A collection, or a saved result."""
    sessions, is_live = archive.sessions(), archive.is_live
    is_ended = bool(sessions) and sessions[-1].is_ended
    state: RunState = "unknown" if is_live is None else "live" if is_live else "ended" if is_ended else "killed"
    page = (collection_item if archive.kind == "activations" else result_item)(archive, edition=edition)
    kind: RunKind = "activations" if archive.kind == "activations" else "result"
    return RunItem(item_id(name), name, archive.path, kind, state, 0, None, 0, (), tuple(archive.problems), page=page)


def _state(run: Run) -> RunState:
    is_live = run.is_live
    if is_live is None:
        return "unknown"
    if is_live:
        return "live"
    sessions = run.sessions
    return "ended" if sessions and sessions[-1].is_ended else "killed"


def run_view(rows: RunRows, *, name: str | None = None) -> RunView:
    """What a page needs to know of a run before it asks for numbers. Neither statistics nor values are read.

    Args:
        name: its path below the folder that was opened; its own name where nothing is said.
    """
    run = rows.run
    kind_of = np.zeros(len(run), np.intp)
    for number, places in enumerate(run.timeline.kinds.values()):
        kind_of[places] = number
    structures, structure_of = _structures(run)
    shown = rows.rows
    notes = run.notes
    return RunView(
        item=run_item(run, name=name),
        steps=tuple(run.steps.tolist()),
        kinds=run.kinds,
        kind_of=tuple(kind_of.tolist()),
        structures=structures,
        structure_of=structure_of,
        sessions=_sessions(run),
        rows=tuple(_row_view(number, row, rows.n_passes(row)) for number, row in enumerate(shown)),
        statistics=rows.statistics,
        digest=rows.digest,
        edition=edition(rows),
        iterations=tuple(sorted({row.iteration for row in shown})),
        losses=_losses(shown),
        scalars=tuple(run.scalars),
        logged=_logged(run),
        notes=tuple(
            NoteView(note.step, _time(note.time), note.level, note.text, _plain_map(note.about))
            for note in notes[-_MOST_NOTES:]
        ),
        n_notes=len(notes),
        sample_fields=tuple(
            dict.fromkeys(row.site for schema in run.timeline.schemas for row in schema.rows if row.is_sample)
        ),
        config=_plain_map(run.config),
        environment=_plain_map(run.environment),
        problems=run.problems,
        lost=tuple(LostView(loss.what, loss.steps, loss.reason, _time(loss.time)) for loss in run.losses[-_MOST_LOST:]),
    )


def edition(rows: RunRows) -> str:
    """What tells the steps of a run from those that a later session, or another run in its place, put there."""
    numbers = dict.fromkeys(index.number for index in rows.run.timeline.indexes)
    return f"{rows.run.archive.id}.{'-'.join(map(str, numbers))}.{rows.digest}"


def structure_at(run: Run, step: int) -> str:
    """The hash of the dependency graph of a step; "" where it is not known."""
    return structure_hash(run.at(step).about)


def _row_view(number: int, row: Row, n_passes: int) -> RowView:
    return RowView(
        row=number,
        site=row.base,
        of=row.of,
        iteration=row.iteration,
        pass_=row.pass_,
        n_passes=n_passes,
        role=row.role,
        node=row.node,
        part=row.part,
        names=row.bare_names,
    )


def _structures(run: Run) -> tuple[tuple[StructureView, ...], tuple[int, ...]]:
    """The dependency graphs in the order they first were, and by step which it has."""
    numbers: dict[str, int] = {"": -1}
    steps: list[list[int]] = []
    kinds: list[dict[str, None]] = []
    found = []
    for record in run.timeline.records:
        number = numbers.setdefault(structure_hash(record.about), len(steps))
        if number == len(steps):
            steps.append([record.step, 0])
            kinds.append({})
        if number >= 0:
            steps[number][1] += 1
            kinds[number][record.kind] = None
        found.append(number)
    hashes = [hash_ for hash_, number in numbers.items() if number >= 0]
    views = (
        StructureView(hash_, first, n_steps, tuple(of))
        for hash_, (first, n_steps), of in zip(hashes, steps, kinds, strict=True)
    )
    return tuple(views), tuple(found)


def _sessions(run: Run) -> tuple[int, ...]:
    """The first step of every session but the first, as far as it counts."""
    firsts: dict[int, int] = {}
    for index, record in zip(run.timeline.indexes, run.timeline.records, strict=True):
        firsts.setdefault(index.number, record.step)
    return tuple(firsts.values())[1:]


def _logged(run: Run) -> tuple[int, ...]:
    """From the first to the last, as far as the ends of the indexes tell: no curve is joined for it."""
    records = [record for index in run.sessions for record in index.scalars]
    ends = [
        [points.steps for points in record.points.values() if len(points.steps)]
        for record in records[:1] + records[-1:]
    ]
    if not ends or not all(ends):
        return ()
    return int(min(steps.min() for steps in ends[0])), int(max(steps.max() for steps in ends[-1]))


def _losses(rows: tuple[Row, ...]) -> tuple[str, ...]:
    ofs = dict.fromkeys(row.of for row in rows)
    return tuple(of.removeprefix(f"{GRAD}/") for of in ofs if of.startswith(f"{GRAD}/"))


def _time(time: float) -> float:
    return time if math.isfinite(time) else 0.0


def _plain_map(content: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): plain_data(item) for key, item in content.items()}


def plain_data(value: Any, depth: int = 0) -> Any:
    """Data of unknown origin as JSON takes it.

    >>> plain_data({"lr": float("inf"), "seed": b"\\x00\\x01"})
    {'lr': 'inf', 'seed': '2 bytes'}
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value):,} bytes"
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): plain_data(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_data(item, depth + 1) for item in value]
    return str(value)
