"""FLOPs, held against torch's own counter, or against the same computation written out where torch counts nothing.

On a CPU, torch's counter sees neither the flash kernel of `scaled_dot_product_attention`, nor the fused
LSTM, nor `mv`, `addbmm`, `bilinear` or the fast paths of the transformer: it gives 0 for all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.call_count import count_calls
from tests.zoo import ZOO
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import cutaway


class Code(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def model_of(code: Any) -> nn.Module:
    return code if isinstance(code, nn.Module) else Code(code)


def by_torch(code: Any, *args: Any, **kwargs: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        model_of(code)(*args, **kwargs)
    if "torch._dynamo" in sys.modules:
        # After a `torch.cond` under a dispatch mode, torch 2.13 raises in every later one.
        torch._dynamo.reset()
    return counter.get_total_flops()


def ours(code: Any, *args: Any, **kwargs: Any) -> int:
    return cutaway.trace(model_of(code), *args, **kwargs).flops


def r(*shape: int) -> Tensor:
    return torch.randn(*shape)


def einsum(equation: str) -> Callable[..., Tensor]:
    return lambda *operands: torch.einsum(equation, *operands)


PRODUCTS: dict[str, tuple[Any, ...]] = {
    "matrix @ matrix": (torch.matmul, r(3, 4), r(4, 5)),
    "vector @ matrix": (torch.matmul, r(3), r(3, 4)),
    "vector @ batch": (torch.matmul, r(3), r(2, 3, 4)),
    "batch @ matrix": (torch.matmul, r(2, 3, 4), r(4, 6)),
    "matrix @ batch": (torch.matmul, r(3, 4), r(2, 4, 6)),
    "broadcast batches": (torch.matmul, r(2, 1, 3, 4), r(5, 4, 6)),
    "@ from the right": (lambda a, b: a.__rmatmul__(b), r(4, 6), r(3, 4)),
    "matmul by keyword": (lambda a, b: torch.matmul(other=b, input=a), r(2, 3), r(3, 7)),
    "mm": (torch.mm, r(3, 4), r(4, 5)),
    "mm into out": (lambda a, b: torch.mm(a, b, out=torch.empty(3, 5)), r(3, 4), r(4, 5)),
    "bmm": (torch.bmm, r(2, 3, 4), r(2, 4, 5)),
    "linalg.matmul": (torch.linalg.matmul, r(3, 4), r(4, 5)),
    "addmm": (torch.addmm, r(5), r(3, 4), r(4, 5)),
    "addmm with factors": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), r(5), r(3, 4), r(4, 5)),
    "baddbmm": (torch.baddbmm, r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)),
    "baddbmm by keyword": (
        lambda c, a, b: torch.baddbmm(batch2=b, input=c, batch1=a), r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)
    ),
    "inner": (torch.inner, r(2, 3), r(4, 3)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=2), r(2, 3, 4), r(3, 4, 5)),
    "tensordot of named dimensions": (lambda a, b: torch.tensordot(a, b, ([0, 2], [1, 0])), r(2, 3, 4), r(4, 2, 5)),
    "tensordot over nothing": (lambda a, b: torch.tensordot(a, b, dims=0), r(2, 3), r(4,)),
    "matrix_power": (lambda a: torch.matrix_power(a, 7), r(4, 4)),
    "matrix_power of a batch": (lambda a: torch.linalg.matrix_power(a, 5), r(2, 4, 4)),
    "zeroth power": (lambda a: torch.matrix_power(a, 0), r(4, 4)),
    "multi_dot": (lambda *m: torch.linalg.multi_dot(m), r(3, 4), r(4, 5), r(5, 2), r(2, 7)),
    "multi_dot of two": (lambda *m: torch.linalg.multi_dot(m), r(3, 4), r(4, 5)),
    "multi_dot between vectors": (lambda *m: torch.linalg.multi_dot(m), r(4), r(4, 5), r(5, 2), r(2)),
    "chain_matmul": (torch.chain_matmul, r(3, 4), r(4, 5), r(5, 2), r(2, 7)),
    "cov": (torch.cov, r(3, 4)),
    "corrcoef": (torch.corrcoef, r(3, 4)),
    "linear": (F.linear, r(5, 3), r(4, 3)),
    "linear of a vector": (F.linear, r(3), r(4, 3), r(4)),
    "linear of a sequence": (F.linear, r(6, 5, 3), r(4, 3), r(4)),
    "linear by keyword": (lambda x, w: F.linear(input=x, weight=w), r(5, 3), r(4, 3)),
    "linear by keyword, turned round": (
        lambda x, w, b: F.linear(bias=b, weight=w, input=x), r(5, 3), r(4, 3), r(4)
    ),
    "linear, half by keyword": (lambda x, w, b: F.linear(x, bias=b, weight=w), r(5, 3), r(4, 3), r(4)),
    "nothing": (lambda x: (x + 1).relu().softmax(-1).cumsum(0), r(5, 3)),
    "outer product": (torch.outer, r(3), r(4)),
}  # fmt: skip

EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bij,bjk->bik", (1, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("...ij,jk", (7, 2, 3, 4), (4, 5)),
    ("...,...->...", (2, 3), (3,)),
    ("b i d, b j d -> b i j", (2, 3, 4), (2, 5, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)),
    ("i,i->", (3,), (3,)),
    ("i,j->ij", (3,), (4,)),
    ("ij,ij->ij", (3, 4), (3, 4)),
    ("ij,ij->", (3, 4), (3, 4)),
    ("ij,j->i", (3, 4), (4,)),
    ("ij,k->ij", (3, 4), (5,)),
    ("aij,jk->ik", (7, 2, 3), (3, 4)),
    ("i,ij->j", (1,), (5, 3)),
    ("ii,ij->j", (3, 3), (3, 4)),
    ("ii->i", (3, 3)),
    ("ij->ji", (3, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ab,bc,ca->", (2, 3), (3, 4), (4, 2)),
    ("bi,oij,bj->bo", (2, 3), (5, 3, 4), (2, 4)),
    ("a,b,c->", (2,), (3,), (4,)),
]

CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    "conv1d": (nn.Conv1d(4, 6, 3, groups=2, stride=2, padding=1, dilation=2), r(2, 4, 20)),
    "conv2d": (nn.Conv2d(4, 6, (3, 2), groups=2, stride=(2, 1), dilation=2), r(2, 4, 20, 21)),
    "conv3d": (nn.Conv3d(4, 6, 3, groups=2), r(2, 4, 9, 8, 7)),
    "depthwise": (nn.Conv2d(4, 8, 3, groups=4), r(2, 4, 9, 9)),
    "padding same": (nn.Conv2d(4, 6, 3, padding="same"), r(2, 4, 9, 8)),
    "circular": (nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), r(2, 4, 9, 8)),
    "without batch": (nn.Conv2d(4, 6, 3), r(4, 9, 8)),
    "transposed 1d": (nn.ConvTranspose1d(4, 6, 3, groups=2, stride=2), r(2, 4, 9)),
    "transposed 2d": (nn.ConvTranspose2d(4, 6, 3, groups=2, stride=2, output_padding=1, dilation=2), r(2, 4, 9, 7)),
    "transposed 3d": (nn.ConvTranspose3d(4, 6, 3, stride=2), r(2, 4, 5, 4, 3)),
    "transposed without batch": (nn.ConvTranspose2d(4, 6, 3), r(4, 9, 7)),
    "by keyword": (lambda x, w: F.conv2d(weight=w, input=x), r(2, 4, 9, 7), r(6, 4, 3, 3)),
    "transposed by keyword": (lambda x, w: F.conv_transpose2d(weight=w, input=x), r(2, 4, 9, 7), r(4, 6, 3, 3)),
    "convolution": (
        lambda x, w: torch.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        r(2, 4, 9, 7), r(6, 4, 3, 3),
    ),
    "convolution, transposed": (
        lambda x, w: torch.convolution(x, w, None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1),
        r(2, 4, 9, 7), r(4, 6, 3, 3),
    ),
}  # fmt: skip

MODELS: dict[str, tuple[Any, ...]] = {
    "mlp": (nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), r(5, 8)),
    "cnn": (
        nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
        ),
        r(2, 3, 8, 8),
    ),
    "rnn": (nn.RNN(3, 5, num_layers=2, bidirectional=True), r(7, 2, 3)),
    "rnn, batch first, relu": (nn.RNN(3, 5, batch_first=True, nonlinearity="relu"), r(2, 7, 3)),
    "gru": (nn.GRU(3, 5), r(7, 2, 3)),
    "gru without batch": (nn.GRU(3, 5), r(7, 3)),
    "gru, two layers, both ways": (nn.GRU(3, 5, num_layers=2, bidirectional=True, batch_first=True), r(2, 7, 3)),
    "lstm with projection": (nn.LSTM(3, 5, num_layers=2, proj_size=2, bidirectional=True), r(7, 2, 3)),
    "packed lstm": (
        lambda *weights: torch.lstm(r(11, 3), torch.tensor([2] * 4 + [1] * 3), (r(1, 2, 5),) * 2, weights,
                                    False, 1, 0.0, False, False),
        r(20, 3), r(20, 5),
    ),
    "attention, slow path": (nn.MultiheadAttention(8, 2), r(5, 2, 8), r(6, 2, 8), r(6, 2, 8)),
    "attention, other widths": (
        nn.MultiheadAttention(8, 2, kdim=4, vdim=6, add_bias_kv=True), r(5, 2, 8), r(6, 2, 4), r(6, 2, 6)
    ),
    **{
        f"{cell.__name__}({n_in}, {n_hidden}) of {list(shape)}": (cell(n_in, n_hidden), r(*shape))
        for cell in (nn.RNNCell, nn.LSTMCell, nn.GRUCell)
        for n_in, n_hidden, shape in ((3, 5, (2, 3)), (3, 5, (3,)), (2, 2, (2, 2)), (5, 5, (20, 5)))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", [*PRODUCTS, *CONVOLUTIONS, *MODELS])
def test_flops_are_those_of_torch(name: str) -> None:
    code, *args = {**PRODUCTS, **CONVOLUTIONS, **MODELS}[name]
    assert ours(code, *args) == by_torch(code, *args)


@pytest.mark.parametrize(("equation", "shapes"), [(equation, shapes) for equation, *shapes in EINSUMS])
def test_flops_of_einsum_are_those_of_torch(equation: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [r(*shape) for shape in shapes]
    assert ours(einsum(equation), *operands) == by_torch(einsum(equation), *operands)


def test_flops_of_einsum_do_not_depend_on_how_it_is_written() -> None:
    a, b = r(2, 3), r(3, 4)
    assert ours(lambda a, b: torch.einsum("ij,jk->ik", [a, b]), a, b) == 2 * 2 * 3 * 4
    assert ours(lambda a, b: torch.einsum(a, [0, 1], b, [1, 2], [0, 2]), a, b) == 2 * 2 * 3 * 4


def test_flops_are_counted_without_saved_values_too() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))
    with cutaway.watch(model, save=None) as trace:
        model(r(2, 3, 8, 8))
    assert trace.flops == by_torch(model, r(2, 3, 8, 8)) > 0


# where torch's counter sees nothing: the same computation, written out

WRITTEN_OUT: dict[str, tuple[Any, Any, list[Tensor]]] = {
    "mv": (torch.mv, lambda a, b: a @ b[:, None], [r(3, 4), r(4)]),
    "matrix @ vector": (torch.matmul, lambda a, b: a @ b[:, None], [r(3, 4), r(4)]),
    "batch @ vector": (torch.matmul, lambda a, b: a @ b[:, None], [r(2, 3, 4), r(4)]),
    "dot": (torch.dot, lambda a, b: a[None] @ b[:, None], [r(3), r(3)]),
    "vector @ vector": (torch.matmul, lambda a, b: a[None] @ b[:, None], [r(3), r(3)]),
    "linear to one number": (F.linear, lambda x, w: x @ w[:, None], [r(5, 3), r(3)]),
    "addmv": (torch.addmv, lambda c, a, b: c[:, None] + a @ b[:, None], [r(3), r(3, 4), r(4)]),
    "addbmm": (torch.addbmm, lambda c, a, b: c + (a @ b).sum(0), [r(3, 5), r(2, 3, 4), r(2, 4, 5)]),
    "addmm_": (lambda c, a, b: c.clone().addmm_(a, b), lambda c, a, b: c + a @ b, [r(3, 5), r(3, 4), r(4, 5)]),
    "baddbmm_": (
        lambda c, a, b: c.clone().baddbmm_(a, b), lambda c, a, b: c + a @ b, [r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)]
    ),
    "conv_tbc": (
        lambda x, w, b: torch.conv_tbc(x, w, b),
        lambda x, w, b: F.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b),
        [r(9, 2, 4), r(3, 4, 6), r(6)],
    ),
    "bilinear": (
        F.bilinear,
        lambda x, y, w: (torch.einsum("bi,oij->boj", x, w) @ y[:, :, None])[..., 0],
        [r(2, 3), r(2, 4), r(5, 3, 4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_what_torch_does_not_count_costs_what_it_costs_written_out(name: str) -> None:
    fused, written_out, args = WRITTEN_OUT[name]
    torch.testing.assert_close(fused(*args).reshape(-1).sum(), written_out(*args).reshape(-1).sum())
    assert ours(fused, *args) == by_torch(written_out, *args) > 0


def attention_written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if k.dim() == 4 and k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        ([(2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8)], {}),
        ([(2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 10)], {}),
        ([(3, 4, 8), (3, 6, 8), (3, 6, 8)], {}),
        ([(4, 8), (6, 8), (6, 8)], {}),
        ([(2, 6, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8)], {"enable_gqa": True}),
        ([(2, 1, 3, 4, 8), (2, 5, 3, 6, 8), (2, 5, 3, 6, 8)], {}),
    ],
)
def test_attention_costs_its_two_products(shapes: list[tuple[int, ...]], options: dict[str, Any]) -> None:
    q, k, v = (r(*shape) for shape in shapes)
    expected = by_torch(attention_written_out, q, k, v)
    assert ours(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options), q, k, v) == expected
    by_keyword = lambda q, k, v: F.scaled_dot_product_attention(value=v, key=k, query=q, **options)  # noqa: E731
    assert ours(by_keyword, q, k, v) == expected


def test_a_causal_mask_saves_nothing() -> None:
    q = r(2, 3, 4, 8)
    causal = lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True)  # noqa: E731
    assert ours(causal, q) == by_torch(attention_written_out, q, q, q)


class UnrolledLSTM(nn.Module):
    """What `nn.LSTM` computes, cell by cell; torch's counter sees the products in the cells."""

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.lstm = lstm

    def forward(self, x: Tensor) -> Tensor:
        lstm = self.lstm
        x = x.transpose(0, 1) if lstm.batch_first else x
        for layer in range(lstm.num_layers):
            ways = [self.one_way(x, layer, way) for way in range(1 + lstm.bidirectional)]
            x = torch.cat(ways, -1)
        return x.transpose(0, 1) if lstm.batch_first else x

    def one_way(self, x: Tensor, layer: int, way: int) -> Tensor:
        name = f"l{layer}" + ("_reverse" if way else "")
        weights = [getattr(self.lstm, f"{kind}_{name}") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        state = (x.new_zeros(x.shape[1], self.lstm.hidden_size),) * 2
        outputs = []
        for step in reversed(x) if way else x:
            state = torch.lstm_cell(step, state, *weights)
            outputs.append(state[0])
        return torch.stack(outputs[::-1] if way else outputs)


@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}]
)
def test_an_lstm_costs_the_sum_of_its_cells(options: dict[str, Any]) -> None:
    lstm, x = nn.LSTM(3, 5, **options), r(7, 2, 3)
    torch.testing.assert_close(lstm(x)[0], UnrolledLSTM(lstm)(x))
    assert ours(lstm, x) == by_torch(UnrolledLSTM(lstm), x) > 0


def slow(module: nn.Module, *args: Any, **kwargs: Any) -> int:
    """Torch's count on the slow path: a gradient is wanted, and attention runs in its products."""
    with torch.enable_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return by_torch(module.train(), *args, **kwargs)


def test_the_fast_path_of_attention_costs_what_the_slow_one_does() -> None:
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True), r(5, 3, 8)
    with torch.no_grad():
        trace = cutaway.trace(attention.eval(), x, x, x)
    assert "_native_multi_head_attention" in trace.ops.totals("function")
    assert trace.flops == slow(attention, x, x, x)


def test_the_fast_path_of_an_encoder_costs_what_the_slow_one_does() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    encoder, x = nn.TransformerEncoder(layer, 2), r(5, 3, 8)
    with torch.no_grad():
        trace = cutaway.trace(encoder.eval(), x)
    assert "_transformer_encoder_layer_fwd" in trace.ops.totals("function")
    assert trace.flops == slow(encoder, x)


def test_the_fast_path_on_nested_tensors_costs_its_sequences_one_by_one() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2)
    lengths = [4, 2, 3]
    mask = torch.arange(4)[None] >= torch.tensor(lengths)[:, None]
    with torch.no_grad():
        trace = cutaway.trace(encoder.eval(), r(3, 4, 8), src_key_padding_mask=mask)
    assert "to_padded_tensor" in trace.ops.totals("function")
    assert trace.flops == sum(slow(encoder, r(1, length, 8)) for length in lengths)


@pytest.mark.parametrize("name", ["gpt2", "bert", "t5"])
def test_flops_of_transformers_are_those_of_torch(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    ids = torch.arange(10).reshape(2, 5)
    if name == "gpt2":
        config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=16)
        model, inputs = transformers.GPT2LMHeadModel(config), {"input_ids": ids}
    elif name == "bert":
        config = transformers.BertConfig(
            num_hidden_layers=2, num_attention_heads=2, hidden_size=16, intermediate_size=32, vocab_size=50
        )
        model, inputs = transformers.BertModel(config), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    else:
        config = transformers.T5Config(num_layers=2, num_heads=2, d_model=16, d_kv=8, d_ff=32, vocab_size=50)
        model, inputs = transformers.T5Model(config), {"input_ids": ids, "decoder_input_ids": ids}
    model.eval().requires_grad_(False)
    trace = cutaway.trace(model, **inputs)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = by_torch(model, **inputs)
    assert trace.flops == expected > 0


_OPAQUE = {"function_transforms", "jacobians", "scripted_parts"}  # one op each, whatever happens inside
_COUNTER_FAILS = {"gradient_inside_forward"}
_UNSEEN = {"lstm", "bilinear", "mv", "vdot", "_native_multi_head_attention", "_transformer_encoder_layer_fwd"}


@pytest.mark.parametrize("name", [name for name in ZOO if name not in _OPAQUE | _COUNTER_FAILS])
def test_flops_of_every_model_are_those_of_torch_plus_what_torch_does_not_see(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    totals = cutaway.trace(model, *args, **kwargs).ops.totals("function")
    model, args, kwargs = ZOO[name]()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = by_torch(model, *args, **kwargs)
    assert sum(row.flops for function, row in totals.items() if function not in _UNSEEN) == expected


# manners


def test_a_call_with_several_results_is_counted_once() -> None:
    trace = cutaway.trace(nn.GRU(3, 5), r(7, 2, 3))
    assert [op.flops > 0 for op in trace.ops if op.function == "gru"] == [True, False]


def test_a_formula_never_raises() -> None:
    """Names that have a formula, on arguments that fit none of them."""

    class Odd:
        is_identity = is_opaque = False
        output_index = None
        shape = None
        args: tuple[Any, ...] = ("ij", None, object())
        kwargs: dict[str, Any] = {"equation": 3, "dims": "x"}  # noqa: RUF012
        edges = ()

    from cutaway.graph.analysis import flops

    for function in flops._FORMULAS:
        odd = Odd()
        odd.function = function  # type: ignore[attr-defined]
        assert flops.flops_of(odd) == 0  # type: ignore[arg-type]


def test_ops_without_formula_cost_no_work() -> None:
    def many(x: Tensor) -> Tensor:
        for _ in range(20_000):
            x = x + 1
        return x

    trace = cutaway.trace(Code(many), r(1))
    assert count_calls(lambda: trace.flops) < 20 * len(trace), "a look into a table for each op, and no formula"
    assert trace.flops == 0
