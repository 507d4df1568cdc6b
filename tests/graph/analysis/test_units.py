"""Units, samples and positions of whole models: order, parameters, readers that differ, merged dimensions."""

from __future__ import annotations

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


def _outputs(forward: Callable[..., Any], *args: Tensor, **modules: Any) -> tuple[Op, ...]:
    with torch.no_grad():
        return cutaway.trace(Fn(forward, **modules).eval(), *args).outputs


def _heads(x: Tensor, n: int) -> Tensor:
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def test_an_image_that_is_cut_into_patches_has_the_units_that_the_layer_reads() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        patches = x.view(2, 3, 3, 4, 3, 4).permute(0, 2, 4, 3, 5, 1).reshape(2, 9, 48)
        return m.linear(patches)

    image = _outputs(forward, r(2, 3, 12, 12), linear=nn.Linear(48, 7))[0].trace.inputs[0]
    assert (image.unit_layout.source, image.unit_layout.samples) == ("consumers", (0,))


def test_the_choice_of_a_router_is_refused_and_its_probabilities_are_not() -> None:
    probabilities, chosen = _outputs(
        lambda m, x: ((p := m.gate(x).softmax(-1)), p.topk(2)[0]), r(10, 7), gate=nn.Linear(7, 3)
    )
    assert probabilities.unit_layout.n_units == 3
    assert chosen.unit_layout.source == "refused"
    assert chosen.unit_layout.samples == (0,)


# the order of units is that of the layer that fixed them


def test_a_unit_of_a_projection_is_the_same_unit_in_its_heads() -> None:
    def forward(m: Any, x: Tensor) -> Any:
        y = m.q(x)
        heads = _heads(y, 4)
        return y, heads, heads.reshape(2, 4, 15), F.channel_shuffle(y[..., None].transpose(1, 2), 2).squeeze(-1)

    whole, heads, *_ = _outputs(forward, r(2, 5, 7), q=nn.Linear(7, 12))
    for k in range(12):
        assert torch.equal(heads.unit_layout.unit(heads.value, k), whole.value[..., k])


def test_a_unit_of_a_convolution_is_the_same_unit_before_a_channel_shuffle_is_merged() -> None:
    def forward(m: Any, x: Tensor) -> Any:
        y = m.conv(x)
        return y, y.view(2, 4, 3, 7, 7).transpose(1, 2)

    whole, shuffled = _outputs(forward, r(2, 3, 7, 7), conv=nn.Conv2d(3, 12, 1))
    for k in range(12):
        assert torch.equal(shuffled.unit_layout.unit(shuffled.value, k), whole.value[:, k])


# parameters


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 7), nn.Linear(7, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embed(tokens))


def test_of_a_tied_parameter_the_module_that_owns_the_address_decides() -> None:
    trace = cutaway.trace(Tied(), torch.randint(0, 11, (2, 5)))
    assert trace.parameters["embed.weight"].unit_layout.units == (1,)


def test_a_scale_beside_units_has_them_too() -> None:
    op = _outputs(lambda m, x: m.linear(x) * m.scale, r(2, 3), linear=nn.Linear(3, 5), scale=nn.Parameter(r(5)))[0]
    layout = op.trace.parameters["scale"].unit_layout
    assert (layout.units, layout.source) == ((0,), "consumers")


# two readers


def test_the_layer_that_reads_a_value_itself_wins_over_one_that_reads_a_reshape_of_it() -> None:
    def forward(m: Any, x: Tensor) -> Any:
        return m.conv(x), m.linear(x.flatten(1))

    image = _outputs(forward, r(2, 3, 4, 4), conv=nn.Conv2d(3, 5, 1), linear=nn.Linear(48, 7))[0].trace.inputs[0]
    assert (image.unit_layout.units, image.unit_layout.source) == ((1,), "consumers")


def test_two_layers_of_equal_standing_that_disagree_are_refused() -> None:
    def forward(m: Any, x: Tensor) -> Any:
        return m.rows(x), m.columns(x.mT)

    value = _outputs(forward, r(2, 5, 5), rows=nn.Linear(5, 7), columns=nn.Linear(5, 7))[0].trace.inputs[0]
    assert value.unit_layout.units == (2,)  # the first reads the value itself

    def both(m: Any, x: Tensor) -> Any:
        x = x.relu()
        return m.rows(x.exp()), m.columns(x.mT.exp())

    value = _outputs(both, r(2, 5, 5), rows=nn.Linear(5, 7), columns=nn.Linear(5, 7))[0].trace.inputs[0]
    assert (value.unit_layout.source, "different dimensions" in value.unit_layout.reason) == ("refused", True)


# units and positions in one dimension


def test_a_merged_dimension_that_comes_apart_again_has_its_units_alone() -> None:
    """Multi-query attention folds tokens and heads of the query: the scores have heads, not tokens times heads."""

    def forward(m: Any, x: Tensor) -> Any:
        q = m.q(x).view(2, 5 * 4, 3)  # tokens and heads in one dimension
        scores = q @ m.k(x).mT
        return scores, scores.view(2, 5, 4, 5).transpose(1, 2)

    scores, apart = _outputs(forward, r(2, 5, 7), q=nn.Linear(7, 12), k=nn.Linear(7, 3))
    assert (scores.unit_layout.sizes, scores.unit_layout.units) == ((2, 5, 4, 5), (2,))
    assert (apart.unit_layout.units, apart.unit_layout.n_units) == ((1,), 4)


def test_heads_merged_with_rows_for_a_norm_keep_all_units() -> None:
    """A norm of each head, written for rows of heads: (samples, tokens, heads) in one dimension."""

    def forward(m: Any, x: Tensor) -> Any:
        y = m.linear(x)
        rows = y.reshape(-1, 3)
        normed = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-6) * m.scale
        return y, rows, normed, normed.view(2, 5, 4, 3)

    whole, *others = _outputs(forward, r(2, 5, 7), linear=nn.Linear(7, 12), scale=nn.Parameter(torch.ones(3)))
    for op in others:
        assert (op.unit_layout.n_units, op.unit_layout.samples) == (12, (0,))
    rows = others[0]
    assert rows.unit_layout.sizes == (2, 5, 4, 3)
    assert torch.equal(rows.unit_layout.unit(rows.value, 7).flatten(), whole.value[..., 7].flatten())


def test_a_merged_dimension_that_a_layer_reads_is_the_unit_dimension() -> None:
    flat, _ = _outputs(
        lambda m, x: ((y := m.conv(x).flatten(1)), m.linear(y)),
        r(2, 3, 4, 4),
        conv=nn.Conv2d(3, 5, 1),
        linear=nn.Linear(80, 7),
    )
    assert (flat.unit_layout.units, flat.unit_layout.n_units) == ((1,), 80)


# units that are gone


def test_one_channel_flattened_before_a_linear_layer_has_the_features_that_it_reads() -> None:
    def forward(m: Any, x: Tensor) -> Any:
        y = m.conv(x)
        flat = y.flatten(1)
        return y, flat, m.linear(flat), y.flatten(1).mean(1), y.squeeze(1)

    channel, flat, _, mean, beside = _outputs(forward, r(2, 3, 5, 5), conv=nn.Conv2d(3, 1, 1), linear=nn.Linear(25, 7))
    assert (channel.unit_layout.units, channel.unit_layout.n_units) == ((1,), 1)
    assert (flat.unit_layout.units, flat.unit_layout.n_units) == ((1,), 25)
    assert mean.unit_layout.source == "whole"
    assert beside.unit_layout.source == "whole"  # a late claim counts on the path to its layer only


# samples


@pytest.mark.parametrize(
    ("model", "shape", "samples"),
    [
        (nn.Conv2d(3, 5, 1), (2, 3, 7, 7), (0,)),
        (nn.Conv2d(3, 5, 1), (3, 7, 7), ()),
        (nn.Conv2d(1, 5, 1), (1, 7, 7), ()),
        (nn.Conv2d(3, 5, 1), (1, 3, 7, 7), (0,)),
        (nn.Linear(3, 5), (3,), ()),
        (nn.LSTM(3, 5), (7, 2, 3), (1,)),
        (nn.LSTM(3, 5, batch_first=True), (2, 7, 3), (0,)),
        (nn.TransformerEncoderLayer(8, 2, 4), (7, 2, 8), (1,)),
        (nn.TransformerEncoderLayer(8, 2, 4, batch_first=True), (2, 7, 8), (0,)),
        (nn.TransformerEncoderLayer(8, 2, 4), (7, 1, 8), (1,)),
        (Fn(lambda m, x: m.w @ x, w=nn.Parameter(r(5, 3))), (3, 2), (1,)),
        (Fn(lambda m, x: x @ x.T @ m.linear(x), linear=nn.Linear(3, 5)), (7, 3), ()),
        (Fn(lambda m, x: m.linear(x) + m.b[:, None], linear=nn.Linear(3, 5), b=nn.Parameter(r(7))), (7, 3), ()),
        (Fn(lambda m, x: (x - x.mean(0)) / x.std(0), linear=nn.Linear(3, 5)), (7, 3), (0,)),
    ],
)
def test_samples_are_the_first_dimension_that_the_model_never_computes_across(
    model: nn.Module, shape: Axes, samples: Axes
) -> None:
    trace = cutaway.trace(model, r(*shape))
    assert trace.inputs[0].unit_layout.samples == samples
    assert trace.outputs[0].unit_layout.samples == samples


def test_routed_rows_have_no_samples_until_they_are_joined_with_a_value_that_has() -> None:
    def forward(m: Any, x: Tensor) -> Any:
        rows = x[x.sum(-1) > 0]
        made = m.expert(rows)
        whole = torch.zeros(x.shape[0], x.shape[1], 3)
        whole[x.sum(-1) > 0] = made
        return made, whole + x

    made, whole = _outputs(forward, r(2, 7, 3), expert=nn.Linear(3, 3))
    assert (made.unit_layout.samples, made.unit_layout.units) == ((), (1,))
    assert (whole.unit_layout.samples, whole.unit_layout.units) == ((0,), (2,))


def test_a_batch_repeated_for_heads_is_no_head() -> None:
    def forward(m: Any, x: Tensor) -> Any:
        table = m.table.repeat(2, 1, 1, 1).view(8, 5, 5)  # samples and heads
        q = _heads(m.q(x), 4).reshape(8, 5, 3)
        return q @ q.mT + table

    op = _outputs(forward, r(2, 5, 7), q=nn.Linear(7, 12), table=nn.Parameter(r(1, 4, 5, 5)))[0]
    assert (op.unit_layout.sizes, op.unit_layout.units, op.unit_layout.samples) == ((2, 4, 5, 5), (1,), (0,))


def test_an_empty_value_is_read_without_an_error() -> None:
    ops = cutaway.trace(Fn(lambda m, x: m.linear(x)[:, :0].reshape(0, 2), linear=nn.Linear(3, 5)), r(2, 3)).ops
    assert [op.unit_layout.shape for op in ops] == [op.shape for op in ops]


# the samples of a running model


def test_a_layout_learned_from_one_sample_holds_for_two() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(2), nn.Flatten(), nn.Linear(100, 7)).eval()
    one, two = (cutaway.trace(model, r(n, 3, 5, 5)) for n in (1, 2))
    for first, second in zip(one.ops, two.ops, strict=True):
        assert first.unit_layout.for_shape(second.shape or ()) == second.unit_layout


def test_a_tied_parameter_has_the_units_of_the_module_that_owns_the_address() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.head(torch.tanh(self.embed(x)))
            return result

    model = Tied()
    trace = cutaway.trace(model, torch.tensor([[1, 2, 3]]))
    weight = model.embed.weight.detach()
    assert torch.equal(trace["embed.weight#3"].value, weight[:, 3])
    assert torch.equal(trace["head.weight#6"].value, weight[6])
    assert trace["head.weight#6"].shape == (5,)
    assert (trace["embed.weight"].unit_layout.n_units, trace["head.weight#0"].unit_layout.n_units) == (5, 7)
    with cutaway.edit(model, at=trace["head.weight#6"], to=0):
        assert not model.head.weight[6].any()
        assert torch.equal(model.head.weight[:6], weight[:6])
    for site, place in (("head.weight#6", (6,)), ("embed.weight#3", (slice(None), 3))):
        with cutaway.edit(model, at=site, to=0):
            changed = model.embed.weight.detach().clone()
        expected = weight.clone()
        expected[place] = 0
        assert torch.equal(changed, expected)
