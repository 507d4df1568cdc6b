"""What is told of an op holds for every op, live and loaded, and can always be written."""

from __future__ import annotations

import json
import linecache
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway.layout.graph_view import plain
from cutaway.views.graph.op_details import OpDetails, detail, details

MODELS = (
    "cnn", "lstm_cell_loop", "conditionals", "buffers", "mixed_dtypes", "structured_inputs", "multiple_outputs",
    "in_place_through_views", "numpy_round_trip", "attention", "saturated", "scalars_steer", "function_transforms",
)  # fmt: skip


def written(found: OpDetails) -> str:
    text = json.dumps(plain(found), allow_nan=False)
    text.encode()
    check_printable(plain(found))
    return text


def check_printable(tree: Any) -> None:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            check_printable(item)
    elif isinstance(tree, str):
        assert tree.isprintable(), tree


def traced(name: str) -> cutaway.Trace:
    model, args, kwargs = ZOO[name]()
    return cutaway.trace(model, *args, **kwargs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_every_row_of_a_trace_live_and_loaded_has_its_detail(name: str, tmp_path: Path) -> None:
    trace = traced(name)
    trace.save(tmp_path / "trace")
    loaded = cutaway.load(tmp_path / "trace")
    assert isinstance(loaded, cutaway.Trace)
    for row in range(len(trace.tables.nodes)):
        op, found, again = cutaway.Op(trace, row), detail(trace, row), detail(loaded, row)
        written(found)
        written(again)
        assert (found.label, found.kind, found.function) == (op.label, op.kind, op.function)
        assert [argument.row for argument in found.arguments if argument.row is not None] == [
            edge.parent.node for edge in op.edges
        ]
        assert [parameter.name for parameter in found.parameters] == [each.label for each in op.parameters]
        assert (found.value is not None) != bool(found.missing)
        for field in ("label", "site", "facts", "arguments", "source", "stack", "tests"):
            assert getattr(again, field) == getattr(found, field), field
        if found.value is not None and again.value is not None and found.value.dtype not in ("qint8", "quint8"):
            mine, stored = dict(found.value.statistics), dict(again.value.statistics)
            assert {k: v and pytest.approx(v, rel=1e-9) for k, v in mine.items()} == stored
            assert again.value.image == found.value.image


class Net(nn.Module):
    """A few things worth telling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            y = torch.relu(self.norm(self.conv(x)))
        if y.sum() > 0:
            y = torch.cat([y, y * 2], dim=1)
        return y.flatten(1)


@pytest.fixture
def trace() -> cutaway.Trace:
    torch.manual_seed(0)
    net, x = Net(), torch.rand(2, 3, 8, 8)
    with cutaway.watch(net) as found:
        net(x).sum().backward()
    return found


def test_it_tells_what_an_op_is_where_and_why(trace: cutaway.Trace) -> None:
    found = detail(trace, trace["conv:2"].node)
    facts = dict(found.facts)
    assert facts["shape"] == "2 × 4 × 8 × 8"
    assert facts["dtype"] == "float32"
    assert facts["module"] == "conv (Conv2d, run 2 of 3)"
    assert facts["pass"] == "2 of 3"
    assert facts["size"] == "2.0 KB"
    assert (found.function, found.kind, found.missing) == ("conv2d", "op", "")
    assert found.source is not None
    at = found.source.line - found.source.first
    assert found.source.text[at].strip() == "y = torch.relu(self.norm(self.conv(x)))"
    assert len(found.source.text) == 13
    assert [line.rstrip() for line in linecache.getlines(found.source.file)][
        found.source.first - 1 : found.source.first + 12
    ] == list(found.source.text)
    assert found.stack[0][0].endswith("conv.py")
    assert found.value is not None
    assert found.value.image is not None
    assert found.value.image.caption == "sample 1 of 2 · channels 1–4 of 4 · 8 rows × 8 columns"
    assert [(p.name, p.shape) for p in found.parameters] == [("conv.weight", "4 × 3 × 3 × 3"), ("conv.bias", "4")]


def test_values_and_gradients_are_those_of_the_op(trace: cutaway.Trace) -> None:
    op = trace["conv:3"]
    found = detail(trace, op.node)
    assert found.value is not None
    assert found.grad is not None
    assert dict(found.value.statistics)["mean"] == pytest.approx(op.value.mean().item(), rel=1e-5)
    assert dict(found.grad.statistics)["norm"] == pytest.approx(op.grad.norm().item(), rel=1e-5)
    weight = found.parameters[0]
    assert weight.value is not None
    assert weight.grad is not None
    assert dict(weight.value.statistics)["max"] == trace["conv.weight"].value.max().item()
    assert dict(weight.grad.statistics)["norm"] == pytest.approx(trace["conv.weight"].grad.norm().item(), rel=1e-5)


def test_arguments_are_opened_and_conditionals_told(trace: cutaway.Trace) -> None:
    cat = detail(trace, trace["cat_1"].node)
    assert [(a.name, a.row is None) for a in cat.arguments] == [("0.0", False), ("0.1", False), ("dim", True)]
    assert cat.arguments[2].text == "1"
    assert cat.arguments[0].text.startswith("relu_3")
    assert cat.tests == (f"ran in 'then' of “if y.sum() > 0” (line {_line('if y.sum() > 0:')})",)
    condition = next(op for op in trace if op.is_condition)
    assert detail(trace, condition.node).tests[0].startswith("decided “if y.sum() > 0”: True, so 'then'")


def _line(text: str) -> int:
    lines = linecache.getlines(__file__)
    return next(i for i, line in enumerate(lines, 1) if line.strip() == text)


def test_sources_are_told_as_well(trace: cutaway.Trace) -> None:
    given = detail(trace, trace.inputs[0].node)
    assert (given.kind, given.source, given.stack, given.arguments) == ("input", None, (), ())
    assert dict(given.facts)["input"] == "0"
    assert given.value is not None
    assert given.value.image is not None
    assert given.value.image.caption.startswith("sample 1 of 2 · channels 1–3 of 3")
    weight = detail(trace, trace["conv.weight"].node)
    assert weight.value is not None
    assert weight.value.image is not None
    assert weight.value.image.caption == "slice 1 of 3 · units 1–4 of 4 · 3 rows × 3 columns"
    assert detail(trace, trace["norm.running_mean"].node).kind == "buffer"


def test_what_is_missing_is_explained() -> None:
    net, x = Net(), torch.rand(1, 3, 8, 8)
    with cutaway.watch(net, save=None) as unsaved:
        net(x)
    found = detail(unsaved, unsaved["conv:1"].node)
    assert found.value is None
    assert "was not saved" in found.missing
    whole = cutaway.trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.ones(2, 3))
    whole["0"].value.add_(1)
    assert "overwritten since" in detail(whole, whole["0"].node).missing


def test_a_trace_that_raised_is_told_up_to_there() -> None:
    broken, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(9, 2)), torch.ones(1, 4)
    with pytest.raises(RuntimeError), cutaway.watch(broken) as trace:
        broken(x)
    for row in range(len(trace.tables.nodes)):
        written(detail(trace, row))


def test_a_source_that_has_changed_since_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "program.py"
    file.write_text("import torch\n\ndef run(x):\n\treturn torch.relu(x)\n")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    with cutaway.watch() as trace:
        space["run"](torch.ones(2))
    row = trace["relu_1"].node
    live = detail(trace, row).source
    assert live is not None
    assert (live.first, live.text[3]) == (1, "    return torch.relu(x)")
    trace.save(tmp_path / "trace")
    loaded = cutaway.load(tmp_path / "trace")
    assert isinstance(loaded, cutaway.Trace)
    file.write_text("# another\n" * 20)
    linecache.checkcache(str(file))
    changed = detail(loaded, row).source
    assert changed is not None
    assert (changed.line, changed.first, changed.text) == (4, 4, ("return torch.relu(x)",))
    file.unlink()
    linecache.checkcache(str(file))
    gone = detail(trace, row).source
    assert gone is not None
    assert (gone.line, gone.text) == (4, ())


@pytest.mark.parametrize("budget", [2, 5_000, 60_000, 400_000, 12_000_000])
def test_many_details_keep_to_their_budget(trace: cutaway.Trace, budget: int) -> None:
    rows = list(range(len(trace.tables.nodes)))
    found = details(trace, [-1, *rows, *rows], budget)
    assert len(json.dumps(plain(found))) <= budget
    assert len(json.dumps(plain(found), separators=(",", ":"), ensure_ascii=False).encode()) <= budget
    assert list(found) == [row for row in rows if row in found]
    if budget >= 60_000:
        assert list(found) == rows
    if budget == 12_000_000:
        conv = trace["conv:1"].node
        assert plain(found[conv]) == plain(detail(trace, conv))


def test_less_room_means_smaller_pictures() -> None:
    trace = cutaway.trace(Net(), torch.rand(1, 3, 32, 32))
    rows = [op.node for op in trace if op.function == "relu"]
    sizes = []
    for budget in (2_000_000, 16_000, 3_000):
        image = [found.value.image for found in details(trace, rows, budget).values() if found.value is not None]
        sizes.append(sum(each.rows * each.columns for each in image if each is not None))
    assert sizes[0] > sizes[1] > sizes[2] == 0


def test_odd_arguments_are_told_in_words() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    with cutaway.watch() as trace:
        x[torch.tensor([0, 2]), 1:3]
        torch.einsum("ij,kj->ik", [x, x])
        x.to(torch.float64).sum(dim=[0, 1], keepdim=True)
        torch.full((2,), math.inf)
    told = [[(a.name, a.text) for a in detail(trace, op.node).arguments if a.row is None] for op in trace]
    assert [("1.1", "1:3")] in told
    assert [("0", "'ij,kj->ik'")] in told
    assert [("dim", "[0, 1]"), ("keepdim", "True")] in told
    assert [("0", "[2]"), ("1", "inf")] in told
    for op in trace:
        written(detail(trace, op.node))


def test_arrays_of_a_loaded_trace_keep_the_name_of_their_dtype(tmp_path: Path) -> None:
    with cutaway.watch() as trace:
        torch.ones(3).to(torch.bfloat16)
    trace.save(tmp_path / "trace")
    loaded = cutaway.load(tmp_path / "trace")
    assert isinstance(loaded, cutaway.Trace)
    found = detail(loaded, loaded["to_1"].node).value
    assert found is not None
    assert isinstance(loaded["to_1"].value, np.ndarray)
    assert found.dtype == "bfloat16"
