"""The rule of reshapes: splits and merges factors, and restores factors that were split before."""

from __future__ import annotations

import itertools
import operator

from cutaway.core.units.calls import Call, InferenceState, Shape
from cutaway.core.units.factors import (
    OPEN,
    POSITION,
    SAMPLE,
    SCRAMBLED,
    UNIT,
    Dim,
    Dims,
    Factor,
    merge_parts,
    size_of,
)


def reshape(call: Call, dims: Dims, shape: Shape) -> Dims:
    """The dimensions of `value.reshape(shape)`."""
    if tuple(size_of(dim) for dim in dims) == tuple(shape):
        return dims
    # Sizes of 0 divide everything, so the factors cannot be told apart.
    if 0 in shape:
        return tuple(call.new(size, OPEN) for size in shape)
    flat = [factor for dim in dims for factor in dim if factor.size != 1]
    targets = _distribute(call, flat[::-1], shape)
    ones = _ones(dims, shape)
    for place, is_behind, factor in ones:
        _place_one(targets, shape, place, is_behind, factor)
    done = tuple(merge_parts(target) for target in targets)
    _record_splits(call.state, dims, done)
    return done


def _distribute(call: Call, waiting: list[Factor], shape: Shape) -> list[list[Factor]]:
    """Distributes the factors (the last one first) over the dimensions of the new shape, split where needed."""
    targets: list[list[Factor]] = [[] for _ in shape]
    number, left = 0, shape[0] if shape else 1
    while number < len(shape):
        if left == 1:
            number += 1
            left = shape[number] if number < len(shape) else 1
            continue
        factor = waiting.pop()
        if left % factor.size == 0:
            targets[number].append(factor)
            left //= factor.size
        elif factor.size % left == 0:
            first, rest = factor.cut(left)
            targets[number].append(first)
            waiting.append(rest)
            left = 1
        else:
            number, left = _regroup(call, targets, waiting, shape, number, left, factor)
    return targets


def _regroup(
    call: Call,
    targets: list[list[Factor]],
    waiting: list[Factor],
    shape: Shape,
    number: int,
    left: int,
    factor: Factor,
) -> tuple[int, int]:
    """If no split fits (6·2 → 4·3), all factors and dimensions until their sizes agree form one group."""
    group, sizes, first = [factor], [left], number
    while size_of(group) != _product(sizes):
        if size_of(group) < _product(sizes):
            group.append(waiting.pop())
        else:
            number += 1
            sizes.append(shape[number])
    roles = {each.role for each in group}
    if roles == {UNIT}:
        origin = call.state.origin()
        made = [Factor(size, UNIT, {origin: (order,)}, group) for order, size in enumerate(sizes)]
    elif UNIT not in roles and SCRAMBLED not in roles:
        role = roles.pop() if len(roles) == 1 else POSITION
        made = [Factor(size, role, None, group) for size in sizes]
    elif SCRAMBLED in roles:
        made = [Factor(size, SCRAMBLED, None, group) for size in sizes]
    else:
        call.is_contradictory = True
        made = [Factor(size, OPEN, None, group) for size in sizes]
    for target, each in zip(targets[first : number + 1], made, strict=True):
        if each.size != 1:
            target.append(each)
    return number, 1


def _product(sizes: list[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _ones(dims: Dims, shape: Shape) -> list[tuple[int, bool, Factor]]:
    """The factors of size 1, each with the number of elements before it and whether it stays after what precedes it.

    It does inside a dimension, and if what follows is merged and not split: `(T, 1·H, d)` as `(T·1, H·d)`.
    """
    ends = dict(itertools.pairwise(itertools.accumulate(shape, operator.mul, initial=1)))
    borders = set(itertools.accumulate(map(size_of, dims), operator.mul, initial=1))
    found: list[tuple[int, bool, Factor]] = []
    before = 1
    for dim in dims:
        leads = True
        end = before * size_of(dim)
        for factor in dim:
            if factor.size == 1:
                is_kept = len(dim) > 1 and ends.get(before) == end
                is_whole = before > 1 and ends.get(before) in borders and not is_kept
                found.append((before, not leads or is_whole, factor))
            else:
                leads = False
            before *= factor.size
    return found


def _place_one(targets: list[list[Factor]], shape: Shape, place: int, is_behind: bool, factor: Factor) -> None:
    """Moves a factor of size 1 to the nearest dimension of size 1.

    If there is none, samples stay before what followed them (`(1, H, T, d)` as `(1·H, T, d)`), or after what led their
    dimension; units are dropped.
    """
    before, best = 1, None
    for number, size in enumerate(shape):
        if size == 1 and not targets[number]:
            distance = abs(place.bit_length() - before.bit_length()) if place != before else 0
            if best is None or distance < best[0]:
                best = (distance, number)
        before *= size
    if best is not None and (factor.role == UNIT or best[0] == 0):
        targets[best[1]].append(factor)
    elif factor.role in (SAMPLE, OPEN):
        before = 1
        for number, size in enumerate(shape):
            is_end = is_behind and before * size == place
            if size != 1 and (is_end or before * size > place >= before):
                targets[number].insert(0 if before == place else len(targets[number]), factor)
                return
            before *= size


def _record_splits(state: InferenceState, before: Dims, after: Dims) -> None:
    """Records dimensions of merged units and positions that this reshape splits."""
    for dim in before:
        kins = kins_of(dim)
        if len(kins) > 1 and len({factor.role for factor in dim} - {SAMPLE}) > 1:
            inside = {factor.kin for factor in dim}
            homes = [
                number
                for number, target in enumerate(after)
                for factor in target
                if factor.size != 1 and factor.kin in inside
            ]
            if len(set(homes)) > 1:
                state.split_dims.add(kins)


def kins_of(dim: Dim) -> tuple[int, ...]:
    """Identifies a merged dimension through products and elementwise operations."""
    return tuple(factor.kin for factor in dim if factor.size != 1)
