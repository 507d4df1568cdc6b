"""A run for the viewer: its steps, rows, notes and metadata, without any statistics or values."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal

import numpy as np

from cutaway.core.errors import DamagedError
from cutaway.store.format.problems import loss_text
from cutaway.store.format.records import GRAD, Row
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.store.traces.origin import DOCUMENT, origin_of
from cutaway.views.pages.page_items import PageItem, collection_item, result_item
from cutaway.views.run.arrangement import structure_hash
from cutaway.views.run.node_names import Modules, parse_site
from cutaway.views.run.rows import RunRows

RunState = Literal["live", "ended", "killed", "unknown"]
RunKind = Literal["run", "trace", "activations", "result"]

_MOST_NOTES: Final = 5_000
_MOST_LOST: Final = 1_000
_DEEPEST: Final = 24


@dataclass(frozen=True, slots=True)
class TraceItem:
    """What the list says about a saved trace."""

    model: str
    """Class of the traced model; "" for a trace of plain code."""
    created: float
    """Seconds since 1970; 0 if unknown."""
    run: str
    """`archive` of the run in whose step it was made; "" if it was not made in a step."""
    step: int | None
    """That step."""


@dataclass(frozen=True, slots=True)
class RunItem:
    """One entry of the viewer's list."""

    id: str
    """Short, stable across restarts, and safe in a URL."""
    name: str
    path: str
    kind: RunKind
    state: RunState
    """`unknown` if another machine may be writing it."""
    n_steps: int
    last_step: int | None
    n_tensors: int
    kinds: tuple[str, ...]
    """Kinds of steps, in order of first occurrence."""
    damage: tuple[str, ...]
    """Damage on disk, or why it could not be opened."""
    ranks: tuple[int, ...] = ()
    """The ranks that wrote; other fields describe the first of them, or the requested one."""
    page: PageItem | None = None
    """Details of a collection or a saved result; None for runs and traces, and if it could not be opened."""
    trace: TraceItem | None = None
    """Details of a saved trace; None for others, and if it could not be opened."""
    archive: str = ""
    """The id in its manifest, which traces refer to; "" if unknown."""


@dataclass(frozen=True, slots=True)
class FoldersView:
    """The served folders."""

    paths: tuple[str, ...]
    stopped: tuple[str, ...]
    """Where the search for archives gave up, one sentence per folder; empty if every folder was searched."""


@dataclass(frozen=True, slots=True)
class RowView:
    """One recorded row: a tensor, or its gradient or update; one row of every matrix of statistics."""

    row: int
    """The viewer's number, the same over all steps and schemas, also while the run grows."""
    site: str
    """Without its pass: the same for all passes of a tensor."""
    of: str
    """"value", "grad", "grad/<loss>", "grad@2", "inner_grad", "update"…"""
    iteration: int
    """From 1; 0 if steps have no iterations."""
    pass_: int
    """Within its iteration, from 1."""
    n_passes: int
    """The largest number of passes of the tensor in any step, over all iterations."""
    role: str
    """"input", "target", "loss", "parameter", "buffer", "value"; or any role given by the user."""
    node: str
    """The node of the dependency graph given by the user; "" for its own node."""
    part: str
    names: tuple[str, ...]
    """Other names of the same tensor, without passes."""
    title: str = ""
    """For an input, its name in the forward of its module; else ""."""


@dataclass(frozen=True, slots=True)
class NoteView:
    """A note logged during a run."""

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
    """Data that could not be written, and why."""

    text: str
    """What, of which steps, and why."""
    time: float


@dataclass(frozen=True, slots=True)
class RunView:
    """Everything about a run except statistics and values."""

    item: RunItem
    steps: tuple[int, ...]
    """The recorded steps, in order."""
    kinds: tuple[str, ...]
    kind_of: tuple[int, ...]
    """By step, its kind: an index into `kinds`."""
    structures: tuple[StructureView, ...]
    structure_of: tuple[int, ...]
    """By step, its dependency graph: an index into `structures`; -1 if unknown."""
    sessions: tuple[int, ...]
    """The first step of each resumed session."""
    rows: tuple[RowView, ...]
    statistics: tuple[str, ...]
    """The columns of every matrix."""
    digest: str
    """Changes when rows or statistics are added; matrices fetched before are smaller."""
    edition: str
    """Changes when existing steps may have changed: the run was resumed or recorded again, or rows were added."""
    iterations: tuple[int, ...]
    losses: tuple[str, ...]
    """Losses with separate gradients, `grad/<loss>`; in old runs a number may be an optimizer step."""
    scalars: tuple[str, ...]
    logged: tuple[int, ...]
    """The first and last step with logged scalars; empty if there are none."""
    notes: tuple[NoteView, ...]
    """The newest notes, in order."""
    n_notes: int
    sample_fields: tuple[str, ...]
    """Fields of samples at any step: text, label…"""
    has_values: bool
    """Whether any step kept values; then its samples can be selected, also if they have no fields."""
    config: dict[str, Any]
    environment: dict[str, Any]
    damage: tuple[str, ...]
    """Damage on disk that reading has found so far."""
    lost: tuple[LostView, ...]
    """Data that could not be written."""


def item_id(name: str) -> str:
    """A 12-letter id of a run, from its path below the opened folder.

    >>> item_id("base") == item_id("base") != item_id("deep/base")
    True
    """
    # A hash instead of the name: paths may hold any character, and must not appear in URLs.
    digest = sha256(name.encode(errors="surrogatepass")).digest()
    return base64.b32encode(digest).decode()[:12].lower()


def run_item(run: Run, *, name: str | None = None) -> RunItem:
    """The list entry of a run.

    Args:
        name: path below the opened folder; the name of the run by default.
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
        damage=run.damage,
        ranks=run.ranks,
        archive=run.archive.id,
    )


def other_item(name: str, path: str, *, kind: RunKind = "run", damage: str = "") -> RunItem:
    """The list entry of a saved trace, or of something that could not be opened."""
    state: RunState = "unknown" if damage else "ended"
    return RunItem(item_id(name), name, path, kind, state, 0, None, 0, (), (damage,) if damage else ())


def trace_item(archive: Archive, *, name: str) -> RunItem:
    """The list entry of a saved trace. Reads none of its ops."""
    head = archive.document(DOCUMENT)
    if not isinstance(head, Mapping):
        raise DamagedError(f"the trace in {archive.path} is damaged: its document is not a mapping.")
    origin, model = origin_of(head), head.get("model_name")
    item = TraceItem(
        model=model if isinstance(model, str) else "",
        created=_seconds(archive.created),
        run="" if origin is None else origin.run,
        step=None if origin is None else origin.step,
    )
    return replace(other_item(name, archive.path, kind="trace"), trace=item)


def _seconds(created: str) -> float:
    try:
        return datetime.fromisoformat(created).timestamp()
    except ValueError:
        return 0.0


def archive_item(archive: Archive, *, name: str, edition: str) -> RunItem:
    """The list entry of a collection or a saved result."""
    sessions, is_live = archive.sessions(), archive.is_live
    is_ended = bool(sessions) and sessions[-1].is_ended
    state: RunState = "unknown" if is_live is None else "live" if is_live else "ended" if is_ended else "killed"
    page = (collection_item if archive.kind == "activations" else result_item)(archive, edition=edition)
    kind: RunKind = "activations" if archive.kind == "activations" else "result"
    return RunItem(item_id(name), name, archive.path, kind, state, 0, None, 0, (), tuple(archive.damage), page=page)


def _state(run: Run) -> RunState:
    is_live = run.is_live
    if is_live is None:
        return "unknown"
    if is_live:
        return "live"
    sessions = run.sessions
    return "ended" if sessions and sessions[-1].is_ended else "killed"


def run_view(rows: RunRows, *, name: str | None = None) -> RunView:
    """Everything the viewer needs about a run before it asks for numbers. Reads no statistics and no values.

    Args:
        name: path below the opened folder; the name of the run by default.
    """
    run = rows.run
    kind_of = np.zeros(len(run), np.intp)
    for number, places in enumerate(run.timeline.kinds.values()):
        kind_of[places] = number
    structures, structure_of = _structures(run)
    shown = rows.rows
    modules = Modules(run.documents.get("modules"))
    notes = run.notes
    return RunView(
        item=run_item(run, name=name),
        steps=tuple(run.steps.tolist()),
        kinds=run.kinds,
        kind_of=tuple(kind_of.tolist()),
        structures=structures,
        structure_of=structure_of,
        sessions=_sessions(run),
        rows=tuple(_row_view(number, row, rows.n_passes(row), modules) for number, row in enumerate(shown)),
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
        has_values=any(record.block is not None for record in run.timeline.records),
        config=_plain_map(run.config),
        environment=_plain_map(run.environment),
        damage=run.damage,
        lost=tuple(LostView(loss_text(loss), _time(loss.time)) for loss in run.losses[-_MOST_LOST:]),
    )


def edition(rows: RunRows) -> str:
    """A key that changes when a later session, or another run at the same path, replaces steps."""
    numbers = dict.fromkeys(index.number for index in rows.run.timeline.indexes)
    return f"{rows.run.archive.id}.{'-'.join(map(str, numbers))}.{rows.digest}"


def structure_at(run: Run, step: int) -> str:
    """The hash of the dependency graph of a step; "" if unknown."""
    return structure_hash(run.at(step).about)


def _row_view(number: int, row: Row, n_passes: int, modules: Modules) -> RowView:
    site = parse_site(row.base) if row.role == "input" else None
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
        title="" if site is None else modules.input_name(site),
    )


def _structures(run: Run) -> tuple[tuple[StructureView, ...], tuple[int, ...]]:
    """The dependency graphs in order of first occurrence, and the index of each step's graph."""
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
    """The first step of every session but the first, if it has any that count."""
    firsts: dict[int, int] = {}
    for index, record in zip(run.timeline.indexes, run.timeline.records, strict=True):
        firsts.setdefault(index.number, record.step)
    return tuple(firsts.values())[1:]


def _logged(run: Run) -> tuple[int, ...]:
    """The first and last logged step, from the ends of the indexes, without merging curves."""
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
    """Data of unknown origin, converted to JSON types.

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
