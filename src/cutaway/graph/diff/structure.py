"""What is new, gone, changed or moved between two aligned traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cutaway.core.sites import ROOT
from cutaway.graph.control_flow.source import Source
from cutaway.graph.diff.align import Alignment, arguments_of
from cutaway.graph.diff.match import MISSING, Pair, by_path
from cutaway.graph.op import Op
from cutaway.graph.tables import IDENTITY, INPUT, OP, Nodes
from cutaway.graph.trace import Trace
from cutaway.results.diff import Aspect, Change, Kind


def changes(a: Trace, b: Trace, found: Alignment) -> tuple[Change, ...]:
    """All differences in structure: modules, parameters and buffers, inputs, ops in graph order, outputs."""
    return (
        *_modules(a, b, found.modules),
        *_parameters(a, b, found.parameters),
        *_ops(a, b, found, found.sources),
        *_ops(a, b, found, found.ops),
        *_outputs(a, b),
    )


def _ops(a: Trace, b: Trace, found: Alignment, pairs: Iterable[Pair]) -> Iterator[Change]:
    """Ops, or the inputs among the sources."""
    wiring = _Wiring(a, b, found)
    for mine, other in pairs:
        kinds = {a.tables.nodes.kind[mine]} if mine != MISSING else {b.tables.nodes.kind[other]}
        if not kinds <= {OP, INPUT}:
            continue
        kind: Kind = "op" if OP in kinds else "input"
        if mine == MISSING:
            op = Op(b, other)
            yield Change("new", kind, op.label, op.site, "", after=_described(op), source=line(op.source))
        elif other == MISSING:
            op = Op(a, mine)
            yield Change("gone", kind, op.label, op.site, op.site, before=_described(op), source=line(op.source))
        elif aspects := _aspects(a, b, mine, other, wiring):
            old, op = Op(a, mine), Op(b, other)
            words = _words(old, aspects), _words(op, aspects)
            yield Change("changed", kind, op.label, op.site, old.site, aspects, *words, line(op.source))


def _aspects(a: Trace, b: Trace, mine: int, other: int, wiring: _Wiring) -> tuple[Aspect, ...]:
    one, two = a.tables.nodes, b.tables.nodes
    found: list[Aspect] = []
    if one.name[mine] != two.name[other]:
        found.append("function")
    old, new = one.meta_of(mine), two.meta_of(other)
    if (old and old.shape) != (new and new.shape):
        found.append("shape")
    if _dtype(a, mine) != _dtype(b, other):
        found.append("dtype")
    if "function" not in found and arguments_of(a, mine) != arguments_of(b, other):
        found.append("arguments")  # those of another function are not its
    if not wiring.agrees(mine, other):
        found.append("inputs")
    return tuple(found)


def _dtype(trace: Trace, node: int) -> str | None:
    """Of a plain number, its Python type, as far as both traces must have kept it."""
    meta = trace.tables.nodes.meta_of(node)
    return meta.dtype if meta else None


class _Wiring:
    """Whether an op takes in one trace what it takes in the other, whatever was put in between or taken out."""

    def __init__(self, a: Trace, b: Trace, found: Alignment) -> None:
        self._one, self._two = a.tables.nodes, b.tables.nodes
        pairs = [pair for pair in (*found.ops, *found.sources) if MISSING not in pair]
        self._there = dict(pairs)
        self._here = {other: mine for mine, other in pairs}
        self._through: dict[tuple[bool, int], frozenset[int]] = {}

    def agrees(self, mine: int, other: int) -> bool:
        before, after = self._one.parents[mine], self._two.parents[other]
        if len(before) != len(after):
            # An argument more shows among the arguments; a loose end here says no more.
            return True
        return all(self._is_same(old, new) for old, new in zip(before, after, strict=True))

    def _is_same(self, old: int, new: int) -> bool:
        if self._there.get(old) == new:
            return True
        if old in self._there and new in self._here:
            # What gives back its input is that input: dropout in evaluation.
            one, two = self._one, self._two
            same_before = _kept(one, old) == _kept(one, self._here[new])
            return same_before or _kept(two, new) == _kept(two, self._there[old])
        ways = self._behind(old, is_new=False), self._behind(new, is_new=True)
        return not ways[0].isdisjoint(ways[1]) or not all(ways)

    def _behind(self, node: int, *, is_new: bool) -> frozenset[int]:
        """The nearest nodes above, or the node itself, that both traces have; in rows of the second."""
        known = self._through.get((is_new, node))
        if known is not None:
            return known
        nodes, paired = (self._two, self._here) if is_new else (self._one, self._there)
        found: set[int] = set()
        left, seen = [node], {node}
        while left:
            at = left.pop()
            if at in paired:
                found.add(at if is_new else self._there[at])
                continue
            above = [parent for parent in nodes.parents[at] if parent not in seen]
            seen.update(above)
            left.extend(above)
        self._through[is_new, node] = frozenset(found)
        return self._through[is_new, node]


def _kept(nodes: Nodes, node: int) -> int:
    """The node whose very tensor this one is."""
    while nodes.flags[node] & IDENTITY and nodes.parents[node]:
        node = nodes.parents[node][0]
    return node


def _described(op: Op) -> str:
    return f"{op.function} {_size(op)}" if op.kind == OP else _size(op)


def _words(op: Op, aspects: tuple[Aspect, ...]) -> str:
    """What of it changed."""
    words = [op.function] if "function" in aspects else []
    words += [_size(op)] if {"shape", "dtype"} & set(aspects) else []
    words += [f"({arguments_of(op.trace, op.node)})"] if "arguments" in aspects else []
    words += [f"from {', '.join(parent.label for parent in op.parents)}"] if "inputs" in aspects else []
    return " ".join(words)


def _size(op: Op) -> str:
    return _shaped(op.shape, op.dtype)


def _shaped(shape: Any, dtype: str | None) -> str:
    return f"{dtype} {list(shape)}" if shape is not None else f"{dtype or 'a value'}"


def line(source: Source | None) -> str:
    """A place in the code, with what stands there where the file is at hand."""
    if source is None:
        return ""
    return f"{source}: {source.text}" if source.text else str(source)


def _modules(a: Trace, b: Trace, pairs: Iterable[Pair]) -> Iterator[Change]:
    moves: dict[str, str] = {}
    for mine, other in pairs:
        old = a.tables.modules[mine] if mine != MISSING else None
        new = b.tables.modules[other] if other != MISSING else None
        if old is None and new is not None:
            address = new.addresses[0]
            yield Change("new", "module", address, address, "", after=new.class_name)
        elif new is None and old is not None:
            address = old.addresses[0]
            yield Change("gone", "module", address, address, address, before=old.class_name)
        elif old is not None and new is not None:
            was, address = old.addresses[0], new.addresses[0]
            words = old.class_name, new.class_name
            if words[0] != words[1]:
                yield Change("changed", "module", address, address, was, ("class",), *words)
            elif address not in old.addresses and was not in new.addresses:
                moves[was] = address
                if not _follows(was, address, moves):
                    yield Change("moved", "module", address, address, was, (), words[0])


def _follows(was: str, address: str, moves: dict[str, str]) -> bool:
    """Whether it only went along with the module it stands in."""
    upper, _, name = was.rpartition(".") if was != ROOT else ("", "", "")
    now, _, new_name = address.rpartition(".")
    return name == new_name and moves.get(upper or ROOT) == (now or ROOT)


def _parameters(a: Trace, b: Trace, pairs: Iterable[Pair]) -> Iterator[Change]:
    """Moves of parameters are those of their modules and are not told again."""
    for mine, other in pairs:
        old = a.tables.parameters[mine] if mine != MISSING else None
        new = b.tables.parameters[other] if other != MISSING else None
        row = new or old
        if row is None:
            continue
        kind: Kind = "buffer" if row.is_buffer else "parameter"
        address = row.addresses[0]
        if old is None:
            yield Change("new", kind, address, address, "", after=_shaped(row.shape, row.dtype))
        elif new is None:
            yield Change("gone", kind, address, address, address, before=_shaped(row.shape, row.dtype))
        else:
            aspects: list[Aspect] = ["shape"] if old.shape != new.shape else []
            aspects += ["dtype"] if old.dtype != new.dtype else []
            if aspects:
                words = _shaped(old.shape, old.dtype), _shaped(new.shape, new.dtype)
                yield Change("changed", kind, address, address, old.addresses[0], tuple(aspects), *words)


def _outputs(a: Trace, b: Trace) -> Iterator[Change]:
    """Outputs that only one of the two has, by path; what changed in others is said of the ops that made them."""
    for path, mine, other in by_path(a.tables.outputs, b.tables.outputs):
        site = output_site(path)
        if mine == MISSING:
            yield Change("new", "output", site, site, "", after=_size(Op(b, other)))
        elif other == MISSING:
            yield Change("gone", "output", site, site, site, before=_size(Op(a, mine)))


def output_site(path: str) -> str:
    """The site of an output of the model.

    >>> output_site(""), output_site("logits")
    ('.', '.@out.logits')
    """
    return f"{ROOT}@out.{path}" if path else ROOT
