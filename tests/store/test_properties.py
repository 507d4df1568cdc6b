"""Whatever is written is read: schemas, dtypes, shapes, kinds, sessions; growing, sealed and opened again."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cutaway
from cutaway import Run
from cutaway.core.arrays import DTYPES, Raw, nbytes_of
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.records import Row
from cutaway.store.format.segments import Limits
from cutaway.store.writing.writer import Options, Writer

SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
NUMBERS = count()
text = st.one_of(
    st.sampled_from(
        ["", "encoder.0", "a%2Fb", "a/b:2", "__metadata__", "x" * 2000, "🐕", "\ud800", "steps/1", "..", "\0"]
    ),
    st.text(st.characters(codec=None), max_size=6),
)
of = st.sampled_from(["value", "value", "grad", "update", "grad/aux", "norm:2"])
numbers = st.floats(width=32, allow_subnormal=False)
about = st.dictionaries(
    text, st.one_of(st.none(), st.booleans(), st.integers(), text, st.binary(max_size=3)), max_size=2
)
about = about.filter(lambda found: all(not isinstance(v, int) or -(2**63) <= v < 2**64 for v in found.values()))


@dataclass
class Plan:
    """What is written of one step."""

    step: int
    schema: tuple[tuple[Row, ...], tuple[str, ...], str]
    kind: str
    matrix: np.ndarray | None
    values: dict[int, Raw]
    about: dict[str, Any]
    scalars: dict[str, float]


@dataclass
class Session:
    plans: list[Plan]
    notes: list[str] = field(default_factory=list)
    documents: dict[str, Any] = field(default_factory=dict)


@st.composite
def schemas(draw: st.DrawFn) -> tuple[tuple[Row, ...], tuple[str, ...], str]:
    unique = lambda row: (row.site, row.of, row.iteration)  # noqa: E731
    rows = draw(st.lists(st.builds(Row, text, of, st.integers(0, 2), text), max_size=4, unique_by=unique))
    statistics = draw(st.lists(text, max_size=3, unique=True))
    return tuple(rows), tuple(statistics), draw(st.sampled_from(["float32", "float64"]))


@st.composite
def raws(draw: st.DrawFn) -> Raw:
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=5)))
    size = nbytes_of(dtype, shape)
    return Raw(dtype, shape, draw(st.binary(min_size=size, max_size=size)))


@st.composite
def sessions(draw: st.DrawFn) -> list[Session]:
    known = draw(st.lists(schemas(), min_size=1, max_size=3))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        plans = []
        for step in sorted(draw(st.sets(st.integers(0, 12), max_size=6))):
            rows, statistics, dtype = schema = draw(st.sampled_from(known))
            n = len(rows) * len(statistics)
            cells = draw(st.none() | st.lists(numbers, min_size=n, max_size=n))
            matrix = None if cells is None else np.array(cells, dtype).reshape(len(rows), len(statistics))
            valued = draw(st.sets(st.integers(0, len(rows) - 1), max_size=3)) if rows else ()
            values = {row: draw(raws()) for row in valued}
            scalars = draw(st.dictionaries(text, st.floats(), max_size=2))
            plans.append(
                Plan(step, schema, draw(st.sampled_from(["", "long", "ü"])), matrix, values, draw(about), scalars)
            )
        documents = draw(st.dictionaries(text, about, max_size=2))
        found.append(Session(plans, draw(st.lists(text, max_size=2)), documents))
    return found


def write(writer: Writer, session: Session) -> None:
    for plan in session.plans:
        rows, statistics, dtype = plan.schema
        schema = writer.schema(rows, statistics, dtype=dtype)
        writer.step(plan.step, schema=schema, kind=plan.kind, matrix=plan.matrix, values=plan.values, about=plan.about)
        writer.scalars(plan.step, plan.scalars)
    for note in session.notes:
        writer.note(note)
    for name, content in session.documents.items():
        writer.document(name, content)


def unshadowed(plan: list[Session]) -> list[tuple[int, Plan]]:
    """The steps that count: what a later session ran again, it ran instead."""
    found: dict[int, tuple[int, Plan]] = {}
    for number, session in enumerate(plan, 1):
        first = min((plan.step for plan in session.plans), default=None)
        if first is not None:
            found = {step: kept for step, kept in found.items() if step < first}
        found |= {plan.step: (number, plan) for plan in session.plans}
    return [found[step] for step in sorted(found)]


def bits(raw: Raw) -> tuple[str, tuple[int, ...], bytes]:
    return raw.dtype, raw.shape, bytes(memoryview(raw.data))


def compare(run: Run, plan: list[Session], kept: list[tuple[int, Plan]]) -> None:
    assert run.damage == ()
    assert run.steps.tolist() == [plan.step for _, plan in kept]
    assert list(run.kinds) == list(dict.fromkeys(plan.kind for _, plan in kept))
    for number, plan_ in kept:
        step, (rows, statistics, _) = run.at(plan_.step), plan_.schema
        assert (step.session, step.kind, step.about) == (number, plan_.kind, plan_.about)
        assert (step.rows, step.statistics) == (rows, statistics)
        if plan_.matrix is None:
            assert np.isnan(step.matrix).all()
        else:
            assert step.matrix.tobytes() == plan_.matrix.tobytes()
        for row_number, row in enumerate(rows):
            raw = step.raw(row)
            written = plan_.values.get(row_number)
            assert (raw is None) == (written is None)
            if raw is not None and written is not None:
                assert bits(raw) == bits(written)
                assert raw.array().tobytes() == written.array().tobytes()
    for name in {name for _, plan_ in kept for name in plan_.scalars}:
        points = [(plan_.step, plan_.scalars[name]) for _, plan_ in kept if name in plan_.scalars]
        curve = run.scalars[name]
        assert curve.steps.tolist() == [step for step, _ in points]
        assert curve.values.tobytes() == np.array([value for _, value in points]).tobytes()
    compare_curves(run, kept)
    assert [note.text for note in run.notes] == [note for session in plan for note in session.notes]
    documents: dict[str, Any] = {}
    for session in plan:
        documents |= session.documents
    assert run.documents == documents


def compare_curves(run: Run, kept: list[tuple[int, Plan]]) -> None:
    keys = {(row.site, row.of, row.iteration) for _, plan in kept for row in plan.schema[0]}
    for site, of_, iteration in keys:
        series = run[site].other(of_, iteration=iteration)
        cells: dict[str, list[float]] = {}
        steps, kinds = [], []
        for _, plan in kept:
            rows, statistics, _ = plan.schema
            place = {(row.site, row.of, row.iteration): n for n, row in enumerate(rows)}.get((site, of_, iteration))
            if plan.matrix is None or place is None:
                continue
            steps.append(plan.step)
            kinds.append(plan.kind)
            for name in run.statistics:
                value = plan.matrix[place, statistics.index(name)] if name in statistics else np.nan
                cells.setdefault(name, []).append(value)
        assert (series.steps.tolist(), series.kinds) == (steps, kinds)
        for name in run.statistics:
            np.testing.assert_array_equal(series.stats(name), np.array(cells.get(name, []), "f8"))
            for kind in run.kinds:
                wanted = [value for value, other in zip(cells.get(name, []), kinds, strict=False) if other == kind]
                np.testing.assert_array_equal(series.stats(name, kind=kind), np.array(wanted, "f8"))


def compare_sealed(path: str, plan: list[Session]) -> None:
    """With the stock package: every value under its name, to the bit."""
    backend = backend_for(path)
    names = backend.names("rank-0")
    assert not [name for name in names if name.endswith((".part", ".sealing"))]
    for number, session in enumerate(plan, 1):
        found: dict[str, bytes] = {}
        for name in names:
            if name.startswith(f"{number:04d}-v"):
                data = backend.read(f"rank-0/{name}", 0, backend.size(f"rank-0/{name}"))
                found |= {key: bytes(about["data"]) for key, about in safetensors.deserialize(data)}
        written = [
            (f"{plan.step}/{plan.schema[0][row].key}".encode("utf-8", "backslashreplace").decode(), bits(raw)[2])
            for plan in session.plans
            for row, raw in plan.values.items()
        ]
        assert len(found) == len(written)
        if len(dict(written)) == len(written):
            assert found == dict(written)


@given(sessions(), st.integers(1, 4), st.booleans())
@SETTINGS
def test_what_is_written_is_read(plan: list[Session], n_steps: int, is_local: bool) -> None:
    folder = tempfile.mkdtemp() if is_local else f"memory://properties/{next(NUMBERS)}"
    path = f"{folder}/run"
    options = Options(limits=Limits(steps=n_steps, tensors=5, header=400))
    watching: Run | None = None
    for number, session in enumerate(plan, 1):
        with Writer(path, kind="run", resume=number > 1, options=options) as writer:
            write(writer, session)
            assert writer.flush(60)
            kept = unshadowed(plan[:number])
            growing = cutaway.load(path)
            assert isinstance(growing, Run)
            compare(growing, plan[:number], kept)
            if watching is not None:
                watching.refresh()
                compare(watching, plan[:number], kept)
            watching = growing
        watching.refresh()
        compare(watching, plan[:number], kept)
    run = cutaway.load(path)
    assert isinstance(run, Run)
    compare(run, plan, unshadowed(plan))
    for number, session in enumerate(plan, 1):
        assert run.session(number).steps.tolist() == [plan_.step for plan_ in session.plans]
    compare_sealed(path, plan)
    if is_local:
        shutil.rmtree(folder)


def test_names_longer_than_any_header_survive_sealing() -> None:
    rows = [Row(f"{number}{'x' * 2_000_000}") for number in range(10)]
    with Writer("memory://properties/long-names", kind="run") as writer:
        schema = writer.schema(rows, ["mean"])
        writer.step(1, schema=schema, matrix=np.arange(10.0).reshape(10, 1), values={3: Raw.of(np.arange(3))})
    run = cutaway.load("memory://properties/long-names")
    assert isinstance(run, Run)
    assert run[rows[4].site].stats("mean").tolist() == [4]
    assert run.at(1).matrix[:, 0].tolist() == list(range(10))
    assert run.at(1)[rows[3].site].value.tolist() == [0, 1, 2]
