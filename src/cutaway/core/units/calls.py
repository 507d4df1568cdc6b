"""Values and calls as the rules see them: shapes, factors and arguments, without data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from cutaway.core.units.factors import (
    NEUTRAL,
    OPEN,
    POSITION,
    SAMPLE,
    SCRAMBLED,
    UNIT,
    Claim,
    Dim,
    Dims,
    Factor,
    Origins,
    Role,
    certain_factors,
    refine_pairs,
)
from cutaway.core.units.layout import UnitLayout

Shape = tuple[int, ...]
ACTIVATION: Final = "activation"
PARAMETER: Final = "parameter"
"""A parameter, or the result of carrying operations on one."""
CONSTANT: Final = "constant"
"""A buffer, a constant, or a value computed only from these: it never decides."""
Kind = Literal["activation", "parameter", "constant"]


@dataclass(eq=False, slots=True)
class Value:
    """One tensor of the graph."""

    number: int
    shape: Shape
    dims: Dims
    is_float: bool = True
    is_mask: bool = False
    """Whether it is boolean: as an index it is a mask, and indexes as many dimensions as it has."""
    kind: Kind = "activation"
    has_units: bool = False
    had_units: bool = False
    """Whether it, or a value it was computed from, has units."""
    is_contradictory: bool = False
    """Whether the values it was computed from disagree about a dimension."""
    ruleless: str = ""
    """The function that computed it, if there is no rule for that function."""
    step: int = 0
    """For `arange`: the step, from which `embedding_bag` infers where its bags begin."""

    @property
    def n_dims(self) -> int:
        return len(self.shape)

    def fits(self, dims: Dims) -> bool:
        """Whether the factors of each dimension multiply to its size."""
        if len(dims) != len(self.shape):
            return False
        for dim, size in zip(dims, self.shape, strict=True):
            product = 1
            for factor in dim:
                product *= factor.size
            if product != size:
                return False
        return True

    def settle(self, dims: Dims) -> None:
        """Sets its factors."""
        self.dims = dims
        for dim in dims:
            for factor in dim:
                if factor.role == UNIT:
                    self.has_units = self.had_units = True
                    return


@dataclass(eq=False, slots=True)
class InferenceState:
    """What a walk over a graph collects besides the factors themselves."""

    reads: dict[int, list[Dim]] = field(default_factory=dict)
    """Value → the factors that each layer reading it takes as units."""
    reduced: list[Factor] = field(default_factory=list)
    """Factors that a reduction removed."""
    split_dims: set[tuple[int, ...]] = field(default_factory=set)
    """The kins of dimensions that merged units and positions and were split again."""
    plain: dict[tuple[object, ...], UnitLayout] = field(default_factory=dict)
    """Cache of layouts for values whose dimensions each count one thing; many values share one."""
    n_origins: int = 0
    reader: int = -1
    """The op whose rule is being applied."""

    def origin(self) -> int:
        self.n_origins += 1
        return self.n_origins

    def claim(self, value: Value, factors: Sequence[Factor], *, is_strong: bool = True) -> None:
        """Records that a reader takes these factors of a value as units."""
        for factor in certain_factors(factors):
            if factor.role == SAMPLE:
                factor.mix()  # what a layer reads as units cannot count samples
        chosen = tuple(factor for factor in factors if factor.role not in (SAMPLE, SCRAMBLED))
        if not chosen:
            return
        claim = Claim(value.number, chosen, is_strong=is_strong, is_behind=value.had_units, reader=self.reader)
        if is_strong:
            self.reads.setdefault(value.number, []).append(chosen)
        for factor in chosen:
            if factor.role in (OPEN, NEUTRAL):
                factor.add_claim(claim)


class Call:
    """One call of a function: its arguments with a `Value` for each tensor, and the shapes of its results."""

    __slots__ = ("args", "function", "is_contradictory", "is_layer", "kwargs", "shapes", "state", "tensors")

    def __init__(
        self,
        state: InferenceState,
        function: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        shapes: Sequence[Shape],
        tensors: Sequence[Value],
    ) -> None:
        self.state, self.function = state, function
        self.args, self.kwargs = args, kwargs
        self.shapes = shapes
        self.tensors = tensors
        """All tensors in the arguments, in order."""
        self.is_contradictory = False
        self.is_layer = False
        """Whether it fixed units: then its result is an activation, even if computed only from parameters."""

    @property
    def shape(self) -> Shape:
        return self.shapes[0]

    def argument(self, place: int, *names: str, default: Any = None) -> Any:
        """One argument, passed by name or by position."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return self.args[place] if place < len(self.args) else default

    def value(self, place: int, *names: str) -> Value:
        """An argument that must be a tensor."""
        argument = self.argument(place, *names)
        if not isinstance(argument, Value):
            raise TypeError(f"argument {place} of {self.function} is not a tensor")
        return argument

    def optional_value(self, place: int, *names: str) -> Value | None:
        argument = self.argument(place, *names)
        return argument if isinstance(argument, Value) else None

    def step(self) -> int:
        """The step of `arange`; 0 for other functions."""
        step = self.argument(2, "step", default=1) if self.function == "arange" else 0
        return step if type(step) is int else 0

    def rest(self, place: int, *names: str) -> Any:
        """Several numbers, passed one by one or together: `view(2, 3)` or `view((2, 3))`."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        rest = self.args[place:]
        return rest[0] if len(rest) == 1 and not isinstance(rest[0], int) else tuple(rest)

    # making factors

    def new(self, size: int, role: Role, *sources: Factor, origins: Origins | None = None) -> Dim:
        """A dimension with one new factor; with none for size 1, unless it counts units or samples."""
        # A batch of one sample still has samples, and `Conv2d(3, 1)` has one unit.
        if size == 1 and role not in (UNIT, SAMPLE):
            return ()
        made = Factor(size, role, origins, sources)
        # A longer or shorter range of tokens still counts tokens.
        for factor in sources:
            made.is_input |= factor.head.is_input
            made.is_parameter |= factor.head.is_parameter
        return (made,)

    def units(self, *sizes: int) -> list[Dim]:
        """Dimensions of new units with one origin, in order."""
        origin = self.state.origin()
        self.is_layer = True
        return [(Factor(size, UNIT, {origin: (order,)}),) for order, size in enumerate(sizes)]

    def like(self, dim: Dim, size: int) -> Dim:
        """One new factor with the role and order of a dimension, for a slice of it: the indices change, what it counts
        does not. A slice of a dimension that merges samples with others gives rows that belong to no sample."""
        factors = [factor for factor in dim if factor.size != 1] or list(dim)
        if not factors or (len(factors) > 1 and any(factor.role == SAMPLE for factor in factors)):
            return self.new(size, NEUTRAL)
        return self.merge(factors, size)

    def merge(self, factors: Sequence[Factor], size: int) -> Dim:
        """One new factor with the common role of several."""
        roles = {factor.role for factor in factors}
        role = _common_role(roles)
        if role is None:
            self.is_contradictory = True
            role = OPEN
        return self.new(size, role, *factors, origins=merge_origins(factors))

    # joining

    def join(self, values: Sequence[Value], shape: Shape) -> Dims:
        """The dimensions of an elementwise result; values are aligned at the last dimension."""
        first = values[0]
        # Most elementwise ops combine values that carry the same factors.
        if first.shape == shape and all(value.dims == first.dims for value in values):
            return first.dims
        return self.join_dims([value.dims for value in values], [value.shape for value in values], shape, values)

    def join_dims(
        self, all_dims: Sequence[Dims], shapes: Sequence[Shape], shape: Shape, values: Sequence[Value] = ()
    ) -> Dims:
        weak: dict[int, list[Factor]] = {}
        done: list[Dim] = []
        was_contradictory, self.is_contradictory = self.is_contradictory, False
        for back in range(len(shape), 0, -1):
            dim: Dim | None = None
            for number, (dims, sizes) in enumerate(zip(all_dims, shapes, strict=True)):
                if back <= len(sizes) and sizes[-back] == shape[-back]:
                    mine = dims[-back]
                    dim = mine if dim is None else self._join(dim, mine, number, weak)
            done.append(dim or ())
        if self.is_contradictory:
            beside = {id(factor) for factors in weak.values() for factor in factors}
            return tuple(
                _reopen(dim) if _was_in(place, all_dims, beside) else dim for place, dim in enumerate(done, -len(done))
            )
        self.is_contradictory = was_contradictory
        for number, factors in weak.items():
            if values:
                self.state.claim(values[max(number, 0)], factors, is_strong=False)
        return tuple(done)

    def _join(self, a: Dim, b: Dim, number: int, weak: dict[int, list[Factor]]) -> Dim:
        if a == b:
            return a
        ones = _ones(a), _ones(b)
        joined = list(ones[0] if len(ones[0]) >= len(ones[1]) else ones[1])
        for place, pair in enumerate(zip(*ones, strict=False)):
            joined[place] = self.meet(*pair, number, weak)
        for one, other in refine_pairs(a, b):
            joined.append(self._pair(one, other, number, weak))
        return tuple(joined)

    def _pair(self, one: Dim, other: Dim, number: int, weak: dict[int, list[Factor]]) -> Factor:
        if len(one) == len(other) == 1:
            return self.meet(one[0], other[0], number, weak)
        everyone = (*one, *other)
        size = 1
        for factor in one:
            size *= factor.size
        roles = {factor.role for factor in everyone}
        if roles == {UNIT}:
            return Factor(size, UNIT, {self.state.origin(): ()}, everyone)
        if UNIT not in roles and SCRAMBLED not in roles:
            return Factor(size, _common_role(roles) or POSITION, None, everyone)
        self.is_contradictory = True
        return Factor(size, OPEN, None, everyone)

    def meet(self, f: Factor, g: Factor, number: int, weak: dict[int, list[Factor]]) -> Factor:
        """The factor that results from two factors of equal size in the same dimension."""
        if f.is_same(g):
            return f
        if SCRAMBLED in (f.role, g.role):
            for factor in (f, g):
                if factor.role in (SAMPLE, POSITION):
                    return factor
            return Factor(f.size, SCRAMBLED, merge_origins((f, g)), (f, g))
        for mine, others, side in ((f, g, -1), (g, f, number)):
            if mine.role in (NEUTRAL, OPEN) and (others.role not in (NEUTRAL, OPEN) or mine.role == NEUTRAL):
                if others.role == UNIT:
                    weak.setdefault(side, []).append(mine)
                elif others.role in (NEUTRAL, OPEN):
                    mine.link(others)
                else:
                    mine.add_neighbor_role(others.role)
                    if others.role == SAMPLE:
                        mix_indexed(mine, others)
                return others
        if f.role == g.role == OPEN:
            f.link(g)
            return f
        if f.role == g.role == UNIT:
            return Factor(f.size, UNIT, {**g.origins, **f.origins}, (f, g), f.kin)
        if f.role == g.role == SAMPLE:
            return f
        for factor in (f, g):
            if factor.role == SAMPLE:
                factor.mix()  # what is combined with positions or units cannot count samples
        if UNIT not in (f.role, g.role):
            return f if f.role == SAMPLE or g.role != SAMPLE else g
        self.is_contradictory = True
        return Factor(f.size, OPEN, None, (f, g))


def _ones(dim: Dim) -> list[Factor]:
    """The factors of size 1 that a merged dimension keeps."""
    return [factor for factor in dim if factor.size == 1 and (len(dim) == 1 or factor.role in (UNIT, SAMPLE))]


def _was_in(place: int, all_dims: Sequence[Dims], factors: set[int]) -> bool:
    """Whether one of these factors was in a dimension, counted from the last one."""
    return any(id(factor) in factors for dims in all_dims if -place <= len(dims) for factor in dims[place])


def _reopen(dim: Dim) -> Dim:
    """Reopens factors that are units in only one of the values, if values have units in different dimensions."""
    return tuple(factor if factor.role != UNIT else Factor(factor.size, OPEN, None, (factor,)) for factor in dim)


def values_in(tree: Any) -> Iterator[Value]:
    """Yields the values in nested tuples, lists, dicts and slices, in order."""
    if isinstance(tree, Value):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from values_in(item)
    elif isinstance(tree, dict):
        yield from values_in(tuple(tree.values()))
    elif isinstance(tree, slice):
        yield from values_in((tree.start, tree.stop, tree.step))


def mix_indexed(own: Factor, samples: Factor) -> None:
    """Records that a dimension indexed by a parameter cannot count samples: their number would be fixed."""
    if own.size != 1 and own.head.is_parameter:
        samples.mix()


def merge_origins(factors: Sequence[Factor]) -> Origins:
    """The origins of all units among some factors; of several orders in one origin, the first."""
    origins: Origins = {}
    for factor in factors:
        for origin, order in factor.origins.items():
            origins[origin] = min(origins.get(origin, order), order)
    return origins


def _common_role(roles: set[Role]) -> Role | None:
    """The common role of several factors; None if they conflict."""
    # Open and neutral factors take the role of those they are combined with.
    certain = roles - {OPEN, NEUTRAL}
    if SCRAMBLED in certain:
        return SCRAMBLED
    if len(certain) == 1:
        return next(iter(certain))
    if not certain:
        return OPEN if OPEN in roles else NEUTRAL
    if certain == {UNIT, POSITION}:
        return UNIT  # a part of a flattened convolution output still counts units
    return POSITION if certain == {SAMPLE, POSITION} else None
