"""The general rule of products (matmul, einsum, attention), in einsum notation.

Letters in the result are kept, the others are summed over. A product with a parameter is a layer; a product of two
activations keeps the remaining units.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from cutaway.core.units.calls import ACTIVATION, CONSTANT, PARAMETER, Call, Value, mix_indexed
from cutaway.core.units.factors import (
    OPEN,
    POSITION,
    SAMPLE,
    UNIT,
    Dim,
    Dims,
    Factor,
    Origins,
    mix,
    size_of,
)

Operand = tuple[str, dict[str, Dim], Value]
"""The letters of a value, the factors of each letter, and the value."""


def contract(call: Call, operands: Sequence[tuple[Value, str]], result: str) -> Dims:
    """The dimensions of a product; each operand and the result have one letter per dimension."""
    first, *others = [_operand(value, letters) for value, letters in operands]
    if not others:
        _mix([first], result)
        return tuple(first[1].get(letter, ()) for letter in result)
    for number, other in enumerate(others):
        later = {letter for each in others[number + 1 :] for letter in each[0]}
        kept = [letter for letter in dict.fromkeys(first[0] + other[0]) if letter in result or letter in later]
        letters = result if number == len(others) - 1 else "".join(kept)
        first = _pair(call, first, other, letters)
    return tuple(first[1].get(letter, ()) for letter in result)


def _operand(value: Value, letters: str) -> Operand:
    dims: dict[str, Dim] = {}
    for letter, dim in zip(letters, value.dims, strict=True):
        dims.setdefault(letter, dim)
    return "".join(dims), dims, value


def _pair(call: Call, a: Operand, b: Operand, result: str) -> Operand:
    a, b = _without_broadcast(a, b), _without_broadcast(b, a)
    _mix([a, b], result)
    kinds = {a[2].kind, b[2].kind}
    if kinds == {PARAMETER, ACTIVATION}:
        parameter, activation = (a, b) if a[2].kind == PARAMETER else (b, a)
        dims = _with_parameter(call, parameter, activation, result)
    else:
        dims = _of_activations(call, a, b, result)
    made = Value(-1, tuple(size_of(dims[letter]) for letter in result), ())
    made.settle(tuple(dims[letter] for letter in result))
    made.kind = ACTIVATION if ACTIVATION in kinds else PARAMETER if PARAMETER in kinds else CONSTANT
    return "".join(dict.fromkeys(result)), dims, made


def _without_broadcast(operand: Operand, other: Operand) -> Operand:
    """An operand without the letters that are broadcast to the other one."""
    _, dims, value = operand
    kept = {letter: dim for letter, dim in dims.items() if size_of(dim) != 1 or size_of(other[1].get(letter, ())) == 1}
    return operand if len(kept) == len(dims) else ("".join(kept), kept, value)


def _mix(operands: Sequence[Operand], result: str) -> None:
    for letters, dims, _ in operands:
        mix(*(dims[letter] for letter in letters if letter not in result))


def _join_letter(call: Call, a: Operand, b: Operand, letter: str) -> Dim:
    """What a letter counts in the result; with grouped heads, the heads of the query, which has more."""
    mine, others = a[1].get(letter), b[1].get(letter)
    if mine is None or others is None:
        return mine or others or ()
    size, other = size_of(mine), size_of(others)
    if size != other:
        return mine if size > other else others
    return call.join_dims([(mine,), (others,)], [(size,), (size,)], (size,), [a[2], b[2]])[0]


def _of_activations(call: Call, a: Operand, b: Operand, result: str) -> dict[str, Dim]:
    dims = {letter: _join_letter(call, a, b, letter) for letter in result}
    shared = [letter for letter in result if letter in a[1] and letter in b[1]]
    of_a = [letter for letter in result if letter not in b[1] and _has_units(dims[letter])]
    of_b = [letter for letter in result if letter not in a[1] and _has_units(dims[letter])]
    shared = [letter for letter in shared if _has_units(dims[letter])]
    # An outer product has the units of both operands, with an origin each.
    groups = [(a, [*shared, *of_a])] if of_a or not of_b else []
    groups += [(b, [*shared, *of_b])] if of_b else []
    origins: dict[Factor, Origins] = {}
    for operand, letters in groups:
        origin = call.state.origin()
        ordered = _ordered_units(operand, letters, dims)
        for place, factor in enumerate(ordered):
            origins.setdefault(factor, {})[origin] = (place,)
    return {letter: tuple(_with_origins(factor, origins) for factor in dim) for letter, dim in dims.items()}


def _ordered_units(operand: Operand, letters: Sequence[str], dims: dict[str, Dim]) -> list[Factor]:
    """The unit factors of some letters, in the order of the operand."""
    letters = sorted(letters, key=lambda letter: operand[0].find(letter) if letter in operand[0] else 99)
    units = [
        (factor, dict(own.origins) if own is not None else {})
        for letter in letters
        for factor, own in _factor_pairs(dims[letter], operand[1].get(letter, ()))
        if factor.role == UNIT
    ]
    shared = set.intersection(*(set(origins) for _, origins in units)) if units else set()
    if shared:
        origin = min(shared)
        units.sort(key=lambda pair: pair[1][origin])
    return [factor for factor, _ in units]


def _factor_pairs(dim: Dim, own: Dim) -> list[tuple[Factor, Factor | None]]:
    """The factors of a joined letter, each with the operand's own factor at the same place."""
    if len(dim) == len(own):
        return list(zip(dim, own, strict=True))
    return [(factor, factor) for factor in dim]


def _with_origins(factor: Factor, origins: dict[Factor, Origins]) -> Factor:
    new = origins.get(factor)
    return factor if new is None else Factor(factor.size, UNIT, new, (factor,), factor.kin)


def _with_parameter(call: Call, parameter: Operand, activation: Operand, result: str) -> dict[str, Dim]:
    ours, theirs = parameter[1], activation[1]
    keeps = [letter for letter in result if letter not in ours and _has_units(theirs.get(letter, ()))]
    call.is_layer = True
    for letter in ours:
        for own, factor in itertools.product(ours[letter], theirs.get(letter, ())):
            if factor.role == SAMPLE:
                mix_indexed(own, factor)
    # Token mixing (`W @ x`) and queries with a table of relative positions: the activation's units stay.
    if keeps:
        return {
            letter: theirs[letter]
            if letter in theirs and letter not in ours
            else _positions(call, letter, ours, theirs)
            for letter in result
        }
    # All letters of the parameter, in its order: experts × width in `btc,eci->btei`. Letters that it shares with
    # positions (capsules, spectral weights, locally connected layers) are not units.
    chosen = [letter for letter in parameter[0] if letter in result and not _is_settled(theirs.get(letter, ()))]
    origin = call.state.origin()
    dims = {letter: theirs.get(letter, ()) for letter in result}
    for place, letter in enumerate(chosen):
        size = max(size_of(ours[letter]), size_of(theirs.get(letter, ())))
        dims[letter] = (Factor(size, UNIT, {origin: (place,)}),)
    call.state.claim(parameter[2], [factor for letter in chosen for factor in ours[letter]])
    read = [letter for letter in activation[0] if letter not in result and letter in ours]
    call.state.claim(activation[2], [factor for letter in read for factor in theirs[letter]])
    return {letter: _units_to_positions(call, dim) if letter not in chosen else dim for letter, dim in dims.items()}


def _positions(call: Call, letter: str, ours: dict[str, Dim], theirs: dict[str, Dim]) -> Dim:
    """A letter of the parameter, if the activation keeps its units: it counts positions."""
    own = theirs.get(letter)
    if own is not None and not _has_units(own):
        return own
    size = max(size_of(ours[letter]), size_of(own or ()))
    for factor in ours[letter]:
        factor.add_neighbor_role(POSITION)
    return call.new(size, POSITION)


def _is_settled(dim: Dim) -> bool:
    """Whether the activation already counts samples or positions with a letter."""
    return bool(dim) and all(factor.role in (SAMPLE, POSITION) for factor in dim)


def _units_to_positions(call: Call, dim: Dim) -> Dim:
    """Turns units of the activation that are not units of the product into positions."""
    return tuple(
        factor if factor.role != UNIT else Factor(factor.size, POSITION, None, (factor,), factor.kin) for factor in dim
    )


def _has_units(dim: Dim) -> bool:
    return any(factor.role == UNIT for factor in dim)


def is_open(dim: Dim) -> bool:
    return any(factor.role == OPEN for factor in dim)
