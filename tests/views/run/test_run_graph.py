"""The dependency graph of a recorded run, as a picture that can be folded and placed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from tests.views.graphs import check_graph, path, random_fold
from tests.views.recordings import Net, one_thread, train, trained
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import NotFoundError
from cutaway.graph.dependencies.graph import Dependencies, Link, Node
from cutaway.layout.fold import fold, fold_to_depth
from cutaway.layout.graph_view import OUTPUT, Fold, plain
from cutaway.layout.place import place
from cutaway.store.format.records import Row
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Writer
from cutaway.views.draw.style import style_of
from cutaway.views.draw.svg import svg
from cutaway.views.run.rows import RunRows
from cutaway.views.run.run_graph import RunGraph, run_graph


class Looped(nn.Module):
    """A cell that runs three times, a head after each."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> list[Tensor]:
        out = []
        for _ in range(3):
            x = self.cell(x)
            out.append(self.head(x.detach()))
        return out


class Caching(nn.Module):
    """Blocks that hand out what they made on the way to their result, as caches of keys and values do."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.ModuleList(_Cached() for _ in range(4))

    def forward(self, x: Tensor) -> dict[str, Any]:
        keys = []
        for block in self.block:
            x, key = block(x)
            keys.append(key)
        return {"x": x, "keys": keys}


class _Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        key = self.up(x) * 2
        return x + self.down(torch.tanh(key)), key


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.lstm = nn.LSTM(4, 4, batch_first=True)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x, weights = self.attention(x, x, x)
        x, (h, _) = self.lstm(x)
        return {"x": x, "h": h, "weights": weights}


def iterated(run: Any, model: nn.Module) -> None:
    x = torch.randn(3, 4)
    for _ in range(3):
        with run.iteration():
            x = model(x)
    run.tensor("sum", x.sum(0), node="memory", part="sum")
    run.tensor("more", x.sum(0) * 2, node="memory", part="more")
    run.log(loss=x.sum())


def entangled(run: Any, model: nn.Module) -> None:
    """A node of two tensors, with another one between them."""
    a = model(torch.randn(3, 4))
    first = a * 2
    run.tensor("first", first, node="both", part="first")
    b = torch.tanh(first)
    run.tensor("between", b)
    run.tensor("second", b + 1, node="both", part="second")


def plainly(run: Any, model: nn.Module) -> None:
    model(torch.randn(2, 3, 4))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[Any, nn.Module], None]]] = {
    "looped": (Looped, plainly),
    "attending": (Attending, plainly),
    "caching": (Caching, plainly),
    "iterated": (lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 4)), iterated),
    "entangled": (lambda: nn.Linear(4, 4), entangled),
    "one": (lambda: nn.Linear(4, 4), plainly),
    "bare": (nn.Identity, plainly),
    "deep": (lambda: nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(6))), plainly),
}


_FOLDER = TemporaryDirectory(prefix="cutaway-")


@cache
def recorded(name: str) -> Run:
    """A model of the list, recorded once for each process."""
    if name == "trained":
        return trained()
    model, step = MODELS[name]
    torch.manual_seed(0)
    made, path = model(), Path(_FOLDER.name) / name
    with one_thread(), cutaway.record(path, made, every=1, samples=1) as run, run.step():
        step(run, made)
    loaded: Run = cutaway.load(path)
    return loaded


@pytest.fixture(params=["trained", *MODELS])
def run(request: pytest.FixtureRequest) -> Run:
    return recorded(request.param)


def dependencies(run: Run) -> Dependencies:
    return Dependencies.read(run.documents["structure/" + run.at(-1).about["structure"]])


def node_of(graph: RunGraph, name: str) -> int:
    return next(i for i, node in enumerate(graph.nodes) if node.name == name)


def test_any_recorded_graph_can_be_folded_and_placed(run: Run) -> None:
    graph = run_graph(RunRows(run))
    check_graph(graph.view)
    for seed in range(12):
        place(fold(graph.view, random_fold(graph.view, seed)))
    json.dumps(plain(graph), allow_nan=False)
    assert graph.why_missing == ""


def test_nodes_and_edges_are_those_that_were_recorded(run: Run) -> None:
    graph, known = run_graph(RunRows(run)), dependencies(run)
    names = [node.name for node in graph.nodes]
    assert sorted(names) == sorted(node.name for node in known.nodes)
    assert list(graph.view.nodes.row) == list(range(len(names)))
    edges = list(zip(graph.view.edges.parent, graph.view.edges.child, strict=True))
    drawn = [(names[parent], names[child]) for parent, child in [*edges, *graph.loops]]
    assert sorted(drawn) == sorted((link.parent, link.child) for link in known.links)
    flat = {(link.parent, link.child) for link in known.links if not link.carries_gradient}
    loops = {(names[parent], names[child]) for parent, child in graph.loops}
    assert {(names[edges[i][0]], names[edges[i][1]]) for i in graph.no_gradient} == flat - loops


def test_every_row_belongs_to_the_node_of_its_tensor(run: Run) -> None:
    rows = RunRows(run)
    graph = run_graph(rows)
    owners: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        for row in node.rows:
            assert row not in owners
            owners[row] = number
    step = run.at(-1)
    for number, row in enumerate(rows.rows):
        if rows.has(step, number):
            node = graph.nodes[owners[number]]
            assert row.node == node.name if row.node else row.site in node.sites
            if row.iteration and not row.node:
                assert node.iteration in (row.iteration, 0)
    for node in graph.nodes:
        ofs = [rows.rows[row].of for row in node.rows]
        assert ofs
        assert ofs[0] == "value"


def test_roles_are_kinds_and_parameters_are_small_and_in_their_module(run: Run) -> None:
    rows = RunRows(run)
    graph = run_graph(rows)
    nodes, groups = graph.view.nodes, graph.view.groups
    kinds = {"input": "input", "parameter": "parametric", "buffer": "buffer", "target": "target", "loss": "loss"}
    for number, node in enumerate(graph.nodes):
        assert nodes.kind[number] == kinds.get(node.role, "plain")
        assert (nodes.form[number] == "small") == (node.role in ("parameter", "buffer"))
        around = [groups.rolled_label[group] for group in path(graph.view, nodes.group[number])[:-1]]
        owner = node.name.rpartition(".")[0]
        if node.role == "parameter" and owner and owner in groups.rolled_label:
            assert around[0] == owner


def test_targets_and_losses_look_like_nothing_else() -> None:
    drawn = trained_svg()
    assert ">target<" in drawn
    assert ">loss<" in drawn
    kinds = ("plain", "input", "parametric", "buffer", "target", "loss")
    assert len({(style_of(["box", kind]).fill, style_of(["box", kind]).stroke) for kind in kinds}) == len(kinds)


def trained_svg() -> str:
    view = run_graph(RunRows(trained())).view
    picture = fold(view, Fold(frozenset([0])))
    return svg(picture, place(picture))


def test_a_group_knows_the_result_of_its_module() -> None:
    graph = run_graph(RunRows(trained()))
    groups = graph.view.groups
    found = {
        label: graph.nodes[node].name if node >= 0 else None
        for label, node in zip(groups.label, graph.group_node, strict=True)
    }
    assert found["h.1"] == "h.1"
    assert found["h.1.mlp"] == "h.1.mlp.2"
    assert found["h.1.norm"] == "h.1.norm"
    assert found[""] == "head"
    assert [i for i, flags in enumerate(graph.view.nodes.flags) if flags & OUTPUT] == [node_of(graph, "head")]


def test_modules_are_nested_frames_and_equal_blocks_one_run() -> None:
    graph = run_graph(RunRows(trained()))
    groups = graph.view.groups
    assert [(run.label, len(run.groups)) for run in graph.view.runs] == [("h.0 … 3", 4)]
    assert "h" not in groups.label  # a list of modules runs never
    first = groups.label.index("h.0")
    inner = [i for i, parent in enumerate(groups.parent) if parent == first]
    assert [groups.label[i] for i in inner] == ["h.0.norm", "h.0.mlp"]
    assert groups.class_name[first] == "Block"
    picture = fold(graph.view, Fold(frozenset([0]), False, frozenset()))
    assert [box.lines[0] for box in picture.boxes if box.group >= 0] == ["embed", "h.0 … 3 ×4"]
    assert any("tensors each" in line for box in picture.boxes for line in box.lines)


def test_what_is_handed_out_of_the_middle_of_a_block_tears_it_not_apart() -> None:
    graph = run_graph(RunRows(recorded("caching")))
    assert [(run.label, len(run.groups)) for run in graph.view.runs] == [("block.0 … 3", 4)]
    assert not any(":" in label for label in graph.view.groups.label)


def test_labels_tell_nodes_of_one_frame_apart(run: Run) -> None:
    nodes = run_graph(RunRows(run)).view.nodes
    seen = [(nodes.group[i], nodes.label[i]) for i in range(len(nodes.row)) if nodes.rolled[i] == i]
    assert len(seen) == len(set(seen))
    assert all(nodes.label)


def test_the_passes_of_a_module_are_rolled_up() -> None:
    graph = run_graph(RunRows(recorded("looped")))
    view = graph.view
    assert view.is_rolled
    cells = [i for i, label in enumerate(view.groups.rolled_label) if label == "cell"]
    assert [view.groups.rolled[group] for group in cells] == [cells[0]] * 3
    assert [view.groups.pass_[group] for group in cells] == [1, 2, 3]
    boxes = fold(view, fold_to_depth(view, 1, rolled=True)).boxes
    assert sum(box.lines[0].startswith("cell") for box in boxes) == 1
    folded = fold(view, Fold(frozenset([0]), True, frozenset()))
    assert all(edge.parent != edge.child for edge in folded.edges if folded.boxes[edge.parent].lines[0] == "head")
    heads = [i for i, node in enumerate(graph.nodes) if node.name.startswith("head:")]
    assert [view.nodes.pass_[i] for i in heads] == [1, 2, 3]
    assert len({view.nodes.rolled[i] for i in heads}) == 1


def test_iterations_are_passes_and_a_node_can_hold_several_tensors() -> None:
    rows = RunRows(recorded("iterated"))
    graph = run_graph(rows)
    several = [node for node in graph.nodes if node.node == "1"]
    assert [node.iteration for node in several] == [1, 2, 3]
    assert all(rows.rows[row].iteration == node.iteration for node in several for row in node.rows)
    memory = graph.nodes[node_of(graph, "memory")]
    assert memory.parts == ("sum", "more")
    assert [rows.rows[row].site for row in memory.rows if rows.rows[row].of == "value"] == ["$sum", "$more"]
    at = node_of(graph, "memory")
    assert (graph.view.nodes.label[at], graph.view.nodes.lines[at]) == ("memory", ("with sum, more",))


def test_links_that_lead_back_are_told_apart() -> None:
    graph = run_graph(RunRows(recorded("entangled")))
    ((parent, child),) = graph.loops
    assert (graph.nodes[parent].name, graph.nodes[child].name) == ("$between", "both")


def test_the_same_structure_gives_the_same_picture_at_every_step_and_in_every_run(tmp_path: Path) -> None:
    one = run_graph(RunRows(trained()))
    other = run_graph(RunRows(train(tmp_path / "other", seed=5, n_steps=2, statistics="core", samples=1)))
    assert one.structure == other.structure
    assert plain(one.view) == plain(other.view)
    rows = RunRows(trained())
    for step in trained():
        assert run_graph(rows, step.about["structure"]).view == one.view


def arranged(path: Path, **overrides: Any) -> RunGraph:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
    with cutaway.record(path, model, every=1) as run:
        for at, override in overrides.items():
            run.arrange(at.replace("_", "."), **override)
        with run.step():
            model(torch.randn(2, 4))
    return run_graph(RunRows(cutaway.load(path)))


def test_hidden_nodes_are_left_out_and_ways_lead_past_them(tmp_path: Path) -> None:
    graph = arranged(tmp_path / "run", **{"1": {"hidden": True}, "2_*": {"hidden": True}})
    names = [node.name for node in graph.nodes]
    edges = {(names[a], names[b]) for a, b in zip(graph.view.edges.parent, graph.view.edges.child, strict=True)}
    assert names == [".@in.0", "0.weight", "0.bias", "0", "2", "3"]
    assert ("0", "2") in edges
    assert graph.n_hidden == 3
    whole = run_graph(RunRows(cutaway.load(tmp_path / "run")), with_hidden=True)
    assert {"1", "2.weight", "2.bias"} < {node.name for node in whole.nodes}
    check_graph(graph.view)
    check_graph(whole.view)


def test_names_and_groups_of_the_users_own_are_kept(tmp_path: Path) -> None:
    graph = arranged(
        tmp_path / "run", **{"0": {"label": "first"}, "3": {"group": "tail"}, "2": {"group": "tail", "label": "<b>"}}
    )
    view = graph.view
    assert view.nodes.label[node_of(graph, "0")] == "first"
    assert view.nodes.label[node_of(graph, "2")] == "<b>"
    tail = view.groups.label.index("tail")
    assert {graph.nodes[i].name for i in range(view.groups.first[tail], view.groups.end[tail])} == {"2", "3"}
    check_graph(view)


def test_without_a_graph_the_tensors_stand_in_their_modules(tmp_path: Path) -> None:
    rows = RunRows(train(tmp_path / "run", n_steps=1, graph=False))
    graph = run_graph(rows)
    assert graph.structure == ""
    assert "no dependency graph was recorded" in graph.why_missing
    assert graph.view.edges.parent == ()
    check_graph(graph.view)
    assert {row for node in graph.nodes for row in node.rows} == set(range(len(rows)))
    assert "h.1.mlp" in graph.view.groups.label
    place(fold(graph.view, Fold(frozenset([0]))))


def test_a_graph_that_is_lost_or_damaged_is_said(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        schema = writer.schema([Row("a"), Row("b")], ["mean"])
        writer.document("structure/bad", {"nodes": [{"name": 1}], "links": []})
        writer.step(0, schema=schema, matrix=np.ones((2, 1)), about={"structure": "lost"})
        writer.step(1, schema=schema, matrix=np.ones((2, 1)), about={"structure": "bad"})
    rows = RunRows(cutaway.load(tmp_path / "run"))
    assert "is lost" in run_graph(rows, "lost").why_missing
    assert "instead of" in run_graph(rows, "bad").why_missing
    assert len(run_graph(rows, "lost").nodes) == 2
    with pytest.raises(NotFoundError, match=r"no structure 'other'. It has: bad"):
        run_graph(rows, "other")


def test_hostile_names_are_names(tmp_path: Path) -> None:
    names = ["<script>", "a~9", "~", "x" * 500, "a\x00\n", "..", "", "$", "@in", ":3", "." * 300, "a:b:c/d#e"]
    nodes = [Node(name, (name,), "value", (), name, at) for at, name in enumerate(names)]
    links = [Link(a, b, carries_gradient=True) for a, b in pairwise(names)]
    links.append(Link(names[-1], names[0], carries_gradient=False))
    with Writer(tmp_path / "run", kind="run") as writer:
        writer.document("structure/s", Dependencies(tuple(nodes), tuple(links)).plain())
        writer.document("modules", {"address": names, "class": names})
        writer.document("arrangement", [{"at": 3}, "x", {"at": "**", "order": "no"}, {"at": "[", "hidden": True}])
        schema = writer.schema([Row(name) for name in names], ["mean"])
        writer.step(0, schema=schema, matrix=np.ones((len(names), 1)), about={"structure": "s"})
    graph = run_graph(RunRows(cutaway.load(tmp_path / "run")))
    check_graph(graph.view)
    assert len(graph.loops) == 1
    assert all(label.isprintable() for label in (*graph.view.nodes.label, *graph.view.groups.label))
    json.dumps(plain(graph), allow_nan=False)
    place(fold(graph.view, fold_to_depth(graph.view, None)))


def test_several_models_have_a_frame_each(tmp_path: Path) -> None:
    models = {"G": nn.Sequential(nn.Linear(2, 4), nn.ReLU()), "D": nn.Sequential(nn.Linear(4, 1), nn.ReLU())}
    with one_thread(), cutaway.record(tmp_path / "run", models, every=1) as run, run.step():
        models["D"](models["G"](torch.randn(3, 2)))
    graph = run_graph(RunRows(cutaway.load(tmp_path / "run")))
    check_graph(graph.view)
    assert graph.view.title == "run"
    assert {"G", "D"} < set(graph.view.groups.label)


def test_a_graph_of_sixty_blocks_is_made_in_a_moment(tmp_path: Path) -> None:
    model = Net(n_blocks=60)
    with one_thread(), cutaway.record(tmp_path / "run", model, every=1) as run, run.step():
        model(torch.zeros(1, 2, dtype=torch.long))
    graph = run_graph(RunRows(cutaway.load(tmp_path / "run")))
    assert [(run.label, len(run.groups)) for run in graph.view.runs] == [("h.0 … 59", 60)]
    assert len(graph.nodes) > 600


def test_a_group_of_the_readers_own_stands_around_nodes_and_their_modules() -> None:
    rows = RunRows(trained())
    usual = run_graph(rows)
    overrides = [{"at": node.name, "within": "mine"} for node in usual.nodes if node.name.startswith(("h.0", "h.1"))]
    graph = run_graph(rows, overrides=[*overrides, "nonsense", {"at": 3}])
    groups = graph.view.groups
    [mine] = [group for group, label in enumerate(groups.label) if label == "mine"]
    assert groups.class_name[mine] == "your group"
    inside = {graph.nodes[node].name for node in range(groups.first[mine], groups.end[mine])}
    assert {override["at"] for override in overrides} <= inside
    block = groups.label.index("h.1")
    assert groups.parent[block] == mine
    assert sorted(node.name for node in graph.nodes) == sorted(node.name for node in usual.nodes)
    assert len(graph.view.edges.parent) == len(usual.view.edges.parent)
