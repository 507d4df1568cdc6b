"""Functions that carry units, each on a value whose unit k is the constant k."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.core.units.constant_units import Case, image, row, signal, text
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import UnitError

SEVEN = [0, 1, 2, 3, 4, 5, 6]
EXPONENTIALS = [torch.tensor(float(k)).exp().item() for k in SEVEN]


def _case(name: str, *rest: Any, **named: Any) -> Any:
    return pytest.param(Case(name, *rest, **named), id=name)


ELEMENTWISE = [
    _case("relu", image(), F.relu, (1,), SEVEN),
    _case("add a number", image(), lambda y: y + 1, (1,), [k + 1 for k in SEVEN]),
    _case("number minus", image(), lambda y: 1 - y, (1,), [1 - k for k in SEVEN]),
    _case("in place", image(), lambda y: y.mul_(2), (1,), [2 * k for k in SEVEN]),
    _case("broadcast over units", image(), lambda y: y * y[:, :1].add(3), (1,), [3 * k for k in SEVEN]),
    _case("broadcast from the right", text(), lambda y: y * torch.arange(7.0), (2,), [k * k for k in SEVEN]),
    _case("of two", image(), lambda y: y + y.flip(1), (1,), [6] * 7),
    _case("where", image(), lambda y: torch.where(y > 3, y, -y), (1,), [0, -1, -2, -3, 4, 5, 6]),
    _case("where and a number", image(), lambda y: torch.where(y > 3, y, 0.0), (1,), [0, 0, 0, 0, 4, 5, 6]),
    _case("masked_fill", image(), lambda y: y.masked_fill(y > 4, -1), (1,), [0, 1, 2, 3, 4, -1, -1]),
    _case("lerp", image(), lambda y: torch.lerp(y, y * 3, 0.5), (1,), [2 * k for k in SEVEN]),
    _case("clamp", image(), lambda y: y.clamp(2, 4), (1,), [2, 2, 2, 3, 4, 4, 4]),
    _case("dropout", image(), lambda y: F.dropout(y, 0.5, training=False), (1,), SEVEN),
    _case("cast", image(), lambda y: y.double().to(torch.float32), (1,), SEVEN),
    _case("to another", image(), lambda y: y.type_as(torch.ones(5, dtype=torch.float64)), (1,), SEVEN),
    _case("softmax over units", image(), lambda y: y.softmax(1), (1,), [e / sum(EXPONENTIALS) for e in EXPONENTIALS]),
    _case("softmax over places", image(), lambda y: y.softmax(-1), (1,), [1 / 5] * 7),
    _case("cumsum over units", image(), lambda y: y.cumsum(1), (1,), [0, 1, 3, 6, 10, 15, 21]),
    _case("flip", image(), lambda y: y.flip(1), (1,), SEVEN[::-1]),
    _case("roll", image(), lambda y: y.roll(2, 1), (1,), [5, 6, 0, 1, 2, 3, 4]),
    _case("roll places", image(), lambda y: y.roll((2, 1), (2, 3)), (1,), SEVEN),
    _case("fft over places", image(), lambda y: torch.fft.fft(y).real[..., 0], (1,), [5 * k for k in SEVEN]),
    _case("rfft over places", image(), lambda y: torch.fft.rfft2(y).real[..., 0, 0], (1,), [55 * k for k in SEVEN]),
    _case("fft over units", row(), lambda y: torch.fft.fft(y).real, (1,), lambda z: [z[:, k] for k in SEVEN]),
    _case("tril", image(), lambda y: y.tril() + y.triu(1), (1,), SEVEN),
    _case("zeros_like", image(), lambda y: torch.zeros_like(y) + 2, (1,), [2] * 7),
    _case("uniform fill", image(), lambda y: y.uniform_(3, 3), (1,), [3] * 7),
    _case("normalize", image(), lambda y: F.normalize(y + 1, dim=2) * 11**0.5, (1,), [1] * 7),
    _case("prelu", image(), lambda y, m: m.act(-y), (1,), [-0.25 * k for k in SEVEN], modules={"act": nn.PReLU(7)}),
    _case("clone, contiguous", image(), lambda y: y.clone().contiguous().detach(), (1,), SEVEN),
    _case("complex", image(), lambda y: torch.complex(y, -y).imag, (1,), [-k for k in SEVEN]),
    _case("polar", image(), lambda y: torch.polar(y, torch.zeros_like(y)).abs(), (1,), SEVEN),
    _case("addcmul", image(), lambda y: torch.addcmul(y, y, y), (1,), [k + k * k for k in SEVEN]),
    _case("maximum", image(), lambda y: torch.maximum(y, y.flip(1)), (1,), [6, 5, 4, 3, 4, 5, 6]),
    _case("max of two", image(), lambda y: torch.max(y, y.flip(1)), (1,), [6, 5, 4, 3, 4, 5, 6]),
    _case("bucketize", row(), lambda y: torch.bucketize(y, torch.tensor([2.0, 4.0])), (1,), [0, 0, 0, 1, 1, 2, 2]),
    _case("gumbel_softmax", row(), lambda y: F.gumbel_softmax(y) * 0 + y, (1,), SEVEN),
    _case("local_response_norm", image(), lambda y: F.local_response_norm(y, 3, alpha=0.0), (1,), SEVEN),
    _case(
        "meshgrid beside",
        row(),
        lambda y: torch.meshgrid(torch.arange(2.0), torch.arange(7.0), indexing="ij")[0] * 0 + y,
        (1,),
        SEVEN,
    ),
    _case("rot90", image(), lambda y: torch.rot90(y, 1, (2, 3)), (1,), SEVEN),
]

MOVES = [
    _case("permute", image(), lambda y: y.permute(0, 2, 3, 1), (3,), SEVEN),
    _case("permute samples", image(), lambda y: y.permute((3, 1, 0, 2)), (1,), SEVEN, samples=(2,)),
    _case("transpose", text(), lambda y: y.transpose(1, 2), (1,), SEVEN),
    _case("transpose by name", text(), lambda y: torch.transpose(y, dim0=-1, dim1=-2), (1,), SEVEN),
    _case("mT", text(), lambda y: y.mT, (1,), SEVEN),
    _case("T", row(), lambda y: y.T, (0,), SEVEN, samples=(1,)),
    _case("t", row(), lambda y: y.t(), (0,), SEVEN, samples=(1,)),
    _case("movedim", image(), lambda y: y.movedim(1, -1), (3,), SEVEN),
    _case("movedim of two", image(), lambda y: torch.movedim(y, (1, 0), (0, 3)), (0,), SEVEN, samples=(3,)),
    _case("swapaxes", image(), lambda y: y.swapaxes(1, 2), (2,), SEVEN),
    _case("unsqueeze", image(), lambda y: y.unsqueeze(1), (2,), SEVEN),
    _case("unsqueeze from behind", image(), lambda y: y.unsqueeze(-1), (1,), SEVEN),
    _case("squeeze", image(), lambda y: y[:, :, :1, :1].squeeze(), (1,), SEVEN),
    _case("squeeze one", image(), lambda y: y[:, :, :1].squeeze(2), (1,), SEVEN),
    _case("squeeze several", image(), lambda y: y[:, :, :1, :1].squeeze((2, 3)), (1,), SEVEN),
]

REPEATS = [
    _case("expand", row(), lambda y: y[:, :, None].expand(2, 7, 5), (1,), SEVEN),
    _case("expand in front", row(), lambda y: y.expand(3, 2, 7), (2,), SEVEN, samples=(1,)),
    _case("expand_as", row(), lambda y: y[:, :, None].expand_as(torch.ones(2, 7, 5)), (1,), SEVEN),
    _case("broadcast_to", row(), lambda y: torch.broadcast_to(y[:, None], (2, 3, 7)), (2,), SEVEN),
    _case("broadcast_tensors", row(), lambda y: torch.broadcast_tensors(y[:, :, None], torch.ones(5))[0], (1,), SEVEN),
    _case("repeat places", image(), lambda y: y.repeat(1, 1, 3, 1), (1,), SEVEN),
    _case("repeat units", row(), lambda y: y.repeat(1, 3), (1,), SEVEN * 3),
    _case("tile units", row(), lambda y: torch.tile(y, (3,)), (1,), SEVEN * 3),
    _case(
        "repeat_interleave units",
        row(),
        lambda y: y.repeat_interleave(3, dim=1),
        (1,),
        [k for k in SEVEN for _ in range(3)],
    ),
    _case("repeat_interleave places", text(), lambda y: y.repeat_interleave(3, 1), (2,), SEVEN),
    _case("repeat a new dimension", row(), lambda y: y.repeat(5, 1, 1), (2,), SEVEN, samples=(1,)),
    _case("stack", row(), lambda y: torch.stack([y, y + 10]), (2,), lambda z: [z[..., k] for k in SEVEN], samples=(1,)),
    _case("stack inside", row(), lambda y: torch.stack([y, y + 10], 1), (2,), lambda z: [z[..., k] for k in SEVEN]),
    _case(
        "stack, flatten",
        row(),
        lambda y: torch.stack([y, y + 10], -1).flatten(1),
        (1,),
        [k + 10 * i for k in SEVEN for i in (0, 1)],
    ),
    _case("vstack", row(), lambda y: torch.vstack([y, y]), (1,), SEVEN),
    _case("hstack", row(), lambda y: torch.hstack([y, y]), (1,), SEVEN * 2),
    _case("column_stack", row(), lambda y: torch.column_stack([y, y]), (1,), SEVEN * 2),
    _case("dstack", image(), lambda y: torch.dstack([y, y]), (1,), SEVEN),
]

PARTS = [
    _case("cat of units", image(), lambda y: torch.cat([y, 10 + y[:, :3]], 1), (1,), [*SEVEN, 10, 11, 12]),
    _case("cat of places", image(), lambda y: torch.cat([y, y], 2), (1,), SEVEN),
    _case("cat from behind", text(), lambda y: torch.cat((y, y), dim=-1), (2,), SEVEN * 2),
    _case("cat with a constant", row(), lambda y: torch.cat([y, torch.full((2, 3), 9.0)], 1), (1,), [*SEVEN, 9, 9, 9]),
    _case("cat with an empty one", row(), lambda y: torch.cat([torch.ones(0), y], 1), (1,), SEVEN),
    _case("chunk", image(6), lambda y: y.chunk(2, 1)[1], (1,), [3, 4, 5]),
    _case("split", image(), lambda y: y.split(4, dim=1)[1], (1,), [4, 5, 6]),
    _case("split by sizes", image(), lambda y: torch.split(y, [2, 5], 1)[0], (1,), [0, 1]),
    _case("split places", image(), lambda y: y.split(4, 2)[2], (1,), SEVEN),
    _case("tensor_split", image(), lambda y: torch.tensor_split(y, 3, dim=1)[2], (1,), [5, 6]),
    _case("hsplit", image(), lambda y: torch.hsplit(y, [3])[1], (1,), [3, 4, 5, 6]),
    _case("unsafe_chunk", image(6), lambda y: torch.unsafe_chunk(y, 3, 1)[2], (1,), [4, 5]),
    _case("channel slice", image(), lambda y: y[:, 2:5], (1,), [2, 3, 4]),
    _case("slice with a step", image(), lambda y: y[:, 1::2], (1,), [1, 3, 5]),
    _case("slice of places", image(), lambda y: y[..., 1:3], (1,), SEVEN),
    _case("narrow", image(), lambda y: y.narrow(1, 3, 2), (1,), [3, 4]),
    _case("glu", row(6), lambda y: F.glu(y - 9, 1) * 0 + y[:, :3], (1,), [0, 1, 2]),
    _case("glu alone", image(6), lambda y: F.glu(y, 1), (1,), lambda z: [z[:, k] for k in range(3)]),
    _case("select a place", image(), lambda y: y[:, :, 3], (1,), SEVEN),
    _case("select, unbind", image(), lambda y: y.select(2, 0).unbind(-1)[1], (1,), SEVEN),
    _case("pad places", image(), lambda y: F.pad(y, (1, 2, 3, 4)), (1,), lambda z: [z[:, k] for k in SEVEN]),
    _case("pad units", row(), lambda y: F.pad(y, (1, 2), value=-1), (1,), [-1, *SEVEN, -1, -1]),
    _case("reflect", image(), lambda y: F.pad(y, (1, 1, 2, 2), mode="reflect"), (1,), SEVEN),
    _case("circular", image(), lambda y: F.pad(y, (1, 1, 2, 2), mode="circular"), (1,), SEVEN),
    _case("replicate", image(), lambda y: F.pad(y, (1, 1, 2, 2), mode="replicate"), (1,), SEVEN),
    _case("diff of units", row(), lambda y: y.diff(dim=1), (1,), [1] * 6),
    _case("channel_shuffle", image(6), lambda y: F.channel_shuffle(y, 2), (1,), [0, 3, 1, 4, 2, 5]),
    _case("diagonal of places", image(), lambda y: y.diagonal(dim1=2, dim2=3), (1,), SEVEN),
    _case("windows", signal(), lambda y: y.unfold(2, 3, 2), (1,), SEVEN),
    _case("view_as_complex", image(), lambda y: torch.view_as_complex(torch.stack([y, y], -1)).real, (1,), SEVEN),
    _case("view_as_real", image(), lambda y: torch.view_as_real(torch.complex(y, y)), (1,), SEVEN),
]

REDUCTIONS = [
    _case("mean of places", image(), lambda y: y.mean((2, 3)), (1,), SEVEN),
    _case("mean, kept", image(), lambda y: y.mean((2, 3), keepdim=True), (1,), SEVEN),
    _case("sum", text(), lambda y: y.sum(1), (1,), [11 * k for k in SEVEN]),
    _case("sum by name", text(), lambda y: torch.sum(y, dim=-2), (1,), [11 * k for k in SEVEN]),
    _case("max", text(), lambda y: y.max(1).values, (1,), SEVEN),
    _case("max, indices", text(), lambda y: y.max(1)[1], (1,), [0] * 7),
    _case("amax", image(), lambda y: y.amax((-1, -2)), (1,), SEVEN),
    _case("argmax", text(), lambda y: y.argmax(1), (1,), [0] * 7),
    _case("var", text(), lambda y: y.var(1), (1,), [0] * 7),
    _case("var_mean", text(), lambda y: torch.var_mean(y, 1)[1], (1,), SEVEN),
    _case("std by name", text(), lambda y: y.std(dim=1, keepdim=True), (2,), [0] * 7),
    _case("norm", text(), lambda y: y.norm(dim=1), (1,), [k * 11**0.5 for k in SEVEN]),
    _case("norm p dim", text(), lambda y: y.norm(1, 1), (1,), [11 * k for k in SEVEN]),
    _case("vector_norm", text(), lambda y: torch.linalg.vector_norm(y, 1, 1), (1,), [11 * k for k in SEVEN]),
    _case("logsumexp", text(), lambda y: y.logsumexp(1), (1,), [k + torch.tensor(11.0).log().item() for k in SEVEN]),
    _case("median", text(), lambda y: y.median(1).values, (1,), SEVEN),
    _case("quantile", text(), lambda y: y.quantile(0.5, 1), (1,), SEVEN),
    _case("prod", text(), lambda y: y[:, :2].prod(1), (1,), [k * k for k in SEVEN]),
    _case("any", text(), lambda y: (y > 3).any(1), (1,), [0, 0, 0, 0, 1, 1, 1]),
    _case("kthvalue", text(), lambda y: y.kthvalue(2, 1).values, (1,), SEVEN),
    _case("mean of samples", row(), lambda y: y.mean(0), (0,), SEVEN, samples=()),
    _case("cosine_similarity", text(), lambda y: F.cosine_similarity(y + 1, y + 1, dim=1), (1,), [1] * 7),
    _case("loss for each", row(), lambda y: F.mse_loss(y, y * 0, reduction="none"), (1,), [k * k for k in SEVEN]),
]

SPACE = [
    _case("max_pool1d", signal(), lambda y: F.max_pool1d(y, 2), (1,), SEVEN),
    _case("max_pool2d", image(), lambda y: F.max_pool2d(y, 2), (1,), SEVEN),
    _case("with indices", image(), lambda y: F.max_pool2d(y, 2, return_indices=True)[0], (1,), SEVEN),
    _case("avg_pool2d", image(), lambda y: F.avg_pool2d(y, 3, 1), (1,), SEVEN),
    _case("avg_pool3d", image(), lambda y: F.avg_pool3d(y[:, :, None], 1), (1,), SEVEN),
    _case("adaptive", image(), lambda y: F.adaptive_avg_pool2d(y, 1), (1,), SEVEN),
    _case("adaptive max", image(), lambda y: F.adaptive_max_pool2d(y, (3, 2)), (1,), SEVEN),
    _case("lp_pool2d", image(), lambda y: F.lp_pool2d(y, 1, 2), (1,), [4 * k for k in SEVEN]),
    _case(
        "unpool",
        image(),
        lambda y: F.max_unpool2d(*F.max_pool2d(y, 2, return_indices=True), 2, output_size=(11, 5)),
        (1,),
        lambda z: [z[:, k] for k in SEVEN],
    ),
    _case("interpolate", image(), lambda y: F.interpolate(y, scale_factor=2), (1,), SEVEN),
    _case("bilinear", image(), lambda y: F.interpolate(y, size=(3, 3), mode="bilinear"), (1,), SEVEN),
    _case("linear", signal(), lambda y: F.interpolate(y, size=5, mode="linear"), (1,), SEVEN),
    _case(
        "grid_sample", image(), lambda y: F.grid_sample(y, torch.zeros(2, 3, 13, 2), align_corners=False), (1,), SEVEN
    ),
    _case("pixel_shuffle", image(12), lambda y: F.pixel_shuffle(y, 2)[..., ::2, ::2], (1,), [0, 4, 8]),
    _case(
        "pixel_unshuffle",
        image(),
        lambda y: F.pixel_unshuffle(y[..., :10, :4], 2),
        (1,),
        [k for k in SEVEN for _ in "1234"],
    ),
    _case("im2col", image(), lambda y: F.unfold(y, 3), (1,), [k for k in SEVEN for _ in range(9)]),
    _case("fold", image(), lambda y: F.fold(F.unfold(y, 1), (11, 5), 1), (1,), SEVEN),
]


@pytest.mark.parametrize("case", [*ELEMENTWISE, *MOVES, *REPEATS, *PARTS, *REDUCTIONS, *SPACE])
def test_a_carried_unit_is_where_plain_indexing_finds_it(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("topk", lambda y: y.topk(3)[0]),
        ("topk indices, as numbers", lambda y: y.topk(3)[1].float()),
        ("topk by name", lambda y: torch.topk(y, k=3, dim=1).values),
        ("sort", lambda y: y.sort(1).values),
        ("sort, descending", lambda y: torch.sort(y, dim=-1, descending=True)[0]),
        ("stable sort", lambda y: y.sort(stable=True)[0]),
        ("argsort, gather", lambda y: y.gather(1, y.argsort(1))),
        ("index by argmax", lambda y: y[:, y.argmax(1)]),
        ("index_select", lambda y: y.index_select(1, y[0].argsort()[:3])),
        ("take_along_dim", lambda y: torch.take_along_dim(y, y.argsort(1), 1)),
        ("sorted, then relu and view", lambda y: y.sort(1).values.relu().view(2, 1, 7)),
    ],
)
def test_units_in_an_order_of_the_data_are_refused(name: str, function: Any) -> None:
    layer, x = row()
    layout = cutaway.trace(Fn(lambda self, x: function(self.stem(x)), stem=layer), x).outputs[0].unit_layout
    assert layout.source == "refused"
    assert "by the data" in layout.reason
    with pytest.raises(UnitError, match="unit_dim="):
        layout.check()


def test_sorting_places_leaves_the_units_alone() -> None:
    Case("", text(), lambda y: y.sort(1).values, (2,), SEVEN).check()
    Case("", text(), lambda y: y.topk(3, 1).values, (2,), SEVEN).check()
    Case("", text(), lambda y: y.argsort(dim=1), (2,), lambda z: [z[..., k] for k in SEVEN]).check()


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y.mean(1, keepdim=True),
        lambda y: y.sum(-1),
        lambda y: y.max(1).values,
        lambda y: y.mean(),
        lambda y: y.norm(),
        lambda y: F.mse_loss(y, y * 0),
        lambda y: F.cross_entropy(y, torch.zeros(2, dtype=torch.int64)),
        lambda y: F.cross_entropy(y, torch.zeros(2, dtype=torch.int64), reduction="none"),
        lambda y: y[:, 3],
        lambda y: y.mean(1) * 2 + 1,
        lambda y: F.cosine_similarity(y, y),
    ],
)
def test_a_value_whose_units_are_gone_is_one_unit(function: Any) -> None:
    layer, x = row()
    op = cutaway.trace(Fn(lambda self, x: function(self.stem(x)), stem=layer), x).outputs[0]
    layout = op.unit_layout
    assert (layout.source, layout.units, layout.n_units) == ("whole", (), 1)
    assert layout.samples == ((0,) if op.value.dim() else ())
    assert torch.equal(layout.unit(op.value, 0), op.value)


def test_packed_rows_have_no_samples_and_keep_their_units() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        y = self.stem(x)
        packed = nn.utils.rnn.pack_padded_sequence(y, torch.tensor([11, 4]), batch_first=True)
        return packed.data, nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0]

    layer, x = text()
    rows, padded = cutaway.trace(Fn(forward, stem=layer), x).outputs
    assert (rows.unit_layout.units, rows.unit_layout.samples) == ((1,), ())
    assert (padded.unit_layout.units, padded.unit_layout.samples) == ((2,), ())
    assert torch.equal(rows.unit_layout.unit(rows.value, 4), torch.full((15,), 4.0))
