"""Rules of functions that fix units: convolutions, linear layers, embeddings, norms, recurrent layers."""

from __future__ import annotations

from cutaway.core.units.calls import PARAMETER, Call, Value
from cutaway.core.units.factors import (
    NEUTRAL,
    OPEN,
    POSITION,
    SCRAMBLED,
    UNIT,
    Dim,
    Dims,
    Factor,
    Role,
    certain_factors,
    has_role,
    mix,
    size_of,
)
from cutaway.core.units.reshape import reshape


def without_units(dims: Dims) -> Dims:
    """The same dimensions with positions instead of units, because a layer has fixed other units.

    Rows that the data sorted become neutral: they take the role of the factors they are combined with.
    """
    return tuple(tuple(_units_to_position(factor) for factor in dim) for dim in dims)


def _units_to_position(factor: Factor) -> Factor:
    if factor.role not in (UNIT, SCRAMBLED):
        return factor
    role: Role = POSITION if factor.role == UNIT else NEUTRAL
    return Factor(factor.size, role, None, (factor,), factor.kin)


def as_positions(*dims: Dim) -> None:
    """Marks open factors as positions."""
    for dim in dims:
        for factor in certain_factors(dim):
            factor.add_neighbor_role(POSITION)


def _claim_parameter(call: Call, value: Value | None, *dims: int) -> None:
    if value is not None and value.n_dims > max(dims):
        call.state.claim(value, [factor for dim in dims for factor in value.dims[dim]])


# convolutions


def convolution(call: Call) -> Dims:
    n = len(call.value(1, "weight").shape) - 2
    return _convolve(call, n, is_transposed=False)


def transposed_convolution(call: Call) -> Dims:
    n = len(call.value(1, "weight").shape) - 2
    return _convolve(call, n, is_transposed=True)


def any_convolution(call: Call) -> Dims:
    n = len(call.value(1, "weight").shape) - 2
    return _convolve(call, n, is_transposed=bool(call.argument(6, "transposed", default=False)))


def _convolve(call: Call, n: int, *, is_transposed: bool) -> Dims:
    x, weight, bias = call.value(0, "input", "self"), call.value(1, "weight"), call.optional_value(2, "bias")
    channels = x.n_dims - n - 1
    call.state.claim(x, x.dims[channels])
    mix(*x.dims[channels:])
    as_positions(*x.dims[channels + 1 :])
    if is_transposed:
        # `conv_transpose2d` and `convolution` have `groups` in different places.
        groups = call.argument(6 if call.function.startswith("conv_") else 8, "groups", default=1)
        _claim_transposed(call, weight, groups if isinstance(groups, int) else 1)
    else:
        _claim_parameter(call, weight, 0)
    _claim_parameter(call, bias, 0)
    shape = call.shape
    spatial = [call.new(size, POSITION) for size in shape[channels + 1 :]]
    return (*without_units(x.dims[:channels]), *call.units(shape[channels]), *spatial)


def time_first_convolution(call: Call) -> Dims:
    """`conv_tbc`: time, samples, channels."""
    x, weight = call.value(0, "input", "self"), call.value(1, "weight")
    call.state.claim(x, x.dims[2])
    mix(x.dims[0], x.dims[2])
    as_positions(x.dims[0])
    _claim_parameter(call, weight, 2)
    _claim_parameter(call, call.optional_value(2, "bias"), 0)
    return (call.new(call.shape[0], POSITION), *without_units(x.dims[1:2]), *call.units(call.shape[2]))


def _claim_transposed(call: Call, weight: Value, groups: int) -> None:
    """Claims the output units of a transposed convolution: with groups, a unit is a group and a column."""
    rows = weight.dims[0]
    if groups > 1 and len(rows) == 1 and rows[0].size > groups:
        rows = (rows[0].cut(groups)[0],)
    call.state.claim(weight, [*(rows if groups > 1 else ()), *weight.dims[1]])


# last dimension


def linear(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    if x.n_dims == 0:
        return ()
    call.state.claim(x, x.dims[-1])
    mix(x.dims[-1])
    weight, bias = call.optional_value(1, "weight"), call.optional_value(2, "bias")
    is_vector = weight is not None and weight.n_dims == 1
    if not is_vector:
        _claim_parameter(call, weight, 0)
        _claim_parameter(call, bias, 0)
    leading = without_units(x.dims[: x.n_dims - 1])
    if len(call.shape) < x.n_dims:  # a 1-d weight leaves no dimension
        return leading
    return (*leading, *call.units(call.shape[-1]))


def dynamic_linear(call: Call) -> Dims:
    """A quantized linear layer: its weights are packed, so only its input is a tensor."""
    x = next(iter(call.tensors))
    call.state.claim(x, x.dims[-1])
    mix(x.dims[-1])
    return (*without_units(x.dims[:-1]), *call.units(call.shape[-1]))


def bilinear(call: Call) -> Dims:
    left, right = call.value(0, "input1"), call.value(1, "input2")
    for value in (left, right):
        call.state.claim(value, value.dims[-1])
        mix(value.dims[-1])
    _claim_parameter(call, call.optional_value(2, "weight"), 0)
    _claim_parameter(call, call.optional_value(3, "bias"), 0)
    leading = call.join_dims([left.dims[:-1], right.dims[:-1]], [left.shape[:-1], right.shape[:-1]], call.shape[:-1])
    return (*without_units(leading), *call.units(call.shape[-1]))


def embedding(call: Call) -> Dims:
    """`F.embedding` passes (index, weight), `torch.embedding` (weight, index): the index is the one without floats."""
    first, second = call.value(0, "input", "weight", "indices"), call.value(1, "weight", "indices", "input")
    weight, index = (first, second) if first.is_float else (second, first)
    _claim_parameter(call, weight, 1)
    if call.function.startswith("embedding_bag"):
        return (_bags(call, index), *call.units(call.shape[-1]))
    return (*index.dims, *call.units(call.shape[-1]))


def _bags(call: Call, index: Value) -> Dim:
    """One row per bag of indices; bags are rows of the index, or begin at the offsets."""
    n_bags = call.shape[0]
    offsets = call.optional_value(2, "offsets")
    if index.n_dims == 2:
        mix(index.dims[1])
        return index.dims[0]
    if offsets is not None and offsets.step > 0 and n_bags * offsets.step == index.shape[0]:
        bags, inside = reshape(call, index.dims, (n_bags, offsets.step))
        mix(inside)
        return bags
    mix(index.dims[0])
    return offsets.dims[0] if offsets is not None and offsets.shape == (n_bags,) else call.new(n_bags, NEUTRAL)


def one_hot(call: Call) -> Dims:
    index = call.value(0, "input", "self")
    return (*index.dims, *call.units(call.shape[-1]))


# norms


def channel_norm(call: Call) -> Dims:
    """Batch, group and instance norm: dimension 1 counts units, if it does not already."""
    x = call.value(0, "input", "self")
    weights = [value for value in call.tensors[1:] if value.n_dims == 1]
    for value in weights:
        if value.shape == x.shape[1:2]:
            _claim_parameter(call, value, 0)
    if x.n_dims < 2:
        return x.dims
    call.state.claim(x, x.dims[1])
    if has_role((x.dims[1],), UNIT):
        return x.dims
    call.is_layer = True
    return tuple(call.units(call.shape[1])[0] if d == 1 else without_units((dim,))[0] for d, dim in enumerate(x.dims))


def layer_norm(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    normalized = call.argument(1, "normalized_shape", default=())
    over = len(normalized) if isinstance(normalized, (tuple, list)) else 1
    if over != 1 or not x.n_dims:
        return x.dims
    call.state.claim(x, x.dims[-1])
    for value in call.tensors[1:]:
        _claim_parameter(call, value, 0)
    # In `(batch, position, head, width)`, a norm over the width keeps the units (2, 3).
    if has_role((x.dims[-1],), UNIT):
        return x.dims
    call.is_layer = True
    return (*without_units(x.dims[:-1]), *call.units(call.shape[-1]))


# recurrent layers


def recurrent(call: Call) -> list[Dims]:
    """lstm, gru and rnn as one op: outputs, then the last states."""
    x = call.value(0, "input")
    call.state.claim(x, x.dims[-1])
    mix(x.dims[-1])
    for value in call.tensors[1:]:
        if value.kind == PARAMETER:
            _claim_gates(call, value)
        elif value.is_float:
            call.state.claim(value, value.dims[-1])
    # `torch.lstm` takes (data, batch sizes, …) for a packed sequence; else `batch_first` is its last argument.
    is_packed = len(call.args) > 1 and isinstance(call.args[1], Value) and not call.args[1].is_float
    is_batch_first = not is_packed and call.args[-1] is True
    time = 0 if is_packed or x.n_dims == 2 or not is_batch_first else 1
    mix(x.dims[time])
    as_positions(x.dims[time])
    done: list[Dims] = []
    for number, shape in enumerate(call.shapes):
        if number == 0:
            done.append((*without_units(x.dims[:-1]), *call.units(shape[-1])))
        else:
            batch = x.dims[1 - time] if x.n_dims == 3 and len(shape) == 3 else None
            middle = [batch] if batch is not None else [call.new(size, OPEN) for size in shape[1:-1]]
            done.append((call.new(shape[0], POSITION), *middle, *call.units(shape[-1])))
    return done


def _claim_gates(call: Call, weight: Value) -> None:
    """Claims the rows (gate, hidden) of a recurrent weight: a hidden unit is its row in every gate."""
    hidden = _n_hidden(call)
    rows = weight.dims[0]
    if len(rows) == 1 and hidden and rows[0].size % hidden == 0 and rows[0].size > hidden:
        rows = (rows[0].cut(rows[0].size // hidden)[1],)
    call.state.claim(weight, rows)


def _n_hidden(call: Call) -> int:
    """Size of the hidden state."""
    states = [shape for shape in call.shapes[1:] if shape]
    return states[0][-1] if states else call.shape[-1]


def recurrent_cell(call: Call) -> list[Dims]:
    x = call.value(0, "input")
    call.state.claim(x, x.dims[-1])
    mix(x.dims[-1])
    states = [value for value in call.tensors[1:] if value.kind != PARAMETER]
    for state in states:
        call.state.claim(state, state.dims[-1])
        mix(state.dims[-1])
    for value in call.tensors[1:]:
        if value.kind == PARAMETER:
            _claim_gates(call, value)
    leading = [value.dims[:-1] for value in (x, *states)]
    joined = call.join_dims(leading, [v.shape[:-1] for v in (x, *states)], call.shape[:-1], (x, *states))
    return [(*without_units(joined), *call.units(shape[-1])) for shape in call.shapes]


# attention and transformer layers as one op


def native_attention(call: Call) -> list[Dims]:
    query, key = call.value(0, "query"), call.value(1, "key")
    for value in call.tensors[:3]:
        call.state.claim(value, value.dims[-1])
        mix(*value.dims[-2:])
        as_positions(value.dims[-2])
    done: list[Dims] = [(*query.dims[:-1], *call.units(call.shape[-1]))]
    for shape in call.shapes[1:]:
        scores = (*query.dims[:-1], key.dims[-2])
        is_whole = tuple(size_of(dim) for dim in scores) == shape
        done.append(scores if is_whole else tuple(call.new(size, OPEN) for size in shape))
    return done


def encoder_layer(call: Call) -> Dims:
    x = call.value(0, "src")
    call.state.claim(x, x.dims[-1])
    mix(*x.dims[-2:])
    as_positions(x.dims[-2])
    return (*without_units(x.dims[:-1]), *call.units(call.shape[-1]))


def grouped_matmul(call: Call) -> Dims:
    """Rows sorted by expert, each multiplied by the weight of its expert."""
    x, weight = call.value(0, "input", "self", "mat_a"), call.value(1, "mat_b", "mat2")
    call.state.claim(x, x.dims[-1])
    mix(x.dims[-1])
    if weight.n_dims == 3:
        _claim_parameter(call, weight, 0, 2)
    return (*without_units(x.dims[: len(call.shape) - 1]), *call.units(call.shape[-1]))
