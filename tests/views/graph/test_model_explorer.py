"""The JSON for Model Explorer: by its published schema, and the same graph as the trace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.views.nets import broken, loop, perceptron, stack

import cutaway

# The fields of a node that Model Explorer knows, and whether it must be there.
FIELDS = {
    "id": True, "label": True, "namespace": True, "attrs": False, "incomingEdges": False, "outputsMetadata": False,
    "inputsMetadata": False, "subgraphIds": False, "style": False, "config": False,
}  # fmt: skip


def graph(trace: cutaway.Trace, tmp_path, **options: Any) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    text = trace.draw(tmp_path / "net.json", **options)
    assert (tmp_path / "net.json").read_text(encoding="utf-8") == text
    document = json.loads(text)
    assert set(document) == {"label", "graphs"}
    (found,) = document["graphs"]
    return dict(found)


@pytest.mark.parametrize("make", [perceptron, stack, loop, broken])
def test_it_follows_the_schema(make, tmp_path) -> None:  # type: ignore[no-untyped-def]
    found = graph(make(), tmp_path)
    assert set(found) == {"id", "nodes", "groupNodeAttributes"}
    ids = [node["id"] for node in found["nodes"]]
    assert len(ids) == len(set(ids))
    for node in found["nodes"]:
        assert set(node) <= set(FIELDS)
        assert all(name in node for name, is_needed in FIELDS.items() if is_needed)
        for item in node.get("attrs", []):
            assert all(isinstance(item[name], str) for name in ("key", "value"))
        for edge in node.get("incomingEdges", []):
            assert set(edge) == {"sourceNodeId", "sourceNodeOutputId", "targetNodeInputId"}
            source = next(other for other in found["nodes"] if other["id"] == edge["sourceNodeId"])
            assert edge["sourceNodeOutputId"] in {item["id"] for item in source["outputsMetadata"]}
            assert edge["targetNodeInputId"] in {item["id"] for item in node["inputsMetadata"]}
    for facts in found["groupNodeAttributes"].values():
        assert all(isinstance(value, str) for value in facts.values())


@pytest.mark.parametrize("make", [perceptron, stack, loop])
def test_every_op_and_every_tensor_between_two_is_there(make, tmp_path) -> None:  # type: ignore[no-untyped-def]
    trace = make()
    nodes = {node["id"]: node for node in graph(trace, tmp_path)["nodes"]}
    home = {result: node for node in nodes.values() for result in tags(node)}
    for op in trace:
        node = home[op.label]
        assert node["label"] == op.function
        assert len(tags(node)) == len(op.siblings)
        wanted = [edge.parent.label for edge in op.edges if edge.parent.kind != "parameter"]
        found = []
        for edge in node["incomingEdges"]:
            source = nodes[edge["sourceNodeId"]]
            found.append(tags(source)[int(edge["sourceNodeOutputId"])])
        assert found == wanted
    outputs = [
        tags(nodes[edge["sourceNodeId"]])[int(edge["sourceNodeOutputId"])] for edge in nodes["outputs"]["incomingEdges"]
    ]
    assert outputs == [op.label for op in trace.outputs]


def tags(node: dict[str, Any]) -> list[str]:
    """The names of the results of a node."""
    items = [item["attrs"] for item in node.get("outputsMetadata", [])]
    return [fact["value"] for facts in items for fact in facts if fact["key"] == "__tensor_tag"]


def test_layers_are_the_modules_and_know_their_class(tmp_path) -> None:  # type: ignore[no-untyped-def]
    found = graph(stack(), tmp_path)
    layers = found["groupNodeAttributes"]
    assert layers["blocks.1/inner"]["class"] == "Sequential"
    assert layers["blocks.1/inner"]["parameters"] == "76"
    assert layers[""]["ops"] == str(len(stack()))
    nodes = {node["id"]: node["namespace"] for node in found["nodes"]}
    assert nodes["gelu_2_10"] == "blocks.1/inner/1"
    assert set(nodes.values()) - {""} <= set(layers)


def test_passes_of_a_module_are_layers_of_their_own(tmp_path) -> None:  # type: ignore[no-untyped-def]
    spaces = {node["namespace"] for node in graph(loop(), tmp_path)["nodes"]}
    assert {f"cell:{n}" for n in range(1, 6)} <= spaces


def test_colors_are_those_of_the_measure(tmp_path) -> None:  # type: ignore[no-untyped-def]
    trace = perceptron()
    nodes = {node["id"]: node for node in graph(trace, tmp_path, color_by={"0": 1.0, "2": 3.0})["nodes"]}
    assert "style" not in nodes["relu_1_2"]
    first, last = (nodes[label]["style"]["backgroundColor"] for label in ("linear_1_1", "linear_2_3"))
    assert first != last
    assert {"key": "value", "value": "3"} in nodes["linear_2_3"]["attrs"]
