"""DOT: what Graphviz would read is the graph of the picture."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field

import pytest
from tests.views.nets import broken, loop, perceptron, stack

from cutaway.views.graph.from_trace import picture

TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|->|[{}\[\]=,;]|[\w.]+)')


@dataclass
class Read:
    """What a reader of the language finds in a text."""

    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    clusters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Node → the clusters around it, the outermost first."""
    titles: dict[str, str] = field(default_factory=dict)


def read(text: str) -> Read:
    """A reader of the part of the language that is in use, by its grammar."""
    tokens, at = [], 0
    while at < len(text.rstrip()):
        found = TOKEN.match(text, at)
        assert found, text[at : at + 40]
        tokens.append(found[1])
        at = found.end()
    result, around = Read(), []
    place = iter(range(len(tokens)))
    for i in place:
        token = tokens[i]
        if token in ("digraph", "{", ";"):
            continue
        if token == "subgraph":
            around.append(said(tokens[i + 1]))
            [next(place) for _ in range(2)]
        elif token == "}":
            if around:
                around.pop()
        elif tokens[i + 1] == "=":
            if token == "label":
                result.titles[around[-1]] = said(tokens[i + 2])
            [next(place) for _ in range(2)]
        else:
            name, to = said(token), None
            if tokens[i + 1] == "->":
                to = said(tokens[i + 2])
                [next(place) for _ in range(2)]
            attributes = {}
            assert tokens[next(place)] == "["
            while (key := tokens[next(place)]) != "]":
                if key != ",":
                    assert tokens[next(place)] == "="
                    attributes[key] = said(tokens[next(place)])
            if to is not None:
                result.edges.append((name, to, attributes))
            elif name not in ("graph", "node", "edge"):
                result.nodes[name] = attributes
                result.clusters[name] = tuple(around)
    assert not around
    return result


def said(token: str) -> str:
    return re.sub(r"\\([\"\\])", r"\1", token[1:-1]) if token.startswith('"') else token


@pytest.mark.parametrize("options", [{}, {"depth": 1}, {"rolled": True}])
@pytest.mark.parametrize("make", [perceptron, stack, loop, broken])
def test_nodes_edges_and_clusters_are_those_of_the_picture(make, options, tmp_path) -> None:  # type: ignore[no-untyped-def]
    trace = make()
    found = read(trace.draw(tmp_path / "net.dot", **options))
    wanted = picture(trace, **options)
    assert set(found.nodes) == {box.key for box in wanted.boxes}
    pairs = sorted((wanted.boxes[edge.parent].key, wanted.boxes[edge.child].key, edge.label) for edge in wanted.edges)
    assert sorted((a, b, attributes.get("label", "")) for a, b, attributes in found.edges) == pairs
    for box in wanted.boxes:
        path, frame = [], box.frame
        while frame > 0:
            path.append(f"cluster_{wanted.frames[frame].key}")
            frame = wanted.frames[frame].parent
        assert found.clusters[box.key] == tuple(reversed(path))
        assert found.nodes[box.key]["label"].split("\\n") == list(box.lines)
    assert set(found.titles.values()) == {frame.title for frame in wanted.frames[1:]}


def test_direction_colors_focus_and_what_goes_back_are_there(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = loop().draw(tmp_path / "net.gv", rolled=True, direction="right")
    assert "rankdir=LR" in text
    assert [attributes for _, _, attributes in read(text).edges if attributes.get("constraint") == "false"]
    assert (tmp_path / "net.gv").read_text(encoding="utf-8") == text
    trace = perceptron()
    fills = {one["fillcolor"] for one in read(trace.draw(tmp_path / "a.dot", color_by="bytes")).nodes.values()}
    assert len(fills) == 3  # 24 bytes, 32 bytes twice, 16 bytes
    focused = read(trace.draw(tmp_path / "a.dot", focus="relu_1")).nodes
    assert [one["penwidth"] for one in focused.values()].count("3") == 1


def test_quotes_and_backslashes_in_names_do_not_end_a_text() -> None:
    from cutaway.views.draw.dot import _escaped

    odd = 'a"b\\c\nd\x00'
    assert _escaped(odd) == 'a\\"b\\\\c\\nd?'
    assert read(f'digraph {{ "x" [label="{_escaped(odd)}"] }}').nodes["x"]["label"] == 'a"b\\c\\nd?'


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
@pytest.mark.parametrize("make", [perceptron, stack, loop, broken])
def test_graphviz_reads_it(make, tmp_path) -> None:  # type: ignore[no-untyped-def]
    make().draw(tmp_path / "net.dot")
    done = subprocess.run(["dot", "-Tplain", tmp_path / "net.dot"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.count("\nnode ") == len(picture(make()).boxes)
