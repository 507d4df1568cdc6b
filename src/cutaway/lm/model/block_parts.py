"""The parts of a block: what it adds to the residual stream, and where its heads or units are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cutaway.lm.model.feed_forward_units import find_units
from cutaway.lm.model.parts import Contribution, Heads
from cutaway.lm.model.wiring import LINEAR, Wiring, is_linear, linear_input, linear_operand, site_out, weight_of

_FUSED = "scaled_dot_product_attention"
_MIXING = frozenset({"conv1d", "conv2d", "cumsum", "cumprod", "fft", "rfft", "logcumsumexp", _FUSED})
"""Functions that mix positions."""


@dataclass(frozen=True, slots=True)
class Join:
    """An addition to the residual stream."""

    node: int
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True, slots=True)
class Joins:
    """All additions to the residual stream in one block, in order."""

    joins: tuple[Join, ...]
    is_residual: bool


def find_joins(wiring: Wiring, call: int, start: int, end: int) -> Joins:
    """What a block adds to the stream between two nodes.

    A join is an addition on every path between the two nodes. Its terms are the stream after the previous join, and
    contributions. Contributions that are first added to each other count separately.
    """
    passed = _dominators(wiring, start, end)
    joins: list[Join] = []
    stream, is_residual, last = start, True, start
    for node in passed:
        terms = _terms(wiring, node, {stream, last, *passed})
        if len(terms) < 2:
            last = node
            continue
        stream_terms = [term for term in terms if wiring.same_numbers(term) in (stream, last) or term in (stream, last)]
        others = [term for term in terms if term not in stream_terms]
        # With a norm in the stream (BERT), this term is the output of the norm, `last`, and not the stream itself.
        direct = [term for term in stream_terms if wiring.same_numbers(term) == wiring.same_numbers(stream)]
        if len(stream_terms) != 1 or not others:
            last = node
            continue
        is_residual = is_residual and bool(direct)
        joins.append(Join(node, tuple(_contribution(wiring, call, term, last) for term in others)))
        stream = last = node
    return Joins(tuple(joins), is_residual and bool(joins) and wiring.same_numbers(end) == stream)


def nearest_linear(wiring: Wiring, node: int, *, ends: set[int]) -> int | None:
    """The last linear op on the way to a node; None if one of `ends` comes first."""
    return next(_linears(wiring, node, ends), None)


def _linears(wiring: Wiring, node: int, ends: set[int], *, width: int | None = None) -> Iterator[int]:
    """The last linear ops on each path to a node, latest first; only those with outputs of this width, if given.

    Others, such as gates or expert weights, are passed over.
    """
    seen = {node}
    front = [node]
    while front:
        each = max(front)
        front.remove(each)
        if is_linear(wiring, each) and (width is None or (wiring.shape(each) or (0,))[-1] == width):
            yield each
            continue
        for parent in wiring.parents(each):
            if parent not in seen and parent not in ends and wiring.is_float(parent) and not wiring.is_weight(parent):
                seen.add(parent)
                front.append(parent)


def _dominators(wiring: Wiring, start: int, end: int) -> list[int]:
    """The nodes on every path from `start` to `end`, in order, without `start`."""
    between = sorted(node for node in {*wiring.ancestors(end), end} if node > start or node == start)
    reached: dict[int, int] = {start: 1}
    ways: dict[int, list[int]] = {}
    for node in between:
        if node == start:
            continue
        parents = [parent for parent in wiring.parents(node) if parent in reached]
        if parents:
            ways[node] = parents
            reached[node] = sum(reached[parent] for parent in parents)
    if end not in reached:
        return []
    onward: dict[int, int] = {end: 1}
    for node in sorted(reached, reverse=True):
        for parent in ways.get(node, ()):
            onward[parent] = onward.get(parent, 0) + onward.get(node, 0)
    # A node lies on every path if as many paths lead through it as there are. Python integers do not overflow.
    total = reached[end]
    return [node for node in sorted(reached) if node != start and reached[node] * onward.get(node, 0) == total]


def _terms(wiring: Wiring, node: int, stops: set[int]) -> list[int]:
    """The terms of a sum: nested additions of values of the same shape are expanded, up to the stream."""
    terms: list[int] = []
    stack = [node]
    while stack:
        each = stack.pop()
        plain = wiring.same_numbers(each)
        is_stop = each != node and (each in stops or plain in stops)
        parents = wiring.parents(plain)
        is_sum = (
            wiring.name(plain) in ("add", "iadd") and len(parents) == 2 and not _has_adapter(wiring, parents, stops)
        )
        if is_sum and not is_stop and all(wiring.shape(parent) == wiring.shape(plain) for parent in parents):
            stack.extend(reversed(parents))
        else:
            terms.append(plain if plain in stops else each)
    return terms


def _has_adapter(wiring: Wiring, terms: Sequence[int], stops: set[int]) -> bool:
    """Whether one term is a linear op and the other also depends on its input: an adapter (LoRA) beside it."""
    for term, other in (terms, terms[::-1]):
        plain = wiring.same_numbers(term)
        if plain not in stops and is_linear(wiring, plain) and linear_operand(wiring, plain) in wiring.ancestors(other):
            return True
    return False


def _contribution(wiring: Wiring, call: int, node: int, stream: int) -> Contribution:
    inside = {each for each in (*wiring.ancestors(node), node) if _is_inside(wiring, call, each)}
    inside -= wiring.ancestors(stream) | {stream}
    site = site_out(wiring, node, within=call)
    weighing = _attention(wiring, inside)
    if weighing is not None:
        return Contribution("attention", site, heads=_heads(wiring, call, node, weighing, inside))
    if any(_mixes(wiring, each) for each in inside):
        return Contribution("other", site)
    d = (wiring.shape(node) or (0,))[-1]
    # Gates and routers are linear maps as well, but not as wide as the stream.
    downs = [*_linears(wiring, node, {stream}, width=d)] or [*_linears(wiring, node, {stream})][:1]
    inputs = [linear_operand(wiring, each) for each in downs]
    downs = [each for each in downs if not any(i in wiring.ancestors(linear_operand(wiring, each)) for i in inputs)]
    if not downs or not any(is_linear(wiring, each) for each in inside - {downs[0]}):
        return Contribution("other", site)
    if len({weight_of(wiring, each) for each in downs}) > 1:  # experts that are separate modules
        return Contribution("mlp", site)
    return Contribution("mlp", site, units=find_units(wiring, downs[0], inside))


def _is_inside(wiring: Wiring, call: int, node: int) -> bool:
    return bool(wiring.name(node)) and call in wiring.calls_around(node)


def _mixes(wiring: Wiring, node: int) -> bool:
    """Whether an op mixes positions: by its function, or as a product of two activations."""
    name = wiring.name(node)
    if name in _MIXING and wiring.is_float(node):
        return True
    if name not in LINEAR:
        return False
    return not any(wiring.is_weight(parent) for parent in wiring.parents(node))


def _attention(wiring: Wiring, inside: set[int]) -> int | None:
    """The attention op: fused, or a softmax followed by a product of two activations."""
    for node in sorted(inside):
        if wiring.name(node) == _FUSED:
            return node
    for node in sorted(inside):
        if wiring.name(node) == "softmax":
            for other in sorted(inside):
                # The softmax of a router is not followed by a product of two activations.
                is_product = wiring.name(other) in ("matmul", "bmm", "baddbmm", "einsum") and _mixes(wiring, other)
                if is_product and node in wiring.ancestors(other):
                    return node
    return None


def _heads(wiring: Wiring, call: int, node: int, op: int, inside: set[int]) -> Heads:
    is_fused = wiring.name(op) == _FUSED
    after = [each for each in sorted(inside) if op in wiring.ancestors(each)]
    out = next((each for each in after if is_linear(wiring, each)), None)
    shape = wiring.shape(op) or (0, 0, 0, 0)
    n_heads = shape[1] if len(shape) == 4 else 1
    width = 0
    mixed = None
    if out is not None:
        mixed = linear_operand(wiring, out)
        width = (wiring.shape(mixed) or (0,))[-1]
    head_dim = shape[-1] if is_fused else width // max(n_heads, 1)
    sources = list(wiring.parents(op)) if is_fused else [op]
    is_cross = _attends_elsewhere(wiring, call, sources, inside)
    return Heads(
        op=str(wiring.trace.names.site(op)),
        is_fused=is_fused,
        mixed=None if out is None else linear_input(wiring, out),
        out=None if out is None else wiring.address_of(out),
        n_heads=n_heads,
        head_dim=head_dim,
        is_cross=is_cross,
    )


def _attends_elsewhere(wiring: Wiring, call: int, sources: list[int], inside: set[int]) -> bool:
    """Whether attention reads a second input of the block that is as wide as the stream: cross-attention."""
    given = wiring.rows[call].inputs
    streams = [node for _, node in given if wiring.is_float(node) and len(wiring.shape(node) or ()) == 3]
    width = (wiring.shape(streams[0]) or (0,))[-1] if streams else 0
    others = {node for node in streams[1:] if node != streams[0] and (wiring.shape(node) or (0,))[-1] == width}
    if not others:
        return False
    computed_from = set(sources) | {each for source in sources for each in wiring.ancestors(source)}
    taken = {parent for each in computed_from & inside for parent in wiring.parents(each)}
    return bool(taken & others)
