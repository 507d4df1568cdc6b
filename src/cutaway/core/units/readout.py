"""Computes the `UnitLayout` of a value from its factors and from the layers that read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cutaway.core.units.calls import CONSTANT, InferenceState, Value
from cutaway.core.units.factors import (
    NEUTRAL,
    OPEN,
    POSITION,
    SAMPLE,
    SCRAMBLED,
    UNIT,
    Claim,
    Dim,
    Factor,
    Role,
)
from cutaway.core.units.layout import Source, UnitLayout
from cutaway.core.units.reshape import kins_of


def layout_of(
    state: InferenceState,
    value: Value,
    later_units: Sequence[Factor] = (),
    is_owner: Callable[[int], bool] | None = None,
) -> UnitLayout:
    """The layout of a value.

    Args:
        later_units: factors that a later layer reads as units, for a value whose own units are gone.
        is_owner: for a parameter, whether an op ran in the module it belongs to; that decides if readers differ.
    """
    if value.has_units:
        plain = _cached_layout(state, value, _is_unit, "producers")
        if plain is not None:
            return plain
    if _is_scrambled(value):
        return _refusal(value, "it was selected or sorted by the data, so unit #k is a different unit in each row")
    if value.has_units:
        return _layout_by_units(state, value)
    claimed = _layout_by_claims(state, value, is_owner)
    if claimed is not None:
        return claimed
    alone = _layout_by_elimination(value)
    if alone is not None:
        return alone
    if value.had_units and not value.is_contradictory and not value.ruleless:
        if later_units:
            return _layout(value, lambda factor: any(factor.is_same(each) for each in later_units), "consumers")
        return _layout(value, lambda factor: False, "whole")
    return _refusal(value, _refusal_reason(value))


def _is_unit(factor: Factor) -> bool:
    return factor.role == UNIT


def _cached_layout(
    state: InferenceState, value: Value, is_unit: Callable[[Factor], bool], source: Source
) -> UnitLayout | None:
    """The layout of a value whose dimensions each count one thing; cached, because many values share one."""
    key: list[object] = [source, value.shape]
    units: list[Factor] = []
    for dim in value.dims:
        if not dim:
            key.append(None)
            continue
        factor = dim[0]
        if len(dim) > 1 or factor.role == SCRAMBLED:
            return None
        if is_unit(factor):
            units.append(factor)
            key.append(UNIT)
        else:
            key.append((_kind(factor, is_unit), factor.head.is_input))
    if len(units) != 1:
        shared = set.intersection(*(set(factor.origins) for factor in units)) if units else set()
        if not shared:
            return None
        origin = min(shared)
        key.append(tuple(sorted(range(len(units)), key=lambda place: units[place].origins[origin])))
    layout = state.plain.get(tuple(key))
    if layout is None:
        layout = state.plain[tuple(key)] = _layout(value, is_unit, source)
    return layout


def _is_scrambled(value: Value) -> bool:
    """Whether the data sorted units; a slot selected by a router is a position of what its experts compute."""
    scrambled = [factor for dim in value.dims for factor in dim if factor.role == SCRAMBLED]
    origins = {origin for dim in value.dims for factor in dim if factor.role == UNIT for origin in factor.origins}
    return any(not origins or not factor.origins.keys().isdisjoint(origins) for factor in scrambled)


def _refusal_reason(value: Value) -> str:
    if value.ruleless:
        return f"{value.ruleless!r} has no rule for units"
    if value.is_contradictory:
        return "the values it was computed from have their units in different dimensions"
    if not value.is_float:
        return "it contains integers or booleans, and no layer reads units from it"
    return "no layer computes it and none reads it"


# units of its own


def _layout_by_units(state: InferenceState, value: Value) -> UnitLayout:
    shared = _shared_origins(value)
    if shared or _n_unit_factors(value) < 2:
        return _layout(value, _is_unit, "producers", state)
    units = [factor for dim in value.dims for factor in dim if factor.role == UNIT]
    # After an outer product, the layer that reads the value decides which of the two counts.
    for read_by_layer in state.reads.get(value.number, ()):
        chosen = [factor for factor in read_by_layer if factor.role == UNIT]
        if chosen and len(chosen) < len(units):
            return _layout(value, lambda factor: any(factor is each for each in chosen), "consumers", state)
    return _layout(value, _is_unit, "producers", state)


def _n_unit_factors(value: Value) -> int:
    return sum(factor.role == UNIT for dim in value.dims for factor in dim)


def _shared_origins(value: Value) -> set[int]:
    origins = [set(factor.origins) for dim in value.dims for factor in dim if factor.role == UNIT]
    return set.intersection(*origins) if origins else set()


# what others say


def _layout_by_claims(state: InferenceState, value: Value, is_owner: Callable[[int], bool] | None) -> UnitLayout | None:
    """Decides by the claims on open factors: first layers that read the value itself, then others, then neighbors."""
    claims: dict[int, Claim] = {}
    is_whole = True
    for dim in value.dims:
        for factor in dim:
            head = factor.head
            if head.cuts or head.wholes:
                is_whole = False
                for each in (*factor.with_parts(), *factor.with_wholes()):
                    claims.update((id(claim), claim) for claim in each.claims)
            elif head.claims:
                claims.update((id(claim), claim) for claim in head.claims)
    if not claims:
        return None
    if is_whole and len(claims) == 1:
        (claim,) = claims.values()
        if claim.is_strong:
            plain = _cached_layout(state, value, lambda factor: claim in factor.head.claims, "consumers")
            if plain is not None:
                return plain
    tiers: dict[int, list[Claim]] = {}
    for claim in claims.values():
        tiers.setdefault(_rank(value, claim), []).append(claim)
    for _, tier in sorted(tiers.items()):
        layouts = _layouts_of_claims(value, tier)
        if len(layouts) > 1 and is_owner is not None:
            layouts = _layouts_of_claims(value, [claim for claim in tier if is_owner(claim.reader)]) or layouts
        if len(layouts) > 1 or (layouts and _is_disputed(tier)):
            return _refusal(value, "the layers that read it use different dimensions as units")
        if layouts:
            return next(iter(layouts))
    return None


def _rank(value: Value, claim: Claim) -> int:
    """Priority of a claim: layers that read the value itself, other layers, neighbors; last, those after a layer."""
    if claim.is_strong and claim.value == value.number:
        return 0
    is_far = claim.is_behind and not value.had_units
    return 1 + (not claim.is_strong) + 2 * is_far


def _is_disputed(claims: Sequence[Claim]) -> bool:
    """Whether some neighbors say that a factor counts units and others that it counts positions."""
    return any(
        POSITION in factor.head.neighbor_roles for claim in claims if not claim.is_strong for factor in claim.factors
    )


def _layouts_of_claims(value: Value, claims: Sequence[Claim]) -> set[UnitLayout]:
    """The layouts that all claims of one rank imply. A layer says which factors are units and that no others are;
    neighbors each know only the factors they were combined with, so their claims are pooled."""
    if not claims:
        return set()
    answers = (
        [_layout_of_claims(value, [claim]) for claim in claims]
        if claims[0].is_strong
        else [_layout_of_claims(value, claims)]
    )
    return {layout for layout in answers if layout.units}


def _layout_of_claims(value: Value, claims: Sequence[Claim]) -> UnitLayout:
    is_direct = claims[0].is_strong and claims[0].value == value.number
    return _layout(
        value, lambda factor: any(_is_claimed(factor, claim) for claim in claims), "consumers", is_exact=is_direct
    )


def _is_claimed(factor: Factor, claim: Claim) -> bool:
    return any(claim in each.claims for each in factor.with_wholes())


def _layout_by_elimination(value: Value) -> UnitLayout | None:
    """A float value with known samples and one other factor: that factor counts units, unless it is a position."""
    factors = [factor for dim in value.dims for factor in dim]
    rest = [factor for factor in factors if factor.role != SAMPLE and factor.size != 1]
    is_open = len(rest) == 1 and rest[0].role == OPEN and POSITION not in rest[0].head.neighbor_roles
    if not (value.is_float and is_open and len(rest) < len(factors)):
        return None
    if (
        value.kind == CONSTANT
        or value.ruleless
        or value.had_units
        or not any(factor.role == SAMPLE for factor in factors)
    ):
        return None
    return _layout(value, lambda factor: factor is rest[0], "elimination")


# axes


def _layout(
    value: Value,
    is_unit: Callable[[Factor], bool],
    source: Source,
    state: InferenceState | None = None,
    *,
    is_exact: bool = False,
) -> UnitLayout:
    """Turns factors into axes.

    Args:
        is_exact: whether all unit factors count, even those that share a dimension with positions.
    """
    dims = [_split_factors(dim, is_unit) for dim in value.dims]
    kinds = [[_kind(factor, is_unit) for factor in dim] for dim in dims]
    has_pure = any(UNIT in kind and POSITION not in kind for kind in kinds)
    runs: list[_Run] = []
    split: list[tuple[int, ...]] = []
    for number, (dim, kind) in enumerate(zip(dims, kinds, strict=True)):
        if is_exact:
            chosen = {place for place, each in enumerate(kind) if each == UNIT}
        else:
            chosen = _units_of(dim, kind, has_pure, state, value)
        own = _runs(number, dim, kind, chosen)
        runs.extend(own)
        split.append(tuple(run.size for run in own))
    samples, tokens = (
        tuple(axis for axis, run in enumerate(runs) if run.counts == counted) for counted in (SAMPLE, _TOKEN)
    )
    return UnitLayout(tuple(split), _unit_order(runs), samples, tokens, source)


_TOKEN: Final = "token"
"""A position that is still a dimension of an input."""


@dataclass(slots=True)
class _Run:
    """Adjacent factors of one dimension that count the same thing: one axis of the layout."""

    dim: int
    first: Factor
    size: int
    counts: str


def _runs(number: int, dim: Sequence[Factor], kinds: Sequence[Role], chosen: set[int]) -> list[_Run]:
    runs: list[_Run] = []
    has_tokens = any(kind == POSITION and factor.head.is_input for factor, kind in zip(dim, kinds, strict=True))
    for place, (factor, kind) in enumerate(zip(dim, kinds, strict=True)):
        if factor.size == 1 and len(dim) > 1 and kind != SAMPLE:
            continue
        if place in chosen:
            counts: str = UNIT
        elif kind == SAMPLE:
            counts = SAMPLE
        else:
            # Repeated tokens are still tokens.
            counts = _TOKEN if factor.head.is_input or (has_tokens and kind == NEUTRAL) else POSITION
        if runs and runs[-1].counts == counts:
            runs[-1].size *= factor.size
        else:
            runs.append(_Run(number, factor, factor.size, counts))
    return runs or [_Run(number, _NOTHING, 1, POSITION)]


_NOTHING: Final = Factor(1, POSITION)


def _split_factors(dim: Dim, is_unit: Callable[[Factor], bool]) -> list[Factor]:
    """The factors of a dimension, each split as far as its readers split it."""
    done: list[Factor] = []
    for factor in dim:
        done.extend(_leaves(factor, is_unit))
    return done


def _leaves(factor: Factor, is_unit: Callable[[Factor], bool]) -> Iterator[Factor]:
    if factor.role not in (OPEN, NEUTRAL) or is_unit(factor):
        yield factor
        return
    for parts in factor.head.cuts.values():
        if any(is_unit(each) for part in parts for each in part.with_parts()):
            for part in parts:
                yield from _leaves(part, is_unit)
            return
    yield factor


def _kind(factor: Factor, is_unit: Callable[[Factor], bool]) -> Role:
    if is_unit(factor):
        return UNIT
    if factor.role in (UNIT, SCRAMBLED):
        return POSITION
    if factor.role == OPEN:
        neighbor_roles = factor.head.neighbor_roles
        return SAMPLE if SAMPLE in neighbor_roles and POSITION not in neighbor_roles else POSITION
    if factor.role == NEUTRAL:
        neighbor_roles = factor.head.neighbor_roles
        return SAMPLE if SAMPLE in neighbor_roles and POSITION not in neighbor_roles else NEUTRAL
    return factor.role


def _units_of(
    dim: Sequence[Factor], kinds: Sequence[Role], has_pure: bool, state: InferenceState | None, value: Value
) -> set[int]:
    """The places in a dimension that count units."""
    if UNIT not in kinds:
        return set()
    if POSITION not in kinds:
        return {place for place, kind in enumerate(kinds) if kind in (UNIT, NEUTRAL)}
    # Multi-query attention folds tokens × heads into one dimension: its scores have a unit for each head only.
    # For a value with units, see whether a later op splits the dimension again; for an open one, its readers did.
    is_apart = state is not None and kins_of(tuple(dim)) in state.split_dims and not _is_read_whole(state, value, dim)
    if is_apart or (state is None and not has_pure):
        return {place for place, kind in enumerate(kinds) if kind == UNIT}
    return set() if has_pure else {place for place, kind in enumerate(kinds) if kind != SAMPLE}


def _is_read_whole(state: InferenceState, value: Value, dim: Sequence[Factor]) -> bool:
    wanted = {id(factor) for factor in dim if factor.role != SAMPLE}
    return any(wanted <= {id(factor) for factor in factors} for factors in state.reads.get(value.number, ()))


def _unit_order(runs: Sequence[_Run]) -> tuple[int, ...]:
    """Unit axes by the order in an origin that all share; without one, and within a dimension, in dimension order."""
    units = [(axis, run) for axis, run in enumerate(runs) if run.counts == UNIT]
    if len(units) < 2:
        return tuple(axis for axis, _ in units)
    shared = set.intersection(*(set(run.first.origins) for _, run in units))
    if not shared:
        return tuple(axis for axis, _ in units)
    origin = min(shared)
    by_dim: dict[int, list[int]] = {}
    order: dict[int, tuple[int, ...]] = {}
    for axis, run in units:
        by_dim.setdefault(run.dim, []).append(axis)
        order.setdefault(run.dim, run.first.origins[origin])
    return tuple(axis for dim in sorted(by_dim, key=order.__getitem__) for axis in by_dim[dim])


def _refusal(value: Value, reason: str) -> UnitLayout:
    return replace(_layout(value, lambda factor: False, "refused"), reason=reason)
