"""Lists what is new, removed, changed or moved between two aligned traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cutaway.core.sites import ROOT
from cutaway.graph.control_flow.source import Source
from cutaway.graph.diff.align import Alignment, arguments_of
from cutaway.graph.diff.match import MISSING, Pair, by_path
from cutaway.graph.op import Op
from cutaway.graph.tables import INPUT, OP, maker
from cutaway.graph.trace import Trace
from cutaway.results.diff import Aspect, Change, Kind


def changes(a: Trace, b: Trace, found: Alignment) -> tuple[Change, ...]:
    """All structural differences: modules, parameters and buffers, inputs, ops in graph order, outputs."""
    return (
        *_modules(a, b, found.modules),
        *_parameters(a, b, found.parameters),
        *_ops(a, b, found, found.sources),
        *_ops(a, b, found, found.ops),
        *_outputs(a, b),
    )


def _ops(a: Trace, b: Trace, found: Alignment, pairs: Iterable[Pair]) -> Iterator[Change]:
    """Changes of ops, or of the inputs among the sources."""
    wiring = _Wiring(a, b, found)
    for mine, other in pairs:
        kinds = {a.tables.nodes.kind[mine]} if mine != MISSING else {b.tables.nodes.kind[other]}
        if not kinds <= {OP, INPUT}:
            continue
        kind: Kind = "op" if OP in kinds else "input"
        if mine == MISSING:
            op = Op(b, other)
            yield Change("new", kind, op.label, op.site, "", after=_describe(op), source=line(op.source))
        elif other == MISSING:
            op = Op(a, mine)
            yield Change("removed", kind, op.label, op.site, op.site, before=_describe(op), source=line(op.source))
        elif aspects := _aspects(a, b, mine, other, wiring):
            old, op = Op(a, mine), Op(b, other)
            words = _changed_text(old, aspects), _changed_text(op, aspects)
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
        found.append("arguments")  # arguments of different functions are not comparable
    if not wiring.agrees(mine, other):
        found.append("inputs")
    return tuple(found)


def _dtype(trace: Trace, node: int) -> str | None:
    """The dtype of a tensor; None for Python numbers, which not every trace saves."""
    meta = trace.tables.nodes.meta_of(node)
    return meta.dtype if meta else None


class _Wiring:
    """Compares the inputs of aligned ops, ignoring ops that were inserted or removed in between."""

    def __init__(self, a: Trace, b: Trace, found: Alignment) -> None:
        self._one, self._two = a.tables.nodes, b.tables.nodes
        pairs = [pair for pair in (*found.ops, *found.sources) if MISSING not in pair]
        self._there = dict(pairs)
        self._here = {other: mine for mine, other in pairs}
        self._through: dict[tuple[bool, int], frozenset[int]] = {}

    def agrees(self, mine: int, other: int) -> bool:
        before, after = self._one.parents[mine], self._two.parents[other]
        if len(before) != len(after):
            # A different number of inputs is reported as a change of arguments.
            return True
        return all(self._is_same(old, new) for old, new in zip(before, after, strict=True))

    def _is_same(self, old: int, new: int) -> bool:
        if self._there.get(old) == new:
            return True
        if old in self._there and new in self._here:
            # An op that returns its input unchanged counts as that input: dropout in eval mode.
            one, two = self._one, self._two
            same_before = maker(one, old) == maker(one, self._here[new])
            return same_before or maker(two, new) == maker(two, self._there[old])
        ways = self._shared_ancestors(old, is_new=False), self._shared_ancestors(new, is_new=True)
        return not ways[0].isdisjoint(ways[1]) or not all(ways)

    def _shared_ancestors(self, node: int, *, is_new: bool) -> frozenset[int]:
        """The node, or its nearest ancestors, that both traces have, as rows of the second."""
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


def _describe(op: Op) -> str:
    return f"{op.function} {_op_type_text(op)}" if op.kind == OP else _op_type_text(op)


def _changed_text(op: Op, aspects: tuple[Aspect, ...]) -> str:
    """A description of the changed aspects of an op."""
    words = [op.function] if "function" in aspects else []
    words += [_op_type_text(op)] if {"shape", "dtype"} & set(aspects) else []
    words += [f"({arguments_of(op.trace, op.node)})"] if "arguments" in aspects else []
    words += [f"from {', '.join(parent.label for parent in op.parents)}"] if "inputs" in aspects else []
    return " ".join(words)


def _op_type_text(op: Op) -> str:
    return _type_text(op.shape, op.dtype)


def _type_text(shape: Any, dtype: str | None) -> str:
    return f"{dtype} {list(shape)}" if shape is not None else f"{dtype or 'a value'}"


def line(source: Source | None) -> str:
    """A source line, with its text if the file is available."""
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
            yield Change("removed", "module", address, address, address, before=old.class_name)
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
    """Whether it only moved together with its parent module."""
    upper, _, name = was.rpartition(".") if was != ROOT else ("", "", "")
    now, _, new_name = address.rpartition(".")
    return name == new_name and moves.get(upper or ROOT) == (now or ROOT)


def _parameters(a: Trace, b: Trace, pairs: Iterable[Pair]) -> Iterator[Change]:
    """Changes of parameters and buffers, without moves, which are those of their modules."""
    for mine, other in pairs:
        old = a.tables.parameters[mine] if mine != MISSING else None
        new = b.tables.parameters[other] if other != MISSING else None
        row = new or old
        if row is None:
            continue
        kind: Kind = "buffer" if row.is_buffer else "parameter"
        address = row.addresses[0]
        if old is None:
            yield Change("new", kind, address, address, "", after=_type_text(row.shape, row.dtype))
        elif new is None:
            yield Change("removed", kind, address, address, address, before=_type_text(row.shape, row.dtype))
        else:
            aspects: list[Aspect] = ["shape"] if old.shape != new.shape else []
            aspects += ["dtype"] if old.dtype != new.dtype else []
            if aspects:
                words = _type_text(old.shape, old.dtype), _type_text(new.shape, new.dtype)
                yield Change("changed", kind, address, address, old.addresses[0], tuple(aspects), *words)


def _outputs(a: Trace, b: Trace) -> Iterator[Change]:
    """Outputs that only one of the two traces has, by path; other changes are those of the ops that made them."""
    for path, mine, other in by_path(a.tables.outputs, b.tables.outputs):
        site = output_site(path)
        if mine == MISSING:
            yield Change("new", "output", site, site, "", after=_op_type_text(Op(b, other)))
        elif other == MISSING:
            yield Change("removed", "output", site, site, site, before=_op_type_text(Op(a, mine)))


def output_site(path: str) -> str:
    """The site of an output of the model.

    >>> output_site(""), output_site("logits")
    ('.', '.@out.logits')
    """
    return f"{ROOT}@out.{path}" if path else ROOT
