"""Factors: each dimension is an ordered list of factors, each of which counts units, samples or positions.

`(B·H, T, d)` is `[samples · units, positions, units]`. Operations that carry a dimension pass the same `Factor` object
on, so a value deep in a network still knows which input or layer its dimensions came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

Role = Literal["U", "S", "P", "N", "X", "?"]
UNIT: Final = "U"
SAMPLE: Final = "S"
POSITION: Final = "P"
NEUTRAL: Final = "N"
"""Created by repeating or stacking: takes the role of the factor it is combined with."""
SCRAMBLED: Final = "X"
"""Units in an order that depends on the data."""
OPEN: Final = "?"
"""Not known on its own: inputs, parameters, constants, results of functions without a rule."""

Origins = dict[int, tuple[int, ...]]
"""Origin (the op that fixed the units) → the place in the flat index of that op; a split adds a digit."""
Dim = tuple["Factor", ...]
Dims = tuple[Dim, ...]


class Claim:
    """What one reader says about a value: these factors are its units."""

    __slots__ = ("factors", "is_behind", "is_strong", "reader", "value")

    def __init__(self, value: int, factors: Dim, *, is_strong: bool, is_behind: bool, reader: int) -> None:
        self.value = value
        """The number of the value that was read."""
        self.factors = factors
        self.reader = reader
        """The number of the op that read it."""
        self.is_behind = is_behind
        """Whether a layer before the reader had fixed other units."""
        self.is_strong = is_strong
        """Whether a layer read it; a weak claim comes from an elementwise operation with units."""


_NO_CUTS: Final[Mapping[int, tuple[Factor, Factor]]] = MappingProxyType({})
_NO_ROLES: Final[frozenset[Role]] = frozenset()


class Factor:
    """A size and a role. Open factors in the same place are linked: what holds for one holds for the other."""

    __slots__ = (
        "_link",
        "claims",
        "cuts",
        "is_input",
        "is_mixed",
        "is_parameter",
        "kin",
        "neighbor_roles",
        "origins",
        "role",
        "size",
        "sources",
        "wholes",
    )

    def __init__(
        self, size: int, role: Role, origins: Origins | None = None, sources: Sequence[Factor] = (), kin: int = 0
    ) -> None:
        self.size = size
        self.role: Role = role
        self.origins: Origins = origins or {}
        self.sources = tuple(sources)
        """The factors from which slicing, joining or concatenating made this one."""
        self.kin = kin or id(self)
        """Equal for a factor and those a product derives from it: shows whether a merged dimension is split again."""
        self._link: Factor | None = None
        # Most factors need none of the following four, so they share one empty object.
        self.cuts: Mapping[int, tuple[Factor, Factor]] = _NO_CUTS
        """Size of the left part → the two parts. Splitting twice at the same place gives the same parts."""
        self.wholes: Sequence[tuple[Factor, int]] = ()
        """The factors that this is a part of, and where they were split."""
        self.claims: list[Claim] | tuple[()] = ()
        self.neighbor_roles: frozenset[Role] = _NO_ROLES
        """Roles of the factors that an open or neutral factor was combined with."""
        self.is_mixed = False
        """Whether the model computes across it, so that it cannot count samples."""
        self.is_input = False
        """Whether it is a dimension of an input, or part of one."""
        self.is_parameter = False
        """Whether it is a dimension of a parameter, or part of one."""

    def __repr__(self) -> str:
        return f"{self.role}{self.size}"

    @property
    def head(self) -> Factor:
        """The representative of all linked factors (union-find): splits, claims and flags are stored there."""
        factor = self
        while factor._link is not None:
            factor = factor._link
        if factor is not self:
            self._link = factor
        return factor

    def is_same(self, other: Factor) -> bool:
        return self.head is other.head

    def cut(self, left: int) -> tuple[Factor, Factor]:
        """Its two parts, the left one of the given size; the same two objects each time."""
        head = self.head
        parts = head.cuts.get(left)
        if parts is None:
            first = {origin: (*order, 0) for origin, order in head.origins.items()}
            second = {origin: (*order, 1) for origin, order in head.origins.items()}
            # Each part gets its own kin, to tell a whole from its part.
            parts = Factor(left, head.role, first), Factor(head.size // left, head.role, second)
            head.cuts = {**head.cuts, left: parts}
            for part in parts:
                part.wholes = ((head, left),)
                part.is_input = head.is_input
                part.is_mixed = head.is_mixed
                part.is_parameter = head.is_parameter
        return parts

    def link(self, other: Factor) -> None:
        """Links two factors: from now on they have the same head."""
        head, other_head = self.head, other.head
        if head is other_head or head.size != other_head.size:
            return
        other_head._link = head
        head.claims = [*head.claims, *other_head.claims]
        head.neighbor_roles |= other_head.neighbor_roles
        head.is_input |= other_head.is_input
        head.is_parameter |= other_head.is_parameter
        head.sources += other_head.sources
        head.wholes = (*head.wholes, *other_head.wholes)
        is_mixed, head.is_mixed = head.is_mixed or other_head.is_mixed, False
        if is_mixed:
            head.mix()
        for left, parts in other_head.cuts.items():
            if left in head.cuts:
                for part, twin in zip(head.cuts[left], parts, strict=True):
                    part.link(twin)
            else:
                head.cuts = {**head.cuts, left: parts}
                for part in parts:
                    part.head.wholes = (*part.head.wholes, (head, left))

    def mix(self) -> None:
        """Records that the model computes across it, and so across all factors it was made from."""
        waiting = [self]
        while waiting:
            factor = waiting.pop().head
            if not factor.is_mixed:  # if it is, so are all its sources
                factor.is_mixed = True
                waiting.extend(factor.sources)
                waiting.extend(whole for whole, _ in factor.wholes)

    def with_sources(self) -> Iterator[Factor]:
        """The heads of this factor and of all open ones it was made from: what readers say about it holds for them."""
        waiting, seen = [self.head], set[int]()
        while waiting:
            factor = waiting.pop().head
            if id(factor) not in seen and factor.role in (OPEN, NEUTRAL):
                seen.add(id(factor))
                yield factor
                waiting.extend(factor.sources)

    def add_neighbor_role(self, role: Role) -> None:
        """Records the role of a factor that an open one was combined with."""
        if self.role == SAMPLE and role != SAMPLE:
            self.mix()
        for factor in self.with_sources():
            factor.neighbor_roles |= {role}

    def add_claim(self, claim: Claim) -> None:
        """Records what a reader says about it."""
        head = self.head
        for factor in self.with_sources() if head.sources else (head,):
            factor.claims = factor.claims or []
            factor.claims.append(claim)

    def with_parts(self) -> Sequence[Factor]:
        """The heads of this factor and of all parts it was ever split into."""
        head = self.head
        if not head.cuts:
            return (head,)
        return _closure(head, lambda factor: [part for parts in factor.cuts.values() for part in parts])

    def with_wholes(self) -> Sequence[Factor]:
        """The heads of this factor and of all it is a part of."""
        head = self.head
        if not head.wholes:
            return (head,)
        return _closure(head, lambda factor: [whole for whole, _ in factor.wholes])


def _closure(start: Factor, neighbors: Callable[[Factor], Sequence[Factor]]) -> Sequence[Factor]:
    reached: dict[int, Factor] = {}
    waiting = [start]
    while waiting:
        factor = waiting.pop().head
        if id(factor) not in reached:
            reached[id(factor)] = factor
            waiting.extend(neighbors(factor))
    return tuple(reached.values())


def mix(*dims: Dim) -> None:
    """Records that the model computes across these dimensions."""
    for dim in dims:
        for factor in certain_factors(dim):
            factor.mix()


def certain_factors(dim: Sequence[Factor]) -> Sequence[Factor]:
    """The factors that certainly belong to a dimension: sizes do not tell where a reshape puts factors of size 1."""
    return dim if len(dim) < 2 else [factor for factor in dim if factor.size != 1]


def size_of(factors: Sequence[Factor]) -> int:
    """The size of a dimension with these factors."""
    size = 1
    for factor in factors:
        size *= factor.size
    return size


def has_role(dims: Dims, role: Role) -> bool:
    """Whether a dimension has a factor with this role."""
    return any(factor.role == role for dim in dims for factor in dim)


def merge_parts(factors: Sequence[Factor]) -> Dim:
    """Merges adjacent factors that are the two parts of one split."""
    done: list[Factor] = []
    for factor in factors:
        done.append(factor)
        while len(done) > 1:
            whole = _whole_of(done[-2], done[-1])
            if whole is None:
                break
            done[-2:] = [whole]
    return tuple(done)


def _whole_of(left: Factor, right: Factor) -> Factor | None:
    for whole, size in left.head.wholes:
        parts = whole.head.cuts.get(size)
        if parts is not None and parts[0].is_same(left) and parts[1].is_same(right):
            return whole.head
    return None


def refine_pairs(a: Dim, b: Dim) -> Iterator[tuple[Dim, Dim]]:
    """Splits two factor lists of one dimension so that they form pairs of equal size.

    If no split fits (6·2 with 4·3), a pair has several factors on each side.
    """
    left, right = [f for f in a if f.size != 1][::-1], [f for f in b if f.size != 1][::-1]
    while left and right:
        one, other = left.pop(), right.pop()
        if one.size == other.size:
            yield (one,), (other,)
        # A size of 0 would raise ZeroDivisionError.
        elif other.size and one.size % other.size == 0:
            first, rest = one.cut(other.size)
            left.append(rest)
            yield (first,), (other,)
        elif one.size and other.size % one.size == 0:
            first, rest = other.cut(one.size)
            right.append(rest)
            yield (one,), (first,)
        else:
            some, others = [one], [other]
            while size_of(some) != size_of(others):
                if size_of(some) < size_of(others):
                    some.append(left.pop())
                else:
                    others.append(right.pop())
            yield tuple(some), tuple(others)
