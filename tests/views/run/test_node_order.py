"""Whatever hangs together how, and stands in whatever modules, comes into an order that can be drawn."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.views.run.node_order import (
    Item,
    ModuleGroup,
    absorb_between,
    drop_single_item_groups,
    group_by_module,
    topological_order,
)

ways = st.sampled_from([(), ("a",), ("a", "a.b"), ("a", "a.b", "a.b.c"), ("a", "a.d"), ("e",), ("e", "e.f")])
many = st.integers(1, 14).flatmap(
    lambda n: st.tuples(
        st.lists(
            st.builds(Item, st.floats(-3, 3), ways, st.booleans(), st.sampled_from([{}, {"a": "1"}, {"a": "2"}])),
            min_size=n, max_size=n,
        ),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1]),
                 max_size=25, unique=True),
    )
)  # fmt: skip


def nests(nest: ModuleGroup) -> Iterator[ModuleGroup]:
    yield nest
    for one in nest.content:
        if isinstance(one, ModuleGroup):
            yield from nests(one)


def path_of(nest: ModuleGroup) -> list[ModuleGroup]:
    return [nest, *(path_of(nest.above) if nest.above is not None else [])]


@settings(max_examples=150, deadline=None)
@given(many)
def test_everything_is_there_once_parents_first_and_in_its_module(
    drawn: tuple[list[Item], list[tuple[int, int]]],
) -> None:
    items, links = drawn
    root, loops = group_by_module(items, links, frozenset({"a"}))
    order = list(root.items())
    assert sorted(order) == list(range(len(items)))
    place = {i: at for at, i in enumerate(order)}
    for parent, child in links:
        assert (place[parent] < place[child]) == ((parent, child) not in loops)
    for nest in nests(root):
        for i in (one for one in nest.content if isinstance(one, int)):
            # A source may stand further out than its module, and what is between two of a module further in.
            own = items[i].modules[-1] if items[i].modules else ""
            around = [one.address for one in path_of(nest)]
            assert own in around or (items[i].is_source and nest.address in ("", *items[i].modules))
    bare = drop_single_item_groups(root)
    assert list(bare.items()) == order
    assert all(sum(1 for _ in nest.items()) > 1 for nest in nests(bare) if nest.above is not None)


@settings(max_examples=100, deadline=None)
@given(many)
def test_links_lead_back_only_where_there_is_a_loop(drawn: tuple[list[Item], list[tuple[int, int]]]) -> None:
    items, links = drawn
    forward = [(min(pair), max(pair)) for pair in links]
    assert topological_order(items, forward)[1] == []
    _, loops = topological_order(items, links)
    below: dict[int, set[int]] = {}
    for parent, child in links:
        below.setdefault(parent, set()).add(child)
    for parent, child in loops:
        seen, stack = {child}, [child]
        while stack:
            for found in below.get(stack.pop(), ()):
                if found not in seen:
                    seen.add(found)
                    stack.append(found)
        assert parent in seen


def test_a_loop_begins_with_its_first_item_and_is_cut_nowhere_else() -> None:
    items = [Item(at, ()) for at in range(5)]
    assert topological_order(items, [(0, 1), (1, 2), (2, 1), (2, 3), (3, 4), (4, 3)]) == (
        [0, 1, 2, 3, 4],
        [(2, 1), (4, 3)],
    )


def test_a_module_is_not_left_before_its_result_is_there() -> None:
    # Number 1 comes between by order, and would tear the module apart.
    items = [Item(0, ("a",)), Item(1, ()), Item(2, ("a",), finishes={"a": "1"})]
    root, _ = group_by_module(items, [(0, 1), (0, 2)], frozenset())
    assert list(root.items()) == [0, 2, 1]


def test_what_is_made_and_used_within_a_module_stands_in_it() -> None:
    items = [Item(0, ("a", "a.b")), Item(1, ()), Item(2, ("a", "a.b")), Item(3, ()), Item(4, ("a",)), Item(5, ())]
    links = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 5)]
    assert [item.modules for item in absorb_between(items, links, frozenset())] == [
        ("a", "a.b"), ("a", "a.b"), ("a", "a.b"), ("a",), ("a",), (),
    ]  # fmt: skip
    # Between two passes of a module is not within it.
    assert [item.modules for item in absorb_between(items, links, frozenset({"a", "a.b"}))] == [
        item.modules for item in items
    ]


def test_every_pass_of_a_module_is_a_stay_of_its_own() -> None:
    items = [Item(at, ("a",), finishes={"a": str(at // 2)} if at % 2 else {}) for at in range(6)]
    links = [(at, at + 1) for at in range(5)]
    root, _ = group_by_module(items, links, frozenset({"a"}))
    assert [list(one.items()) for one in root.inside if isinstance(one, ModuleGroup)] == [[0, 1], [2, 3], [4, 5]]
    root, _ = group_by_module(items, links, frozenset())
    assert [list(one.items()) for one in root.inside if isinstance(one, ModuleGroup)] == [[0, 1, 2, 3, 4, 5]]


def test_a_parameter_stands_in_its_module_and_no_module_is_torn_apart_for_it() -> None:
    items = [
        Item(0, ("a",)),
        Item(1, ("a",)),
        Item(2, ("e",)),
        Item(9, ("a",), is_source=True),  # of its own module
        Item(9, ("e",), is_source=True),  # read first by another one
        Item(9, ("a", "a.b"), is_source=True),  # of a module in which nothing else is
    ]
    root, _ = group_by_module(items, [(0, 1), (1, 2), (3, 1), (4, 1), (4, 2), (5, 1)], frozenset())
    a, e = (one for one in root.inside if isinstance(one, ModuleGroup))
    assert (list(a.items()), list(e.items()), root.heads) == ([3, 5, 0, 1], [2], [4])
    assert [one.address for one in a.heads if isinstance(one, ModuleGroup)] == ["a.b"]


def test_twenty_thousand_are_put_in_order_in_no_time() -> None:
    items = [Item(-at, (f"m{at % 7}",)) for at in range(20_000)]
    order, loops = topological_order(items, [(at, at + 7) for at in range(19_993)])
    assert len(order) == 20_000
    assert not loops
