"""Walks over nested containers."""

from __future__ import annotations

from collections import OrderedDict, UserDict, deque, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from cutaway.core.pytree import branches, escape, leaves, replace

Point = namedtuple("Point", ["x", "y"])


def is_float(value: Any) -> bool:
    return isinstance(value, float)


def found(tree: Any, **options: Any) -> list[tuple[str, float]]:
    return list(leaves(tree, is_float, **options))


@dataclass
class Batch:
    image: Any
    labels: Any = None
    extra: dict[str, Any] = field(default_factory=dict)


class Output(OrderedDict):  # type: ignore[type-arg]
    """Like transformers' `ModelOutput`: a dict whose keys are attributes, too."""

    def __init__(self, **values: Any) -> None:
        super().__init__(values)
        self.__dict__.update(values)


class Encoding(UserDict):  # type: ignore[type-arg]
    """Like transformers' `BatchEncoding`: a mapping with other attributes beside its data."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self.n_sequences = 9.5


class Fresh(Mapping[str, Any]):
    """Makes its values anew each time it is asked."""

    def __getitem__(self, key: str) -> Any:
        return [[float(key)]]

    def __iter__(self) -> Iterator[str]:
        return iter("123456")

    def __len__(self) -> int:
        return 6


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (1.5, [("", 1.5)]),
        (None, []),
        ("text", []),
        ({"a": 1.0, "b": {"c": 2.0}}, [("a", 1.0), ("b.c", 2.0)]),
        ([1.0, [2.0, 3]], [("0", 1.0), ("1.0", 2.0)]),
        ((1.0, (2.0,)), [("0", 1.0), ("1.0", 2.0)]),
        (deque([1.0]), [("0", 1.0)]),
        (Point(1.0, [2.0]), [("x", 1.0), ("y.0", 2.0)]),
        (Batch(1.0, extra={"k": 2.0}), [("image", 1.0), ("extra.k", 2.0)]),
        (Output(logits=1.0, hidden=(2.0, 3.0)), [("logits", 1.0), ("hidden.0", 2.0), ("hidden.1", 3.0)]),
        (Encoding({"input_ids": 1.0}), [("input_ids", 1.0)]),
        (MappingProxyType({"a": 1.0}), [("a", 1.0)]),
        ({1: 1.0, (2, 3): 2.0}, [("1", 1.0), ("(2, 3)".replace(" ", "%20"), 2.0)]),
        ({"a.b": 1.0, "": 2.0}, [("a%2Eb", 1.0), ("%", 2.0)]),
        (SimpleNamespace(a=1.0, b=SimpleNamespace(c=2.0)), [("a", 1.0), ("b.c", 2.0)]),
    ],
)
def test_leaves_are_found_in_order_with_their_paths(tree: Any, expected: list[tuple[str, float]]) -> None:
    assert found(tree) == expected


def test_model_outputs_and_encodings_of_transformers_are_walked_like_mappings() -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_outputs import BaseModelOutput

    output = BaseModelOutput(last_hidden_state=torch.ones(1), hidden_states=(torch.ones(1), torch.ones(1)))
    encoding = transformers.BatchEncoding({"input_ids": torch.ones(1), "attention_mask": torch.ones(1)})
    paths = [path for path, _ in leaves(output, torch.is_tensor)]
    assert paths == ["last_hidden_state", "hidden_states.0", "hidden_states.1"]
    assert [path for path, _ in leaves(encoding, torch.is_tensor)] == ["input_ids", "attention_mask"]


def test_plain_objects_are_left_alone_unless_asked_for() -> None:
    tree = [SimpleNamespace(a=1.0), Batch(2.0)]
    assert found(tree, objects=False) == [("1.image", 2.0)]


def test_functions_classes_and_modules_are_not_looked_into() -> None:
    def function() -> None: ...

    function.value = 1.0  # type: ignore[attr-defined]
    assert found([function, Batch, torch, torch.nn.Linear(1, 1)]) == []


def test_a_container_that_holds_itself_ends() -> None:
    cyclic: dict[str, Any] = {"a": 1.0}
    cyclic["self"] = [cyclic, 2.0]
    holder = SimpleNamespace(value=3.0)
    holder.me = holder
    cyclic["holder"] = holder
    assert found(cyclic) == [("a", 1.0), ("self.1", 2.0), ("holder.value", 3.0)]


def test_a_container_in_two_places_is_walked_in_both() -> None:
    shared = [1.0]
    assert found({"first": shared, "second": (shared, shared)}) == [
        ("first.0", 1.0), ("second.0.0", 1.0), ("second.1.0", 1.0)
    ]  # fmt: skip


def test_containers_shared_over_and_over_do_not_explode() -> None:
    tree: Any = [1.0]
    for _ in range(60):
        tree = [tree, tree]
    count = sum(1 for _ in zip(leaves(tree, is_float), range(200_000), strict=False))
    assert 0 < count < 200_000


def test_values_made_anew_on_each_access_are_all_found() -> None:
    assert [value for _, value in found({"a": Fresh(), "b": Fresh()})] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 2


def test_a_wide_tree_is_walked_to_its_end() -> None:
    assert len(found([[float(i)] for i in range(120_000)])) == 120_000


def test_depth_costs_no_recursion() -> None:
    tree: Any = 1.0
    for i in range(5_000):
        tree = {"a": tree} if i % 2 else [tree]
    ((path, value),) = found(tree)
    assert value == 1.0
    assert path.count(".") == 4_999
    deep = replace(tree, lambda leaf: -leaf, is_float)
    assert [value for _, value in found(deep)] == [-1.0]


trees = st.recursive(
    st.one_of(st.floats(allow_nan=False), st.integers(), st.none(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=4),
        st.tuples(inner, inner).map(lambda pair: Point(*pair)),
    ),
    max_leaves=20,
)


@given(trees)
def test_leaves_are_those_of_torchs_own_walk(tree: Any) -> None:
    theirs = [leaf for leaf in pytree.tree_leaves(tree) if is_float(leaf)]
    assert [leaf for _, leaf in found(tree)] == theirs


@given(trees)
def test_paths_are_unique_and_lead_to_their_leaves(tree: Any) -> None:
    pairs = found(tree)
    assert len({path for path, _ in pairs}) == len(pairs)
    for path, leaf in pairs:
        at = tree
        for part in path.split(".") if path else []:
            at = {escape(name): child for name, child in branches(at)}[part]
        assert at is leaf


@given(trees)
def test_replacing_is_torchs_own_map_in_the_order_of_the_walk(tree: Any) -> None:
    order = []

    def negated(leaf: float) -> float:
        order.append(leaf)
        return -leaf

    ours = replace(tree, negated, is_float)
    theirs = pytree.tree_map(lambda leaf: -leaf if is_float(leaf) else leaf, tree)
    assert ours == theirs
    assert order == [leaf for _, leaf in found(tree)]


def test_replacing_keeps_named_tuples_structs_and_slices() -> None:
    assert replace(Point(1.0, 2), lambda leaf: -leaf, is_float) == Point(-1.0, 2)
    assert replace([slice(1.0, None, 2.0)], lambda leaf: -leaf, is_float) == [slice(-1.0, None, -2.0)]
    extremes = torch.aminmax(torch.tensor([1.0, 2.0]))
    halved = replace((extremes,), lambda leaf: leaf / 2, torch.is_tensor)[0]
    assert type(halved) is type(extremes)
    assert (halved.min, halved.max) == (0.5, 1.0)


def test_replacing_leaves_a_cycle_as_it_is() -> None:
    cyclic: list[Any] = [1.0]
    cyclic.append(cyclic)
    changed = replace(cyclic, lambda leaf: -leaf, is_float)
    assert changed[0] == -1.0
    assert changed[1] is cyclic


def test_replacing_does_not_touch_the_original() -> None:
    tree = {"a": [1.0]}
    assert replace(tree, lambda leaf: -leaf, is_float) == {"a": [-1.0]}
    assert tree == {"a": [1.0]}
