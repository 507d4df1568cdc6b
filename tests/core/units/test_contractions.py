"""Products: with parameters they are layers, of activations they keep the remaining units."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.core.units.constant_units import Case, image, row, text
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.graph.op import Op

SEVEN = [0, 1, 2, 3, 4, 5, 6]


def r(*shape: int) -> Tensor:
    return torch.randn(*shape)


def p(*shape: int) -> nn.Parameter:
    return nn.Parameter(r(*shape))


def _one(forward: Any, *args: Tensor, **modules: Any) -> Op:
    return cutaway.trace(Fn(forward, **modules), *args).outputs[0]


# with a parameter


@pytest.mark.parametrize(
    ("forward", "shape", "weight", "units", "rows", "samples"),
    [
        (lambda m, x: x @ m.w, (2, 3), (3, 7), (1,), (1,), (0,)),
        (lambda m, x: x @ m.w, (2, 5, 3), (3, 7), (2,), (1,), (0,)),
        (lambda m, x: x.matmul(m.w.t()), (2, 5, 3), (7, 3), (2,), (0,), (0,)),
        (lambda m, x: torch.mm(x, m.w), (2, 3), (3, 7), (1,), (1,), (0,)),
        (lambda m, x: m.w @ x, (3, 2), (7, 3), (0,), (0,), (1,)),
        (lambda m, x: torch.addmm(m.b, x, m.w), (2, 3), (3, 7), (1,), (1,), (0,)),
        (lambda m, x: torch.mv(m.w, x), (3,), (7, 3), (0,), (0,), ()),
        (lambda m, x: torch.addmv(m.b, m.w, x), (3,), (7, 3), (0,), (0,), ()),
        (lambda m, x: torch.einsum("bc,co->bo", x, m.w), (2, 3), (3, 7), (1,), (1,), (0,)),
        (lambda m, x: torch.einsum("...c,oc->...o", x, m.w), (2, 5, 3), (7, 3), (2,), (0,), (0,)),
        (lambda m, x: torch.einsum("btc,eci->btei", x, m.w), (2, 5, 3), (7, 3, 11), (2, 3), (0, 2), (0,)),
        (lambda m, x: torch.einsum("btc,chd->bhtd", x, m.w), (2, 5, 3), (3, 7, 11), (1, 3), (1, 2), (0,)),
        (lambda m, x: torch.tensordot(x, m.w, dims=1), (2, 5, 3), (3, 7), (2,), (1,), (0,)),
        (lambda m, x: torch.tensordot(x, m.w, ([1], [1])), (2, 3), (7, 3), (1,), (0,), (0,)),
        (lambda m, x: torch.tensordot(x, m.w, ([-1], [-1])), (2, 5, 3), (7, 3), (2,), (0,), (0,)),
        (lambda m, x: torch.baddbmm(m.c, x, m.w), (3, 2, 5), (3, 5, 7), (0, 2), (0, 2), (1,)),
        (lambda m, x: torch.cdist(x, m.w), (2, 3), (7, 3), (1,), (0,), (0,)),
        (lambda m, x: torch.inner(x, m.w), (2, 3), (7, 3), (1,), (0,), (0,)),
        (lambda m, x: torch.outer(x, m.w), (2,), (7,), (1,), (0,), (0,)),
        (lambda m, x: torch.linalg.multi_dot([x, m.w]), (2, 3), (3, 7), (1,), (1,), (0,)),
    ],
)
def test_a_product_with_a_parameter_is_a_layer(
    forward: Any, shape: Any, weight: Any, units: Any, rows: Any, samples: Any
) -> None:
    modules = {"w": p(*weight), "b": p(7), "c": p(1, 7)}
    op = _one(forward, r(*shape), **modules)
    assert (op.unit_layout.units, op.unit_layout.samples) == (units, samples), op.unit_layout
    layout = op.trace.parameters["w"].unit_layout
    if rows is not None:
        assert (layout.units, layout.n_units) == (rows, op.unit_layout.n_units)


def test_experts_in_the_order_of_the_parameter() -> None:
    op = _one(lambda m, x: torch.einsum("bnd,nde->bne", x, m.w), r(2, 5, 3), w=p(5, 3, 7))
    assert (op.unit_layout.units, op.unit_layout.samples) == ((1, 2), (0,))


def test_what_is_added_to_a_product_is_read_like_a_bias() -> None:
    op = _one(lambda m, x: torch.addmm(m.b, x, m.w), r(2, 3), w=p(3, 7), b=p(7))
    assert op.trace.parameters["b"].unit_layout.units == (0,)


# where the activation keeps its units


def test_token_mixing_keeps_the_units_of_the_activation() -> None:
    case = Case(
        "", text(), lambda y, m: m.w @ y, (2,), [11 * k for k in SEVEN], modules={"w": nn.Parameter(torch.ones(5, 11))}
    )
    case.check()


def test_transposed_then_multiplied_by_a_parameter() -> None:
    def forward(y: Tensor, m: Any) -> Tensor:
        return y.transpose(1, 2) @ m.w

    weight = nn.Parameter(torch.ones(11, 5))
    Case("", text(), forward, (1,), [11 * k for k in SEVEN], modules={"w": weight}).check()


def test_a_query_and_a_table_of_relative_positions_keep_the_heads() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        q = m.q(x).view(2, 5, 4, 3).transpose(1, 2)
        return torch.einsum("bhtd,rd->bhtr", q, m.table)

    op = _one(forward, r(2, 5, 7), q=nn.Linear(7, 12), table=p(9, 3))
    assert (op.unit_layout.units, op.unit_layout.samples) == ((1,), (0,))


# of two activations


HEADS: dict[str, Any] = {"q": nn.Linear(7, 12), "k": nn.Linear(7, 12), "v": nn.Linear(7, 12)}


def heads(x: Tensor) -> Tensor:
    return x.view(2, 5, 4, 3).transpose(1, 2)


@pytest.mark.parametrize(
    "scores",
    [
        lambda q, k: q @ k.mT,
        lambda q, k: torch.matmul(q, k.transpose(-1, -2)),
        lambda q, k: torch.einsum("bhqd,bhkd->bhqk", q, k),
        lambda q, k: torch.bmm(q.flatten(0, 1), k.flatten(0, 1).mT).view(2, 4, 5, 5),
    ],
)
def test_scores_have_the_heads(scores: Any) -> None:
    op = _one(lambda m, x: scores(heads(m.q(x)), heads(m.k(x))).softmax(-1), r(2, 5, 7), **HEADS)
    assert (op.unit_layout.units, op.unit_layout.samples, op.unit_layout.n_units) == ((1,), (0,), 4)


@pytest.mark.parametrize("mask", [None, torch.zeros(5, 5), torch.ones(2, 1, 5, 5, dtype=torch.bool)])
@pytest.mark.parametrize("fused", [True, False])
def test_an_attention_output_has_the_heads_and_the_width_of_its_values(fused: bool, mask: Tensor | None) -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v = (heads(layer(x)) for layer in (m.q, m.k, m.v))
        if fused:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return (q @ k.mT).softmax(-1) @ v

    op = _one(forward, r(2, 5, 7), **HEADS)
    assert (op.unit_layout.units, op.unit_layout.samples, op.unit_layout.n_units) == ((1, 3), (0,), 12)


def test_merged_heads_are_the_units_of_the_value_projection_again() -> None:
    def forward(y: Tensor) -> Tensor:
        v = y.view(2, 11, 2, 3).transpose(1, 2)
        attention = torch.eye(11).expand(2, 2, 11, 11)
        return (attention @ v).transpose(1, 2).reshape(2, 11, 6)

    Case("", text(6), forward, (2,), list(range(6)), split=None).check()


def test_heads_shared_by_several_queries() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        q = heads(m.q(x))
        k, v = (layer(x).view(2, 5, 2, 3).transpose(1, 2) for layer in (m.k, m.v))
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    op = _one(forward, r(2, 5, 7), q=nn.Linear(7, 12), k=nn.Linear(7, 6), v=nn.Linear(7, 6))
    assert (op.unit_layout.units, op.unit_layout.n_units) == ((1, 3), 12)


def test_a_gram_matrix_has_pairs_of_units() -> None:
    Case(
        "gram",
        image(5),
        lambda y: torch.einsum("bixy,bjxy->bij", y, y),
        (1, 2),
        [55 * i * j for i in range(5) for j in range(5)],
    ).check()


def test_an_outer_product_has_pairs_unless_a_layer_reads_some_of_them() -> None:
    def pairs(m: Any, x: Tensor) -> Tensor:
        return m.a(x)[:, :, None] * m.b(x)[:, None, :]

    op = _one(pairs, r(2, 3), a=nn.Linear(3, 5), b=nn.Linear(3, 7))
    assert (op.unit_layout.units, op.unit_layout.n_units) == ((1, 2), 35)
    read = cutaway.trace(
        Fn(lambda m, x: m.c(pairs(m, x)), a=nn.Linear(3, 5), b=nn.Linear(3, 7), c=nn.Linear(7, 11)), r(2, 3)
    )
    product = next(op for op in read.ops if op.function == "mul")
    assert (product.unit_layout.units, product.unit_layout.source) == ((2,), "consumers")


def test_dot_products_leave_one_unit() -> None:
    op = _one(lambda m, x: torch.einsum("bi,bi->b", m.a(x), m.a(x)), r(2, 3), a=nn.Linear(3, 5))
    assert (op.unit_layout.source, op.unit_layout.samples) == ("whole", (0,))


def test_a_projected_parameter_is_an_activation() -> None:
    """Learned queries, projected: the product with keys has scores, not the rows of the queries, as its result."""

    def forward(m: Any, x: Tensor) -> Tensor:
        q = m.q(m.queries).view(9, 4, 3).transpose(0, 1)
        return q @ m.k(x).view(2, 5, 4, 3).permute(0, 2, 3, 1)

    op = _one(forward, r(2, 5, 7), q=nn.Linear(7, 12), k=nn.Linear(7, 12), queries=p(9, 7))
    assert (op.unit_layout.units, op.unit_layout.samples, op.unit_layout.shape) == ((1,), (0,), (2, 4, 9, 5))


def test_a_parameter_letter_that_counts_places_is_no_unit() -> None:
    """A locally connected layer has a weight for each place."""
    op = _one(
        lambda m, x: torch.einsum("bcxy,ocxy->boxy", m.conv(x), m.w),
        r(2, 3, 11, 5),
        conv=nn.Conv2d(3, 5, 1),
        w=p(7, 5, 11, 5),
    )
    assert (op.unit_layout.units, op.unit_layout.samples) == ((1,), (0,))


def test_spectral_weights_have_one_unit_for_each_output_channel() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        return torch.einsum("bix,iox->box", torch.fft.rfft(m.lift(x)), m.w)

    op = _one(forward, r(2, 5, 8), lift=nn.Conv1d(5, 3, 1), w=nn.Parameter(torch.randn(3, 7, 5, dtype=torch.cfloat)))
    assert (op.unit_layout.units, op.unit_layout.samples) == ((1,), (0,))


def test_a_buffer_is_no_parameter() -> None:
    op = _one(lambda m, x: m.table @ m.linear(x), r(2, 5, 3), linear=nn.Linear(3, 7), table=torch.randn(11, 5))
    assert op.unit_layout.units == (2,)


def test_the_weights_of_an_expert_that_the_data_picks_are_a_parameter() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        best = m.gate(x).sum(0).argmax()
        return x @ m.experts[best]

    op = _one(forward, r(2, 3), gate=nn.Linear(3, 5), experts=p(5, 3, 7))
    assert (op.unit_layout.units, op.unit_layout.samples, op.unit_layout.source) == ((1,), (0,), "producers")


def test_a_chain_in_one_einsum() -> None:
    op = _one(lambda m, x: torch.einsum("bi,ij,jk->bk", x, m.a, m.b), r(2, 3), a=p(3, 5), b=p(5, 7))
    assert (op.unit_layout.units, op.unit_layout.samples) == ((1,), (0,))


def test_einsum_without_a_result_term() -> None:
    op = _one(lambda m, x: torch.einsum("bi,io", x, m.a), r(2, 3), a=p(3, 5))
    assert (op.unit_layout.units, op.unit_layout.samples) == ((1,), (0,))


def test_a_row_of_constants_times_units() -> None:
    Case("", row(), lambda y: torch.outer(y[0], torch.arange(3.0))[:, 1], (0,), SEVEN, samples=()).check()
