"""A trace that was saved and read back answers as the fresh one does, without torch; damage is told, never guessed."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import ROOT
from tests.graph.programs import Program
from tests.graph.random_models import tangle
from tests.store.facts import array_of, facts
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway import Trace
from cutaway.core.arrays import Raw
from cutaway.core.current_step import StepOrigin
from cutaway.core.errors import (
    CannotReplayError,
    CannotValidateError,
    CutawayError,
    DamagedError,
    ExistsError,
    NotSavedError,
    OpenTraceError,
    StoreError,
    VersionError,
)
from cutaway.graph.analysis.consistency import problems
from cutaway.graph.analysis.export import record
from cutaway.graph.argument_text import OpaqueArgument
from cutaway.graph.op import Op
from cutaway.store.reading.archive import Archive
from cutaway.store.traces.columns import ColumnWriter
from cutaway.store.traces.encode import structure_of
from cutaway.store.traces.trace_file import decode_trace, encode_values, read

NO_PLAIN_VALUES = {"sparse", "nested", "meta"}
"""Models with values that cannot be written as one dense array."""


def again(trace: Trace, folder: Path, name: str = "trace") -> Trace:
    """Save it, and read it back."""
    trace.save(folder / name)
    found = cutaway.load(folder / name)
    assert isinstance(found, Trace)
    return found


def traced(name: str) -> Trace:
    model, args, kwargs = ZOO[name]()
    torch.manual_seed(0)
    return cutaway.trace(model, *args, **kwargs)


class Steps(nn.Module):
    """Several results, a loop, a decision, a buffer that is written, and an argument of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.unused = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = torch.relu(self.linear(x))
            if x.sum() > 0.1:
                x = self.norm(x) * 0.5
        values, _ = x.sort(dim=-1)
        parts = values.to(torch.float64).split([1, 3], dim=1)
        return torch.cat([parts[1], parts[0]], 1)[..., 1:3].float() + float(x.mean())


@pytest.fixture
def steps() -> Trace:
    torch.manual_seed(0)
    model, x = Steps(), torch.randn(3, 4)
    with cutaway.watch(model) as trace:
        out = model(x)
        out.sum().backward(retain_graph=True)
        out.pow(2).sum().backward()
    return trace


# the same answers


@pytest.mark.parametrize("name", sorted(ZOO))
def test_every_documented_answer_is_the_same(name: str, tmp_path: Path) -> None:
    trace = traced(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if name in NO_PLAIN_VALUES else "error", UserWarning)
        found = again(trace, tmp_path)
    values = name not in NO_PLAIN_VALUES
    fresh, loaded = facts(trace, values=values), facts(found, values=values)
    for key in fresh:
        assert loaded[key] == fresh[key], key
    assert found.tables.parameters == trace.tables.parameters
    assert found.tables.modules == trace.tables.modules
    assert [row.first_node for row in found.tables.calls] == [row.first_node for row in trace.tables.calls]
    assert list(problems(found)) == []


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_and_random_programs_answer_the_same(seed: int, tmp_path: Path) -> None:
    run = Program(seed).compile(source=bool(seed % 3))
    with cutaway.watch() as decided:
        run(torch.randn(3, generator=torch.Generator().manual_seed(seed)), bool(seed % 2), lambda *_: 1.0)
    for number, trace in enumerate([tangle(seed), decided]):
        assert facts(again(trace, tmp_path, str(number)), values=True) == facts(trace, values=True)


def test_gradients_come_back_pass_by_pass(steps: Trace, tmp_path: Path) -> None:
    found = again(steps, tmp_path)
    assert found.n_backwards == 2
    assert facts(found, values=True) == facts(steps, values=True)
    node = steps["relu_1"].node
    own, fresh = Op(found, node).grads, Op(steps, node).grads
    assert [grad.tobytes() for grad in own] == [grad.numpy().tobytes() for grad in fresh]
    assert Op(found, steps.inputs[0].node).grad is None
    assert all(not grad.flags.writeable for grad in own)


def test_values_are_read_only_arrays_and_units_of_them(steps: Trace, tmp_path: Path) -> None:
    found = again(steps, tmp_path)
    value = found["linear_1"].value
    assert type(value) is np.ndarray
    assert not value.flags.writeable
    assert np.array_equal(found["linear_1#2"].value, steps["linear_1#2"].value.numpy())
    assert np.array_equal(found["linear_1#2"].grad, steps["linear_1#2"].grad.numpy())
    assert found["linear_1#2"].shape == (3,)
    assert found.rolled.of(found["relu_1"].node).values.shape == (2, 3, 4)
    assert [type(op.value) for op in found if op.shape is None] == [bool, bool, float]


def test_every_dtype_keeps_its_numbers_and_its_name(tmp_path: Path) -> None:
    dtypes = [torch.bfloat16, torch.float16, torch.complex64, torch.float8_e4m3fn, torch.int16, torch.bool]
    with cutaway.watch() as trace:
        made = [torch.linspace(-2, 2, 5).to(dtype) for dtype in dtypes]
    found = again(trace, tmp_path)
    for op, tensor in zip([op for op in found if op.function == "to"], made, strict=True):
        assert op.dtype == str(tensor.dtype).removeprefix("torch.")
        expected = tensor.float() if tensor.dtype in (torch.bfloat16, torch.float8_e4m3fn) else tensor
        assert np.array_equal(op.value, expected.numpy())


def test_part_of_a_trace_comes_back_as_that_part(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), torch.ones(3, 4)
    for number, options in enumerate(
        [
            {"save": "1/relu"},
            {"save": None},
            {"keep": "copy"},
            {"keep": str(tmp_path / "values")},
            {"transform": lambda value: value.abs().amax()},
            {"transform": lambda value: {"mean": float(value.mean()), "shape": list(value.shape)}},
            {"orphans": True},
        ]
    ):
        with cutaway.watch(model, **options) as trace:  # type: ignore[arg-type]
            torch.zeros(2) + 1
            model(x)
        found = again(trace, tmp_path, str(number))
        assert facts(found, values=True) == facts(trace, values=True)
    with pytest.raises(NotSavedError, match="trace again with"):
        _ = again(cutaway_without_values(model, x), tmp_path, "none")["1/relu"].value


def cutaway_without_values(model: nn.Module, x: Tensor) -> Trace:
    with cutaway.watch(model, save=None) as trace:
        model(x)
    return trace


def test_a_failed_trace_tells_its_error_in_words(tmp_path: Path) -> None:
    broken = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(9, 2))
    with pytest.raises(RuntimeError) as raised:
        cutaway.trace(broken, torch.ones(3, 4))
    trace: Trace = raised.value.cutaway_trace  # type: ignore[attr-defined]
    found = again(trace, tmp_path)
    assert not found.is_complete
    assert type(found.error).__name__ == "RuntimeError"
    assert str(found.error) == str(raised.value)
    assert found.failed == trace.failed
    assert "linear(" in str(found.failed)
    assert repr(found) == repr(trace)
    assert not found.modules["2"].calls[0].is_finished


def test_a_replay_and_a_trace_that_was_read_can_be_saved_as_well(steps: Trace, tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.ones(2, 4)
    replay = cutaway.trace(model, x).replay("0/linear", 1.0)
    found = again(replay, tmp_path)
    assert len(found.recomputed) > 0
    assert found.recomputed.nodes == replay.recomputed.nodes
    assert facts(found, values=True) == facts(replay, values=True)
    once = again(steps, tmp_path, "once")
    assert facts(again(once, tmp_path, "twice"), values=True) == facts(steps, values=True)


def test_names_given_by_the_user_and_odd_names_survive(tmp_path: Path) -> None:
    with cutaway.watch() as trace:
        trace.tensor("memory", torch.ones(3) * 2)
    assert again(trace, tmp_path)["$memory"].label == trace["$memory"].label


# arguments


def test_arguments_are_plain_data_with_ops_in_the_place_of_tensors(tmp_path: Path) -> None:
    x = torch.ones(4, 6)
    with cutaway.watch() as trace:
        x[1:3, ..., None]
        torch.cat([x, x * 2], dim=1)
        x.to(torch.float64)
        x.sum(dim=(0, 1), keepdim=True)
        torch.full((2,), float("nan"))
        x * np.float64(0.5)
    found = again(trace, tmp_path)
    args = {op.function: op.args for op in found}
    assert args["getitem"][1] == (slice(1, 3), ..., None)
    first, second = args["cat"][0]
    assert (first.kind, second.function) == ("constant", "mul")
    assert args["to"][1] == OpaqueArgument("float64", "torch.float64")
    assert found["sum_1"].kwargs == {"dim": (0, 1), "keepdim": True}
    assert np.isnan(args["full"][1])
    assert [edge.argument for edge in found["cat_1"].edges] == ["0.0", "0.1"]
    assert found["mul_2"].args[1] == 0.5
    assert found["mul_1"].callable is None


# without torch


_SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[2])
import cutaway
from tests.store.facts import facts
trace = cutaway.load(sys.argv[1])
found = json.dumps(facts(trace, values=True), default=repr)
trace.save(sys.argv[1] + "-again")
assert "torch" not in sys.modules, "torch was loaded"
print(found)
"""


def test_a_trace_is_read_and_answers_everything_without_torch(steps: Trace, tmp_path: Path) -> None:
    steps.save(tmp_path / "trace")
    root = str(ROOT)
    command = [sys.executable, "-W", "ignore", "-c", _SCRIPT, str(tmp_path / "trace"), root]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(said) == json.loads(json.dumps(facts(steps, values=True), default=repr))


def test_what_needs_the_model_says_so(steps: Trace, tmp_path: Path) -> None:
    found = again(steps, tmp_path)
    with pytest.raises(CannotValidateError, match="was loaded from"):
        found.validate()
    with pytest.raises(CannotReplayError, match="was loaded from"):
        found.replay("relu_1", 0)
    with pytest.raises(NotSavedError, match="retained"):
        _ = found.retained
    with pytest.raises(OpenTraceError):
        found.tensor("x", 1)
    assert found.returned is None


def test_traces_that_were_read_can_be_compared(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.ones(2, 4)
    one, two = cutaway.trace(model, x), cutaway.trace(model, x * 2)
    a, b = again(one, tmp_path, "a"), again(two, tmp_path, "b")
    assert not cutaway.diff(one, a).structure
    assert not cutaway.diff(a, one).structure
    assert all(row.distance.is_equal for row in cutaway.diff(a, one).values)
    fresh, loaded = cutaway.diff(one, two), cutaway.diff(a, b)
    assert (loaded.structure, loaded.values, loaded.first) == (fresh.structure, fresh.values, fresh.first)
    assert loaded.first is not None


# the store


def test_nothing_is_overwritten(steps: Trace, tmp_path: Path) -> None:
    steps.save(tmp_path / "trace")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ExistsError):
        steps.save(tmp_path / "trace")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(ExistsError):
        steps.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"
    assert {path: path.read_bytes() for path in before} == before


def test_an_open_trace_is_not_saved(tmp_path: Path) -> None:
    with cutaway.watch() as trace, pytest.raises(OpenTraceError):
        trace.save(tmp_path / "trace")
    assert not (tmp_path / "trace").exists()


def test_a_value_that_was_overwritten_is_not_written_and_says_why(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.ones(2, 4)
    trace = cutaway.trace(model, x)
    with torch.no_grad():
        model[0].weight.add_(1)
    with pytest.warns(UserWarning, match=r"1 value of this trace could not be saved .*overwritten") as warned:
        found = again(trace, tmp_path)
    assert len(warned) == 1
    weight = found.parameters["0.weight"]
    assert (weight.is_saved, weight.shape) == (False, (4, 4))
    with pytest.raises(NotSavedError, match=r"0.weight.* was not stored with the trace: .*overwritten"):
        _ = weight.value
    assert np.array_equal(found["relu_1"].value, trace["relu_1"].value.numpy())


def test_values_that_are_no_dense_arrays_say_why_they_are_missing(tmp_path: Path) -> None:
    trace = traced("sparse")
    with pytest.warns(UserWarning, match="could not be saved"):
        found = again(trace, tmp_path)
    missing = [op for op in found if not op.is_saved]
    assert 0 < len(missing) < len(found)
    for op in found:
        if op.is_saved:
            fresh = Op(trace, op.node).value
            assert np.array_equal(op.value, array_of(fresh) if isinstance(fresh, Tensor) else fresh)
        else:
            with pytest.raises(NotSavedError, match="layout"):
                _ = op.value


def test_one_tensor_under_several_ops_is_written_once(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Dropout() for _ in range(20))).eval()
    trace = cutaway.trace(model, torch.ones(100, 1000))
    found = again(trace, tmp_path)
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert size < 2 * 400_000
    assert all(np.array_equal(op.value, np.ones((100, 1000), np.float32)) for op in found)


# damage


def split_name(trace: Trace) -> tuple[dict[str, Any], dict[str, Raw], dict[str, Any]]:
    """A trace as it would be written, in memory."""
    structure, blocks = structure_of(trace), dict[str, Any]()
    encode_values(trace, structure, lambda name, arrays: blocks.__setitem__(name, _Held(dict(arrays))))
    return structure.document, structure.arrays(), blocks


class _Held:
    def __init__(self, arrays: dict[str, Raw]) -> None:
        self.names, self._arrays = tuple(arrays), arrays

    def raw(self, name: str) -> Raw:
        return self._arrays[name]


def broken(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """An array as damage, or an enemy, could have left it."""
    yield array[:-1]
    yield array[::-1]
    yield array.astype(np.float64 if array.dtype.kind != "f" else np.int64)
    yield array.reshape(1, -1)
    if array.dtype.kind == "i":
        for wrong in (-1, 3, 2**31 - 1):
            for place in (0, len(array) - 1):
                changed = array.astype(np.int64)
                changed[place] = wrong
                yield changed


def test_a_trace_with_any_broken_column_is_refused_or_answers_everything(steps: Trace) -> None:
    document, arrays, blocks = split_name(steps)
    assert facts(decode_trace(document, arrays, blocks, "here"), values=True) == facts(steps, values=True)
    refused = answered = 0
    for name, raw in arrays.items():
        array = raw.array()
        for changed in broken(array) if len(array) else ():
            try:
                found = decode_trace(document, {**arrays, name: Raw.of(changed)}, blocks, "here")
            except DamagedError:
                refused += 1
            else:
                answered += 1
                ask_all(found)
        missing = {key: value for key, value in arrays.items() if key != name}
        if name == "units":  # not there in traces of older versions: then units are worked out from the graph
            found = decode_trace(document, missing, blocks, "here")
            assert found.unit_layouts == list(steps.unit_layouts)
            continue
        if name == "unexplained":  # not there in traces of older versions
            assert decode_trace(document, missing, blocks, "here").unexplained == ()
            continue
        with pytest.raises(DamagedError):
            decode_trace(document, missing, blocks, "here")
    assert refused > 400
    assert answered > 100


QUESTIONS: list[Callable[[Trace], object]] = [
    repr,
    lambda trace: trace.sites,
    lambda trace: [record(op) for op in trace],
    lambda trace: list(trace.rolled),
    lambda trace: [(each.branch, each.ops_in_arm) for each in trace.conditionals],
    lambda trace: trace.draw(depth=1, rolled=True),
    lambda trace: trace.critical_path(),
    lambda trace: trace.match("**"),
    lambda trace: [(op.stack, op.args, op.edges, op.arms, op.groups, op.siblings, op.full_site) for op in trace],
    lambda trace: [(call.children, call.total, call.source, call.inputs, call.ops) for call in trace.calls],
]


def ask_all(trace: Trace) -> None:
    """Every question about the graph; each has an answer, or an error that is ours."""
    for ask in QUESTIONS:
        with contextlib.suppress(CutawayError):
            ask(trace)


@pytest.mark.parametrize("name", ["version", "n_nodes", "model_name", "seconds", "error", "orphans", "n_backwards"])
def test_a_broken_document_is_refused(name: str, steps: Trace) -> None:
    document, arrays, blocks = split_name(steps)
    fine: dict[str, tuple[type, ...]] = {"model_name": (str,), "seconds": (int, float)}
    for wrong in (-1, "x", [1], {"a": 1}, 1 << 70, object()):
        if not isinstance(wrong, fine.get(name, ())):
            with pytest.raises((DamagedError, VersionError)):
                decode_trace({**document, name: wrong}, arrays, blocks, "")
    with pytest.raises(DamagedError):
        decode_trace(["nothing"], arrays, blocks, "")


def test_a_parent_that_comes_after_its_child_is_refused(steps: Trace) -> None:
    document, arrays, blocks = split_name(steps)
    nodes = [list(parents) for parents in steps.tables.nodes.parents]
    nodes[3] = [3]
    columns = ColumnWriter()
    columns.rows("nodes/parents", nodes)
    changed = {**arrays, **{key: raw for key, raw in columns.arrays().items() if key.startswith("nodes/")}}
    with pytest.raises(DamagedError, match="node 3 of this trace has the parent 3"):
        decode_trace(document, changed, blocks, "here")


@pytest.mark.parametrize("suffix", [".index", ".safetensors", ".json"])
def test_a_file_that_was_cut_short_is_told(suffix: str, steps: Trace, tmp_path: Path) -> None:
    steps.save(tmp_path / "trace")
    file = max((path for path in tmp_path.rglob(f"*{suffix}")), key=lambda path: path.stat().st_size)
    whole = file.read_bytes()
    told = 0
    for part in range(8):
        file.write_bytes(whole[: len(whole) * part // 8])
        try:
            found = read(Archive(tmp_path / "trace"))
            assert facts(found, values=True) == facts(steps, values=True)
        except StoreError:
            told += 1
    assert told >= {".index": 4, ".safetensors": 7, ".json": 0}[suffix]


def test_a_changed_byte_costs_the_value_it_lies_in_and_no_other(tmp_path: Path) -> None:
    trace = cutaway.trace(nn.Sequential(nn.Linear(4, 50), nn.ReLU(), nn.Tanh()), torch.ones(20, 4))
    trace.save(tmp_path / "trace")
    file = next(tmp_path.rglob("*.safetensors"))
    data, lies = bytearray(file.read_bytes()), trace["relu_1"].value.numpy().tobytes()
    assert data.count(lies) == 1
    data[data.index(lies) + 17] ^= 1
    file.write_bytes(data)
    found = cutaway.load(tmp_path / "trace")
    assert isinstance(found, Trace)
    with pytest.raises(DamagedError):
        _ = found["relu_1"].value
    for label in ("linear_1", "tanh_1"):
        assert np.array_equal(found[label].value, trace[label].value.numpy())


def test_a_trace_that_was_not_written_to_its_end_is_told(steps: Trace, tmp_path: Path) -> None:
    from cutaway.store.writing.writer import Writer

    with Writer(tmp_path / "trace", kind="trace") as writer:
        writer.block("structure", structure_of(steps).arrays())
    with pytest.raises(DamagedError, match="not saved completely"):
        read(Archive(tmp_path / "trace"))


def test_a_trace_made_in_a_step_of_a_recording_names_its_run_and_step(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    with cutaway.record(tmp_path / "run", model, every=10) as run:
        for step in range(5):
            with run.step():
                loss = model(torch.randn(4, 3)).sum()
                if step == 3:
                    cutaway.trace(model, torch.randn(4, 3)).save(tmp_path / "inside")
                loss.backward()
        cutaway.trace(model, torch.randn(4, 3)).save(tmp_path / "between")
    cutaway.trace(model, torch.randn(4, 3)).save(tmp_path / "after")
    loaded = cutaway.load(tmp_path / "inside")
    assert loaded.tables.origin == StepOrigin(cutaway.load(tmp_path / "run").archive.id, 3)
    loaded.save(tmp_path / "again")
    assert cutaway.load(tmp_path / "again").tables.origin == loaded.tables.origin
    assert [cutaway.load(tmp_path / name).tables.origin for name in ("between", "after")] == [None, None]
