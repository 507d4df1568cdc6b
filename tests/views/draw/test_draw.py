"""Drawings of real small models: complete, legible, and the same every time."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.call_count import count_calls
from tests.views.nets import perceptron
from tests.zoo import ZOO
from torch import nn

import cutaway
from cutaway.core.errors import InputError
from cutaway.layout.layered import Rect
from cutaway.layout.picture import Box, Edge, Frame, Picture
from cutaway.layout.place import place
from cutaway.layout.text_size import EM
from cutaway.views.graph.from_trace import picture

SVG = "{http://www.w3.org/2000/svg}"


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.left = nn.Conv2d(4, 4, 1)
        self.right = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = torch.cat([self.left(x), self.right(x)], 1) * torch.rand(1, 8, 1, 1)
        return self.head(y.mean((2, 3)))


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, c = torch.zeros(2, 4), torch.zeros(2, 4)
        outs = []
        for step in x:
            h, c = self.cell(step, (h, c))
            outs.append(h)
        return torch.stack(outs)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU()) for a, b in ((1, 2), (2, 4)))
        self.up = nn.Conv2d(6, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down[0](x)
        b = self.down[1](F.max_pool2d(a, 2))
        return self.up(torch.cat([F.interpolate(b, scale_factor=2), a], 1))


class Odd(nn.Module):
    """What a first drawing forgets: repeats, numbers that leave torch, identities, an input that is an output."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x + x
        z = torch.where(torch.matmul(y, y) > 0, y, x)
        top = z.max().item()
        a, b, c = z.chunk(3, -1)
        return {"a<b>&": a - b, "dropped": F.dropout(c, training=False) * top, "x": x}


class Masked(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)) for _ in range(n))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x) * mask
        return x


def encoder() -> cutaway.Trace:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return cutaway.trace(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 5, 8))


MODELS: dict[str, Callable[[], cutaway.Trace]] = {
    "perceptron": lambda: cutaway.trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), torch.randn(2, 3)),
    "branches": lambda: cutaway.trace(Branches(), torch.randn(2, 3, 6, 6)),
    "loop": lambda: cutaway.trace(Loop(), torch.randn(5, 2, 3)),
    "long loop": lambda: cutaway.trace(Loop(), torch.randn(30, 2, 3)),
    "unet": lambda: cutaway.trace(UNet(), torch.randn(1, 1, 8, 8)),
    "odd": lambda: cutaway.trace(Odd(), torch.randn(6, 6)),
    "masked": lambda: cutaway.trace(Masked(10), torch.randn(2, 4), torch.ones(2, 4)),
    "encoder": encoder,
}
each_model = pytest.mark.parametrize("name", MODELS)
each_depth = pytest.mark.parametrize("depth", [None, 0, 1, 2])


def overlap(a: Rect, b: Rect) -> bool:
    return a.x + a.width > b.x and b.x + b.width > a.x and a.y + a.height > b.y and b.y + b.height > a.y


def named(view: Picture, name: str) -> int:
    (found,) = [number for number, box in enumerate(view.boxes) if box.lines[0] == name]
    return found


@each_depth
@each_model
def test_no_two_boxes_overlap_and_parents_stand_above_children(name: str, depth: int | None) -> None:
    check_clear(picture(MODELS[name](), depth=depth))


def random_view(seed: int, n: int = 50) -> Picture:
    """Boxes in nested frames, without any sense."""
    rng = random.Random(seed)
    frames, around, boxes = [Frame("", "", -1)], [0], []
    for _ in range(n):
        if rng.random() < 0.2 and len(around) < 5:
            frames.append(Frame(f"g{len(frames)}", "m" * rng.randrange(20), around[-1], len(frames)))
            around.append(len(frames) - 1)
        lines = ("x" * rng.randrange(3, 20),) * rng.randrange(1, 6)
        boxes.append(Box(f"n{len(boxes)}", lines, "plain", "leaf", around[-1], len(boxes)))
        if rng.random() < 0.2 and len(around) > 1:
            around.pop()
    pairs = {(rng.randrange(max(0, b - 9), b), b) for b in range(1, n) for _ in range(rng.choice((0, 1, 1, 2)))}
    edges = tuple(Edge(a, b, rng.choice(("", "0", "weight"))) for a, b in sorted(pairs))
    return Picture("random", "", tuple(boxes), tuple(frames), edges)


@pytest.mark.parametrize("seed", range(20))
def test_boxes_and_frames_of_any_view_keep_clear_of_each_other(seed: int) -> None:
    check_clear(random_view(seed))


def check_clear(view: Picture) -> None:
    placed = place(view)
    for a, b in combinations(placed.boxes, 2):
        assert not overlap(a, b)
    for edge in view.edges:
        assert placed.boxes[edge.parent].y + placed.boxes[edge.parent].height < placed.boxes[edge.child].y
    for line in placed.lines:
        for (x, y), (to_x, to_y) in pairwise(line.points):
            swept = Rect(min(x, to_x), min(y, to_y), max(abs(x - to_x), 0.05), max(abs(y - to_y), 0.05))
            for rect in placed.boxes:
                assert not overlap(swept, Rect(rect.x + 0.1, rect.y + 0.1, rect.width - 0.2, rect.height - 0.2))
    for box, rect in zip(view.boxes, placed.boxes, strict=True):
        around, frame = {0}, box.frame
        while frame > 0:
            around.add(frame)
            frame = view.frames[frame].parent
        for number, border in enumerate(placed.frames):
            assert overlap(rect, border) == (number in around)
            if number in around:
                assert border.x < rect.x
                assert rect.x + rect.width < border.x + border.width
                assert border.y < rect.y
                assert rect.y + rect.height < border.y + border.height


@each_depth
@each_model
def test_the_drawing_is_valid_xml_and_its_text_fits_the_boxes(name: str, depth: int | None) -> None:
    root = ET.fromstring(MODELS[name]().draw(depth=depth))
    size = {"name": 12, "more": 11}
    groups = [group for group in root.iter(f"{SVG}g") if "box" in group.get("class", "")]
    boxes = [group for group in groups if group.find(f"{SVG}text") is not None]  # the rest is the legend
    assert boxes
    for group in boxes:
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        left, top = float(rect.get("x", 0)), float(rect.get("y", 0))
        right, bottom = left + float(rect.get("width", 0)), top + float(rect.get("height", 0))
        for text in group.iter(f"{SVG}text"):
            small = "small" in group.get("class", "")
            width = len(text.text or "") * EM * (11 if small else size[text.get("class", "")])
            middle = float(text.get("x", 0))
            assert left <= middle - width / 2 + 0.1
            assert middle + width / 2 - 0.1 <= right
            assert top + 8 <= float(text.get("y", 0)) <= bottom


@each_model
def test_two_drawings_of_one_trace_are_equal_to_the_byte(name: str) -> None:
    trace = MODELS[name]()
    assert trace.draw() == trace.draw()


@each_model
def test_every_op_and_every_input_is_drawn_once(name: str) -> None:
    trace = MODELS[name]()
    drawn = [box.lines[0] for box in picture(trace).boxes if box.kind not in ("standin", "buffer", "constant")]
    wanted = {first(op) for op in trace.ops} | {op.label for op in trace.inputs}
    assert sorted(drawn) == sorted(wanted)


def first(op: cutaway.Op) -> str:
    """All results of one call of a function are one box, named after the first."""
    return op.siblings[0].label


@each_model
def test_every_parent_that_is_no_parameter_has_an_edge_or_a_stand_in(name: str) -> None:
    trace = MODELS[name]()
    view = picture(trace)
    joined = {(view.boxes[edge.parent].lines[0], view.boxes[edge.child].lines[0]) for edge in view.edges}
    for op in trace.ops:
        for parent in op.parents:
            if parent.kind in ("op", "input"):
                gathered = any("tensors, " in upper for upper, child in joined if child == first(op))
                # Behind an op that gives back its input, readers of that input are readers of what it gave back.
                passed = [other.label for other in parent.children if other.is_identity]
                ways = {(name, first(op)) for name in (first(parent), parent.label, *passed)}
                assert ways & joined or gathered


def test_depth_one_shows_the_children_of_the_root_and_its_own_ops() -> None:
    view = picture(MODELS["branches"](), depth=1)
    assert len(view.frames) == 1
    names = [box.lines[0] for box in view.boxes]
    assert {"stem", "right"} <= set(names)
    assert any(name.startswith("cat_") for name in names)
    assert not any("running_mean" in name for name in names)
    stem = view.boxes[named(view, "stem")]
    assert stem.lines[1] == "Sequential"
    assert stem.lines[3].startswith("2×4×6×6")


def test_depth_zero_is_the_whole_model_in_one_box() -> None:
    view = picture(MODELS["encoder"](), depth=0)
    assert [box.lines[0] for box in view.boxes] == ["input_1", "TransformerEncoder"]
    assert view.boxes[1].is_output


def test_modules_with_several_ops_are_frames_within_each_other() -> None:
    view = picture(MODELS["encoder"]())
    titles = [frame.title for frame in view.frames]
    inner = titles.index("layers.0.self_attn (MultiheadAttention)")
    assert titles[view.frames[inner].parent] == "layers.0 (TransformerEncoderLayer)"


def test_a_box_tells_label_size_parameters_and_module() -> None:
    view = picture(MODELS["perceptron"]())
    box = view.boxes[named(view, "linear_1_1")]
    assert box.lines == ("linear_1_1", "2×4 · 32 B", "weight 4×3 · bias 4", "0 (Linear)")
    assert (box.kind, box.form) == ("parametric", "leaf")


def test_the_kinds_of_boxes_are_told_apart() -> None:
    view = picture(MODELS["branches"]())
    kinds = {box.lines[0]: box.kind for box in view.boxes}
    assert kinds["input_1"] == "input"
    assert kinds["running_mean"] == "buffer"
    assert next(kind for name, kind in kinds.items() if name.startswith("rand_")) == "made"
    assert [box.lines[0] for box in view.boxes if box.is_output] == [view.boxes[-1].lines[0]]


def test_edges_tell_the_argument_where_order_matters_and_how_often_a_parent_repeats() -> None:
    view = picture(MODELS["odd"]())
    labels: dict[str, list[str]] = {}
    for edge in view.edges:
        labels.setdefault(view.boxes[edge.child].lines[0].rsplit("_", 2)[0], []).append(edge.label)
    assert labels["add"] == ["×2"]
    assert labels["matmul"] == ["0,1 ×2"]
    assert sorted(labels["sub"]) == ["0,1"]
    assert sorted(labels["where"]) == ["0", "1", "2"]


def test_what_nothing_follows_from_is_light_and_an_input_can_be_an_output() -> None:
    view = picture(MODELS["odd"]())
    light = {box.lines[0].rsplit("_", 2)[0] for box in view.boxes if box.is_light}
    assert light == {"item", "dropout"}
    assert view.boxes[named(view, "input_1")].is_output


def test_a_tensor_that_very_many_ops_use_is_drawn_beside_each_of_them() -> None:
    view = picture(MODELS["masked"]())
    mask = next(i for i, box in enumerate(view.boxes) if box.kind == "input" and box.lines[0] == "input_2")
    assert "feeds 10 ops" in view.boxes[mask].lines
    assert sum(box.kind == "standin" for box in view.boxes) == 10
    assert not [edge for edge in view.edges if edge.parent == mask]


def test_the_header_tells_model_ops_bytes_and_parameters() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    view = picture(cutaway.trace(model, torch.randn(2, 3)))
    assert view.title == "Sequential"
    assert view.subtitle == "2 ops · 48 B of values · 10 trainable and 16 frozen parameters"


def test_a_drawing_is_written_to_its_path_and_returned(tmp_path: Path) -> None:
    text = MODELS["perceptron"]().draw(str(tmp_path / "net.svg"))
    assert (tmp_path / "net.svg").read_text(encoding="utf-8") == text


def test_another_suffix_is_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = MODELS["perceptron"]()
    with pytest.raises(InputError) as error:
        trace.draw("net.jpg")
    assert str(error.value) == (
        "draw() takes the format from the extension of the path, and 'net.jpg' has no known one: "
        "use .svg, .pdf, .png, .dot, .gv or .json."
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("depth", [-1, 1.5, "2", True])
def test_a_depth_that_is_no_depth_is_refused(depth: object) -> None:
    with pytest.raises(InputError, match="depth must be "):
        MODELS["perceptron"]().draw(depth=depth)  # type: ignore[arg-type]


def test_code_around_no_model_and_a_trace_of_nothing_can_be_drawn() -> None:
    with cutaway.watch() as trace:
        torch.relu(torch.ones(2)) + 1
    assert len(picture(trace).boxes) == len(trace)
    with cutaway.watch() as nothing:
        pass
    ET.fromstring(nothing.draw())


def test_the_work_of_drawing_grows_with_the_ops_and_not_with_their_square() -> None:
    n_calls = []
    for n in (30, 240):
        trace = cutaway.trace(Masked(n), torch.randn(2, 4), torch.ones(2, 4))
        n_calls.append(count_calls(trace.draw))
    assert len(trace) == 1200
    assert n_calls[1] < 12 * n_calls[0]


# selections


def bright_and_faint(text: str) -> tuple[set[str], set[str]]:
    """The names of the boxes that are drawn as usual, and of those that are faint."""
    found: tuple[set[str], set[str]] = (set(), set())
    for group in ET.fromstring(text).iter(f"{SVG}g"):
        classes = group.get("class", "").split()
        name = group.find(f"{SVG}text")
        if "box" in classes and name is not None:
            found["faint" in classes].add(name.text or "")
    return found


def test_everything_but_the_selection_is_faint() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    trace = cutaway.trace(model, torch.ones(1, 4))
    text = trace.select(["0", "1"]).draw()
    assert bright_and_faint(text) == ({"linear_1_1", "relu_1_2"}, {"input_1", "linear_2_3"})
    edges = [path.get("class") for path in ET.fromstring(text).iter(f"{SVG}path") if path.get("class")]
    assert sorted(edges) == ["edge", "edge faint", "edge faint"]  # only the one between the two
    assert "2 selected of 3 ops" in text
    assert 'class="edge faint' not in trace.draw()
    assert bright_and_faint(trace.ops.draw())[1] == {"input_1"}
    assert bright_and_faint(trace.select(function="none").draw())[0] == set()


def test_a_folded_module_is_bright_if_anything_in_it_is_selected() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Sequential(nn.Linear(8, 2), nn.Tanh()))
    trace = cutaway.trace(model, torch.ones(1, 4))
    text = trace.select(function="relu").draw(depth=1)
    assert bright_and_faint(text) == ({"0"}, {"input_1", "1"})
    assert "2 ops, 1 selected" in text


# rolled up


class While(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x
        while x.norm() > 0.1:
            x = self.cell(x) * 0.5
            total = total + x
        return total


def rolled_traces() -> dict[str, cutaway.Trace]:
    torch.manual_seed(0)
    return {
        "loop": cutaway.trace(Loop(), torch.randn(5, 2, 3)),
        "while": cutaway.trace(While(), torch.ones(2, 4)),
        "branches": cutaway.trace(Branches(), torch.ones(1, 3, 8, 8)),
    }


@pytest.mark.parametrize("depth", [None, 1, 0])
@pytest.mark.parametrize("name", ["loop", "while", "branches"])
def test_rolled_up_every_op_is_in_one_box_and_every_edge_is_there(name: str, depth: int | None) -> None:
    trace = rolled_traces()[name]
    view = picture(trace, depth=depth, rolled=True)
    named = [box.lines[0] for box in view.boxes]
    assert len(named) == len(set(named))
    if depth is None:
        ops = {f"{first(op)} (×{op.n_passes})" if op.n_passes > 1 else first(op) for op in trace.rolled}
        assert ops <= set(named)
        drawn = {(named[edge.parent].split()[0], named[edge.child].split()[0]) for edge in view.edges}
        standins = {box.lines[0] for box in view.boxes if box.kind == "standin"}
        for op in trace.rolled:
            for parent in op.parents:
                if parent.kind in ("op", "input") and parent.rolled.label not in standins:
                    assert (first(parent.rolled), first(op)) in drawn
    placed = place(view)
    for (a, one), (b, other) in combinations(zip(view.boxes, placed.boxes, strict=True), 2):
        assert not overlap(one, other), (a.lines, b.lines)
    for edge in view.edges:
        if not edge.is_feedback:
            assert placed.boxes[edge.parent].y + placed.boxes[edge.parent].height <= placed.boxes[edge.child].y
    ET.fromstring(trace.draw(depth=depth, rolled=True))


def test_edges_of_a_rolled_up_picture_tell_the_passes_in_which_they_are_there() -> None:
    view = picture(rolled_traces()["while"], rolled=True)
    named = [box.lines[0].split("_")[0] for box in view.boxes]
    labels = {(named[edge.parent], named[edge.child]): edge.label for edge in view.edges}
    n = len(rolled_traces()["while"]["cell"].passes)
    assert n > 2
    assert labels["input", "linear"] == "In 1"
    assert labels["mul", "linear"] == f"Out 1–{n - 1} In 2–{n}"
    assert labels["linear", "tanh"] == ""
    assert labels["add", "add"] == f"Out 1–{n - 1} In 2–{n}"
    output = next(box for box in view.boxes if box.is_output)
    assert f"output of pass {n}" in output.lines


def test_a_module_in_a_loop_is_one_frame_and_folded_one_box() -> None:
    trace = rolled_traces()["while"]
    n = len(trace["cell"].passes)
    assert [frame.title for frame in picture(trace, rolled=True).frames[1:]] == [f"cell (×{n}) (Sequential)"]
    folded = picture(trace, depth=1, rolled=True)
    (cell,) = [box for box in folded.boxes if box.form == "folded"]
    assert cell.lines[:2] == (f"cell (×{n})", "Sequential")
    number = folded.boxes.index(cell)
    assert [edge.label for edge in folded.edges if edge.child == number and edge.is_feedback] == [
        f"Out 1–{n - 1} In 2–{n}"
    ]


def test_edges_that_go_back_are_dashed_and_lie_within_the_picture() -> None:
    trace = rolled_traces()["while"]
    view = picture(trace, rolled=True)
    placed = place(view)
    back = [line for line in placed.lines if line.is_feedback]
    assert len(back) == sum(edge.is_feedback for edge in view.edges) > 2
    for line in back:
        assert all(0 <= x <= placed.width and 0 <= y <= placed.height for x, y in line.points)
    lanes = [(line.points[1][0], *sorted((line.points[1][1], line.points[2][1]))) for line in back]
    for (x, top, bottom), (other, above, below) in combinations(lanes, 2):
        assert x != other or bottom < above or below < top
    drawn = ET.fromstring(trace.draw(rolled=True))
    dashed = [path for path in drawn.iter(f"{SVG}path") if "feedback" in path.get("class", "").split()]
    assert len(dashed) == len(back)


def test_a_picture_that_is_not_rolled_up_has_no_edges_that_go_back() -> None:
    for trace in rolled_traces().values():
        assert not any(edge.is_feedback for edge in picture(trace).edges)


def test_a_hundred_steps_rolled_up_fit_on_a_page() -> None:
    trace = cutaway.trace(Loop(), torch.randn(100, 2, 3))
    placed = place(picture(trace, rolled=True))
    assert len(placed.boxes) < 10
    assert placed.height < 900


@pytest.mark.parametrize("name", ["cnn", "multiple_outputs", "same_tensor_twice", "identities"])
def test_where_nothing_repeats_the_rolled_up_picture_is_the_picture(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    trace = cutaway.trace(model, *args, **kwargs)
    assert len(trace.rolled) == len(trace)
    for depth in (None, 1, 0):
        plain, rolled = picture(trace, depth=depth), picture(trace, depth=depth, rolled=True)
        assert (plain.boxes, plain.frames, plain.edges) == (rolled.boxes, rolled.frames, rolled.edges)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"path": 3}, "path must be a text or a path, got 3"),
        ({"path": "net"}, "'net' has no known one: use .svg"),
        ({"direction": "left"}, 'direction must be "down" or "right", got \'left\''),
        ({"depth": "1"}, "depth must be an integer, or None for every op, got '1'"),
        ({"color_by": "secnds"}, "cannot color this trace by 'secnds'.* Did you mean 'seconds'"),
        ({"color_by": 3}, "color_by must be the name of a measure"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(how: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        perceptron().draw(**how)
