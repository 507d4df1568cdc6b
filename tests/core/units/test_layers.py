"""Functions that fix units: which dimension of the result, and of the weights, counts them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.graph.op import Op

Axes = tuple[int, ...]


def r(*shape: int) -> Tensor:
    return torch.randn(*shape)


def named(value: Any) -> str:
    """Part of the name of a case: the numbers of a tensor are other ones in each process."""
    if isinstance(value, Tensor):
        return "x".join(map(str, value.shape))
    return type(value).__name__ if isinstance(value, nn.Module) else str(value)


def marked(layer: Any, k: int) -> Any:
    """A layer whose output unit k stays 1 whatever it reads, and all others 0."""
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.bias[k] = 1
    return layer


LAYERS: list[Any] = [
    (nn.Conv1d(3, 7, 5), r(2, 3, 13), (1,), (0,), {"weight": (0,), "bias": (0,)}),
    (nn.Conv2d(3, 7, 5), r(2, 3, 13, 11), (1,), (0,), {"weight": (0,), "bias": (0,)}),
    (nn.Conv3d(3, 7, 2), r(2, 3, 5, 13, 11), (1,), (0,), {"weight": (0,), "bias": (0,)}),
    (nn.Conv1d(3, 7, 5), r(3, 13), (0,), (), {"weight": (0,), "bias": (0,)}),
    (nn.Conv2d(3, 7, 5), r(3, 13, 11), (0,), (), {"weight": (0,), "bias": (0,)}),
    (nn.Conv3d(3, 7, 2), r(3, 5, 13, 11), (0,), (), {"weight": (0,), "bias": (0,)}),
    (nn.Conv2d(6, 10, 5, groups=2), r(2, 6, 13, 11), (1,), (0,), {"weight": (0,), "bias": (0,)}),
    (nn.ConvTranspose1d(3, 7, 5), r(2, 3, 13), (1,), (0,), {"weight": (1,), "bias": (0,)}),
    (nn.ConvTranspose2d(3, 7, 5), r(2, 3, 13, 11), (1,), (0,), {"weight": (1,), "bias": (0,)}),
    (nn.ConvTranspose3d(3, 7, 2), r(2, 3, 5, 13, 11), (1,), (0,), {"weight": (1,), "bias": (0,)}),
    (nn.ConvTranspose2d(3, 7, 5), r(3, 13, 11), (0,), (), {"weight": (1,), "bias": (0,)}),
    (nn.Linear(3, 7), r(3), (0,), (), {"weight": (0,), "bias": (0,)}),
    (nn.Linear(3, 7), r(2, 3), (1,), (0,), {"weight": (0,), "bias": (0,)}),
    (nn.Linear(3, 7), r(2, 5, 11, 3), (3,), (0,), {"weight": (0,), "bias": (0,)}),
    (nn.LazyLinear(7), r(2, 3), (1,), (0,), {}),
]


@pytest.mark.parametrize(("layer", "x", "units", "samples", "weights"), LAYERS, ids=named)
def test_layers_fix_units_and_their_weights_know_the_rows(
    layer: Any, x: Tensor, units: Axes, samples: Axes, weights: dict[str, Axes]
) -> None:
    with torch.no_grad():
        layer(x)
        op = cutaway.trace(marked(layer, 3), x).outputs[0]
    layout = op.unit_layout
    assert (layout.units, layout.samples, layout.source) == (units, samples, "producers")
    numbers = [layout.unit(op.value, k) for k in range(layout.n_units)]
    assert [bool((unit == 1).all()) for unit in numbers] == [k == 3 for k in range(len(numbers))]
    for name, axes in weights.items():
        weight = op.trace.parameters[name].unit_layout
        assert (weight.units, weight.n_units) == (axes, layout.n_units)
    assert op.trace.inputs[0].unit_layout.source == "consumers"


def test_a_unit_of_a_grouped_transposed_convolution_is_a_group_and_a_column() -> None:
    layer = nn.ConvTranspose2d(6, 10, 1, groups=2)
    x = r(2, 6, 5, 3)
    op = cutaway.trace(layer, x).outputs[0]
    weight = op.trace.parameters["weight"].unit_layout
    assert (op.unit_layout.units, weight.split, weight.units) == ((1,), ((2, 3), (5,), (1,), (1,)), (0, 2))
    for k in range(10):
        with torch.no_grad():
            changed = layer.weight.clone()
            group, column = divmod(k, 5)
            changed[3 * group : 3 * group + 3, column] += 1
            assert torch.equal(weight.unit(changed, k), changed[3 * group : 3 * group + 3, column])
            moved = F.conv_transpose2d(x, changed, layer.bias, groups=2) != op.value
        assert moved.any(dim=(0, 2, 3)).nonzero().flatten().tolist() == [k]


def _one(layer: nn.Module, *args: Any, **kwargs: Any) -> Op:
    return cutaway.trace(layer.eval(), *args, **kwargs).outputs[0]


def test_embeddings_fix_the_last_dimension_and_keep_the_places_of_their_indices() -> None:
    index = torch.randint(0, 5, (2, 11))
    for forward in (
        lambda m, i: m.table(i),
        lambda m, i: F.embedding(i, m.table.weight),
        lambda m, i: torch.embedding(m.table.weight, i),
        lambda m, i: F.embedding(input=i, weight=m.table.weight, padding_idx=0),
    ):
        op = _one(Fn(forward, table=nn.Embedding(5, 7)), index)
        assert (op.unit_layout.units, op.unit_layout.samples, op.unit_layout.tokens) == ((2,), (0,), (1,))
        weight = op.trace.parameters["table.weight"]
        assert weight.unit_layout.units == (1,)
        assert torch.equal(op.unit_layout.unit(op.value, 3), weight.value[index][..., 3])


def test_indices_have_no_units() -> None:
    op = _one(nn.Embedding(5, 7), torch.randint(0, 5, (2, 11)))
    assert op.trace.inputs[0].unit_layout.source == "refused"


def test_bags_and_one_hot() -> None:
    bag = _one(nn.EmbeddingBag(5, 7), torch.randint(0, 5, (2, 11)))
    assert (bag.unit_layout.units, bag.unit_layout.samples) == ((1,), (0,))
    bag = _one(nn.EmbeddingBag(5, 7), torch.randint(0, 5, (11,)), torch.tensor([0, 3, 4]))
    assert (bag.unit_layout.units, bag.unit_layout.n_units) == ((1,), 7)
    hot = _one(Fn(lambda _, i: F.one_hot(i, 13).float()), torch.randint(0, 5, (2, 11)))
    assert (hot.unit_layout.units, hot.unit_layout.samples, hot.unit_layout.n_units) == ((2,), (0,), 13)


def test_bilinear_layers_read_both_inputs() -> None:
    op = _one(nn.Bilinear(3, 5, 7), r(2, 3), r(2, 5))
    assert (op.unit_layout.units, op.unit_layout.samples) == ((1,), (0,))
    assert [each.unit_layout.units for each in op.trace.inputs] == [(1,), (1,)]
    assert op.trace.parameters["weight"].unit_layout.units == (0,)


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.BatchNorm1d(7), r(2, 7)),
        (nn.BatchNorm1d(7), r(2, 7, 5)),
        (nn.BatchNorm2d(7), r(2, 7, 5, 3)),
        (nn.BatchNorm3d(7), r(2, 7, 5, 3, 11)),
        (nn.GroupNorm(1, 7), r(2, 7, 5, 3)),
        (nn.InstanceNorm2d(7, affine=True), r(2, 7, 5, 3)),
        (nn.SyncBatchNorm(7), r(2, 7, 5, 3)),
    ],
    ids=named,
)
def test_norms_of_channels_fix_dimension_one(layer: nn.Module, x: Tensor) -> None:
    op = _one(layer, x)
    assert (op.unit_layout.units, op.unit_layout.samples) == ((1,), (0,))
    assert op.trace.parameters["weight"].unit_layout.units == (0,)
    assert op.trace.inputs[0].unit_layout.units == (1,)


@pytest.mark.parametrize("layer", [nn.LayerNorm(7), nn.RMSNorm(7)])
def test_norms_of_the_last_dimension_fix_it_where_nothing_else_did(layer: nn.Module) -> None:
    op = _one(layer, r(2, 5, 7))
    assert (op.unit_layout.units, op.unit_layout.samples) == ((2,), (0,))
    assert op.trace.parameters["weight"].unit_layout.units == (0,)


@pytest.mark.parametrize("layer", [nn.LayerNorm(3), nn.RMSNorm(3)])
def test_norms_of_heads_keep_the_units_of_the_projection(layer: nn.Module) -> None:
    model = Fn(lambda m, x: m.norm(m.linear(x).view(2, 5, 4, 3)), norm=layer, linear=nn.Linear(7, 12))
    assert _one(model, r(2, 5, 7)).unit_layout.units == (2, 3)


def test_layer_norms_over_several_dimensions_keep_what_there_is() -> None:
    model = nn.Sequential(nn.Conv2d(3, 7, 1), nn.LayerNorm([7, 11, 5]))
    op = _one(model, r(2, 3, 11, 5))
    assert (op.unit_layout.units, op.unit_layout.samples) == ((1,), (0,))


# recurrent layers


RECURRENT: list[Any] = [nn.LSTM, nn.GRU, nn.RNN]


@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_outputs_and_states_of_recurrent_layers(kind: Any, batch_first: bool, bidirectional: bool) -> None:
    layer = kind(3, 5, num_layers=2, batch_first=batch_first, bidirectional=bidirectional)
    trace = cutaway.trace(layer, r(2, 7, 3) if batch_first else r(7, 2, 3))
    output, *states = trace.outputs
    batch = 0 if batch_first else 1
    assert (output.unit_layout.units, output.unit_layout.samples) == ((2,), (batch,))
    assert output.unit_layout.tokens == (1 - batch,)
    assert output.unit_layout.n_units == 5 * (1 + bidirectional)
    assert [(state.unit_layout.units, state.unit_layout.samples) for state in states] == [((2,), (1,))] * len(states)
    assert trace.inputs[0].unit_layout.units == (2,)


@pytest.mark.parametrize(("kind", "gates"), zip(RECURRENT, [4, 3, 1], strict=True))
def test_a_hidden_unit_is_its_row_in_every_gate(kind: Any, gates: int) -> None:
    layer = kind(3, 5)
    trace = cutaway.trace(layer, r(7, 2, 3))
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0"):
        weight = trace.parameters[name]
        rows = [2, 7, 12, 17][:gates]
        assert weight.unit_layout.n_units == 5
        wanted = weight.value[rows]
        assert torch.equal(weight.unit_layout.unit(weight.value, 2).reshape(wanted.shape), wanted)


def test_an_unbatched_recurrent_layer_has_no_samples() -> None:
    output = cutaway.trace(nn.LSTM(3, 5), r(7, 3)).outputs[0]
    assert (output.unit_layout.units, output.unit_layout.samples) == ((1,), ())


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTMCell, 4), (nn.GRUCell, 3), (nn.RNNCell, 1)])
def test_cells(kind: Any, gates: int) -> None:
    trace = cutaway.trace(kind(3, 5), r(2, 3))
    assert {(op.unit_layout.units, op.unit_layout.samples) for op in trace.outputs} == {((1,), (0,))}
    weight = trace.parameters["weight_ih"]
    assert torch.equal(weight.unit_layout.unit(weight.value, 1).reshape(gates, 3), weight.value[[1, 6, 11, 16][:gates]])


def test_packed_sequences_through_a_recurrent_layer() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([7, 4]), batch_first=True)
        output, state = self.gru(packed)
        return nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0], state

    output, state = cutaway.trace(Fn(forward, gru=nn.GRU(3, 5, batch_first=True)), r(2, 7, 3)).outputs
    assert (output.unit_layout.units, state.unit_layout.units) == ((2,), (2,))
    assert output.unit_layout.samples == ()


# attention as one op


@pytest.mark.parametrize("fast", [False, True])
def test_multi_head_attention(fast: bool) -> None:
    layer = nn.MultiheadAttention(12, 4, batch_first=True).eval()
    with torch.set_grad_enabled(not fast):
        trace = cutaway.trace(Fn(lambda m, x: m.layer(x, x, x), layer=layer), r(2, 5, 12))
    output, weights = trace.outputs
    assert (output.unit_layout.units, output.unit_layout.samples) == ((2,), (0,))
    assert weights.unit_layout.samples == (0,)
    assert any(op.function == "_native_multi_head_attention" for op in trace.ops) == fast


def test_a_sequence_first_attention_has_its_samples_in_dimension_one() -> None:
    output = cutaway.trace(Fn(lambda m, x: m.layer(x, x, x)[0], layer=nn.MultiheadAttention(12, 4)), r(5, 2, 12))
    layout = output.outputs[0].unit_layout
    assert (layout.units, layout.samples, layout.tokens) == ((2,), (1,), (0,))


def test_a_transformer_layer_as_one_op() -> None:
    layer = nn.TransformerEncoderLayer(12, 4, 7, batch_first=True).eval()
    with torch.no_grad():
        op = cutaway.trace(layer, r(2, 5, 12)).outputs[0]
    assert op.function == "_transformer_encoder_layer_fwd"
    assert (op.unit_layout.units, op.unit_layout.samples, op.unit_layout.tokens) == ((2,), (0,), (1,))


# quantized and grouped


def test_dynamically_quantized_linear_layers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 7)), {nn.Linear})
        op = cutaway.trace(model, r(2, 11, 3)).outputs[0]
    assert (op.unit_layout.units, op.unit_layout.samples, op.unit_layout.n_units) == ((2,), (0,), 7)


@pytest.mark.skipif(not hasattr(F, "grouped_mm"), reason="this torch has no grouped_mm")
def test_experts_by_a_grouped_product() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        offsets = torch.tensor([4, 8, 16], dtype=torch.int32)
        return F.grouped_mm(x.bfloat16(), self.experts.bfloat16(), offs=offsets)

    model = Fn(forward, experts=nn.Parameter(r(3, 8, 24)))
    op = cutaway.trace(model, r(16, 8)).outputs[0]
    assert (op.unit_layout.units, op.unit_layout.n_units) == ((1,), 24)
    assert op.trace.parameters["experts"].unit_layout.units == (0, 2)


CONV_TBC: Callable[..., Tensor] = torch.conv_tbc


def test_a_convolution_with_time_first() -> None:
    model = Fn(lambda m, x: CONV_TBC(x, m.weight, m.bias), weight=nn.Parameter(r(5, 3, 7)), bias=nn.Parameter(r(7)))
    op = cutaway.trace(model, r(11, 2, 3)).outputs[0]
    assert (op.unit_layout.units, op.unit_layout.samples) == ((2,), (1,))
    assert op.trace.parameters["weight"].unit_layout.units == (2,)
