"""Orders the nodes of a dependency graph for display: parents first, nodes of one module together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

ModulePath = tuple[str, ...]
"""Addresses of enclosing modules, outermost first."""
Links = Sequence[tuple[int, int]]
"""(parent, child) by number."""


@dataclass(frozen=True, slots=True)
class Item:
    """A node to order."""

    order: float
    modules: ModulePath
    is_source: bool = False
    """Whether it goes first in a module, as a parameter does; only if it has no parents."""
    finishes: Mapping[str, str] = field(default_factory=dict)
    """Modules that return this tensor → the pass of each."""


@dataclass(slots=True, eq=False)
class ModuleGroup:
    """A contiguous group of nodes of one module; a module that runs repeatedly, or between others, has several."""

    address: str
    above: ModuleGroup | None = None
    heads: list[int | ModuleGroup] = field(default_factory=list)
    """Sources, such as parameters."""
    inside: list[int | ModuleGroup] = field(default_factory=list)
    finished: str = ""

    @property
    def content(self) -> list[int | ModuleGroup]:
        return [*self.heads, *self.inside]

    def items(self) -> Iterator[int]:
        """All items in it, in order."""
        for entry in self.content:
            if isinstance(entry, ModuleGroup):
                yield from entry.items()
            else:
                yield entry


def topological_order(items: Sequence[Item], links: Links) -> tuple[list[int], list[tuple[int, int]]]:
    """Parents before children, and the links that were left out because they close a loop.

    Nodes of the module just entered come first, until its result is reached; otherwise by `order`.

    >>> items = [Item(0, ()), Item(3, ("a",)), Item(1, ("a",)), Item(2, ())]
    >>> topological_order(items, [(0, 1), (0, 3), (2, 1)])
    ([0, 2, 1, 3], [])
    """
    loop = _strongly_connected(len(items), links)
    rank = {i: at for at, i in enumerate(sorted(range(len(items)), key=lambda i: (items[i].order, i)))}
    below: list[list[int]] = [[] for _ in items]
    n_open = [0] * len(items)
    for parent, child in links:
        if loop[parent] != loop[child] or rank[parent] < rank[child]:  # within a loop `order` decides
            below[parent].append(child)
            n_open[child] += 1
    ready: dict[ModulePath, list[tuple[int, int]]] = {}

    def push(i: int) -> None:
        modules = items[i].modules
        for depth in range(len(modules) + 1):
            heappush(ready.setdefault(modules[:depth], []), (rank[i], i))

    for first, n in enumerate(n_open):
        if not n:
            push(first)
    place: dict[int, int] = {}
    at: ModulePath = ()
    while (i := _next(ready, at, place)) is not None:
        place[i] = len(place)
        at = items[i].modules
        done = [depth for depth, address in enumerate(at) if address in items[i].finishes]
        at = at[: done[0]] if done else at
        for child in below[i]:
            n_open[child] -= 1
            if not n_open[child]:
                push(child)
    return list(place), [(parent, child) for parent, child in links if place[parent] >= place[child]]


def _strongly_connected(n: int, links: Links) -> list[int]:
    """The strongly connected component of each item (Tarjan's algorithm, iterative)."""
    below: list[list[int]] = [[] for _ in range(n)]
    for parent, child in links:
        below[parent].append(child)
    # Iterative: a long chain of tensors would exceed Python's recursion limit.
    seen, low, component = [-1] * n, [0] * n, [-1] * n
    count = 0
    open_: list[int] = []
    for root in range(n):
        stack = [(root, 0)] if seen[root] < 0 else []
        while stack:
            i, done = stack.pop()
            if not done:
                seen[i] = low[i] = count
                count += 1
                open_.append(i)
            else:
                low[i] = min(low[i], low[below[i][done - 1]])
            while done < len(below[i]):
                child = below[i][done]
                done += 1
                if seen[child] < 0:
                    stack += [(i, done), (child, 0)]
                    break
                if component[child] < 0:
                    low[i] = min(low[i], seen[child])
            else:
                if low[i] == seen[i]:
                    while component[i] < 0:
                        component[open_.pop()] = i
    return component


def _next(ready: Mapping[ModulePath, list[tuple[int, int]]], at: ModulePath, known: Mapping[int, int]) -> int | None:
    for depth in range(len(at), -1, -1):
        heap = ready.get(at[:depth], [])
        # An item is in the heap of every module around it; copies of items placed already are dropped here.
        while heap and heap[0][1] in known:
            heappop(heap)
        if heap:
            return heappop(heap)[1]
    return None


def group_by_module(
    items: Sequence[Item], links: Links, repeated: frozenset[str]
) -> tuple[ModuleGroup, list[tuple[int, int]]]:
    """The items in nested module groups, and the links that lead back.

    Args:
        repeated: addresses of modules that run several times: after a result the next pass starts.
    """
    has_parents = {child for _, child in links}
    sources = [i for i, item in enumerate(items) if item.is_source and i not in has_parents]
    others = [i for i, item in enumerate(items) if not item.is_source or i in has_parents]
    number = {i: at for at, i in enumerate(others)}
    among = [(number[parent], number[child]) for parent, child in links if parent in number]
    inner = absorb_between([items[i] for i in others], among, repeated)
    items = [*items]
    for i, item in zip(others, inner, strict=True):
        items[i] = item
    ordered, back = topological_order(inner, among)
    chain, loops = [others[at] for at in ordered], [(others[parent], others[child]) for parent, child in back]
    root = _build_groups(chain, items, repeated)
    home = {i: group for group in _walk_groups(root) for i in group.inside if isinstance(i, int)}
    first: dict[str, ModuleGroup] = {}
    for group in _walk_groups(root):
        first.setdefault(group.address, group)
    place = {i: at for at, i in enumerate(chain)}
    readers: dict[int, list[int]] = {}
    for parent, child in links:
        readers.setdefault(parent, []).append(child)
    made: dict[tuple[int, str], ModuleGroup] = {}
    for i in sorted(sources, key=lambda i: (items[i].order, i)):
        reader = min(readers.get(i, ()), key=place.__getitem__, default=None)
        _place_source(i, items[i].modules, None if reader is None else home[reader], first=first, made=made)
    return root, loops


def absorb_between(items: Sequence[Item], links: Links, repeated: frozenset[str]) -> list[Item]:
    """The items, where those between two items of a module are moved into it, so that it stays in one piece.

    Outputs computed along the way, such as keys and values for a cache, are made and used in the middle of a module.
    Passes of one module stay separate.
    """
    chain, _ = topological_order(items, links)
    place = {i: at for at, i in enumerate(chain)}
    above: list[list[int]] = [[] for _ in items]
    below: list[list[int]] = [[] for _ in items]
    for parent, child in links:
        if place[parent] < place[child]:
            above[place[child]].append(place[parent])
            below[place[parent]].append(place[child])
    ordered = [items[i] for i in chain]
    spans: dict[ModulePath, tuple[int, int]] = {}
    for at, item in enumerate(ordered):
        for depth in range(1, len(item.modules) + 1):
            first, _ = spans.get(item.modules[:depth], (at, at))
            spans[item.modules[:depth]] = (first, at)
    finished = {address for item in items for address in item.finishes}
    for modules in sorted(spans, key=len):
        if _is_repeated(modules[-1], repeated, finished):
            continue
        first, last = spans[modules]
        inside = {at for at in range(first, last + 1) if ordered[at].modules[: len(modules)] == modules}
        after, before = set(inside), set(inside)
        for at in range(first, last + 1):
            if any(up in after for up in above[at]):
                after.add(at)
        for at in range(last, first - 1, -1):
            if any(down in before for down in below[at]):
                before.add(at)
        for at in (after & before) - inside:
            if ordered[at].modules == modules[: len(ordered[at].modules)]:
                ordered[at] = replace(ordered[at], modules=modules)
    return [ordered[place[i]] for i in range(len(items))]


def _is_repeated(address: str, repeated: frozenset[str], finished: Set[str]) -> bool:
    """Whether a module runs several times, judged by its own results or those of its children."""
    if address in repeated or address in finished:
        return address in repeated
    return any(other.startswith(f"{address}.") for other in repeated)


def _build_groups(chain: Sequence[int], items: Sequence[Item], repeated: frozenset[str]) -> ModuleGroup:
    root = at = ModuleGroup("")
    depth = 0
    for i in chain:
        modules, path, shared = items[i].modules, _path(at), 0
        while shared < min(len(path), len(modules)) and path[shared].address == modules[shared]:
            group = path[shared]
            if group.address in repeated and group.finished not in ("", items[i].finishes.get(group.address)):
                break  # the next pass of the module
            shared += 1
        while depth > shared and at.above is not None:
            at, depth = at.above, depth - 1
        for address in modules[shared:]:
            inner = ModuleGroup(address, at)
            at.inside.append(inner)
            at, depth = inner, depth + 1
        at.inside.append(i)
        for group in _path(at):
            group.finished = items[i].finishes.get(group.address, group.finished)
    return root


def _place_source(
    i: int,
    modules: ModulePath,
    reader: ModuleGroup | None,
    *,
    first: Mapping[str, ModuleGroup],
    made: dict[tuple[int, str], ModuleGroup],
) -> None:
    """Adds a source to its own module, as close to its first reader as possible."""
    at = reader
    if at is None:  # no reader
        at = next((first[address] for address in reversed(modules) if address in first), first[""])
    path = _path(at)
    shared = 0
    while shared < min(len(path), len(modules)) and path[shared].address == modules[shared]:
        shared += 1
    group = path[shared - 1] if shared else first[""]
    for address in modules[shared:]:
        if address in first:  # its module is elsewhere; do not split it
            break
        inner = made.get((id(group), address))
        if inner is None:
            inner = made[id(group), address] = ModuleGroup(address, group)
            group.heads.append(inner)
        group = inner
    group.heads.append(i)


def _path(group: ModuleGroup) -> list[ModuleGroup]:
    """A group and its enclosing groups without the root, innermost last."""
    path: list[ModuleGroup] = []
    at: ModuleGroup | None = group
    while at is not None and at.above is not None:
        path.append(at)
        at = at.above
    return path[::-1]


def _walk_groups(group: ModuleGroup) -> Iterator[ModuleGroup]:
    yield group
    for entry in group.content:
        if isinstance(entry, ModuleGroup):
            yield from _walk_groups(entry)


def drop_single_item_groups(group: ModuleGroup) -> ModuleGroup:
    """The same without groups of a single item, which need no frame."""
    result = ModuleGroup(group.address)
    for entry in group.content:
        if isinstance(entry, ModuleGroup):
            inner = drop_single_item_groups(entry)
            if sum(1 for _ in inner.items()) > 1:
                inner.above = result
                result.inside.append(inner)
            else:
                result.inside.extend(inner.items())
        else:
            result.inside.append(entry)
    return result
