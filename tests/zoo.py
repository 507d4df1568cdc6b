"""Tiny models for every case that is hard to trace; each entry of ZOO makes a model and its inputs afresh.

The numbers are those of the list of tricky cases in docs/tricky-models.md.
"""

from __future__ import annotations

import math
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch import relu as early_relu
from torch.nn.utils import parametrizations, rnn
from torch.utils.checkpoint import checkpoint

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
ZOO: dict[str, Callable[[], Case]] = {}
RANDOM: set[str] = set()
"""Cases that draw random numbers; they repeat under one seed."""


def case(make: Callable[[], Any]) -> Callable[[], Any]:
    name = make.__name__.strip("_")

    def seeded() -> Case:
        torch.manual_seed(0)
        made = make()
        model, args, kwargs = made if len(made) == 3 else (*made, {})
        return model, args if isinstance(args, tuple) else (args,), kwargs

    ZOO[name] = seeded
    return make


class Fn(nn.Module):
    """A model from a plain function of itself and its inputs."""

    def __init__(self, function: Callable[..., Any], **modules: Any) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            if isinstance(module, (nn.Module, nn.Parameter)):
                setattr(self, name, module)
            elif isinstance(module, Tensor):
                self.register_buffer(name, module)
            else:
                setattr(self, name, module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def x(*shape: int) -> Tensor:
    return torch.randn(*(shape or (3, 4)))


# plain architectures


@case
def mlp() -> Any:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2)), x()


@case
def cnn() -> Any:
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2))
    return nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).eval(), x(2, 3, 10, 10)


@case
def cnn_training() -> Any:  # 36
    return nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.BatchNorm1d(4)), x(2, 3, 10)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(F.relu(self.a(x)))


@case
def residual_stack() -> Any:  # 27
    return nn.Sequential(*(Residual() for _ in range(3))), x()


@case
def lstm() -> Any:
    return nn.LSTM(4, 5, num_layers=2, bidirectional=True), x(6, 2, 4)


@case
def gru_packed() -> Any:  # 50
    def forward(self: Any, x: Tensor) -> Any:
        packed = rnn.pack_padded_sequence(x, [5, 3, 2])
        return rnn.pad_packed_sequence(self.gru(packed)[0])

    return Fn(forward, gru=nn.GRU(4, 3)), x(5, 3, 4)


@case
def lstm_cell_loop() -> Any:  # 21, 22, 23
    def forward(self: Any, x: Tensor) -> Any:
        h, c, outs = torch.zeros(2, 5), torch.zeros(2, 5), []
        for t in range(x.shape[0]):
            h, c = self.cell(x[t], (h, c))
            outs.append(h)
        return torch.stack(outs), (h, c)

    return Fn(forward, cell=nn.LSTMCell(4, 5)), x(6, 2, 4)


@case
def attention() -> Any:
    return Fn(lambda self, x: self.mha(x, x, x), mha=nn.MultiheadAttention(8, 2, batch_first=True)), x(2, 5, 8)


@case
def attention_fast_path() -> Any:  # 50
    mha = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    for p in mha.parameters():
        p.requires_grad_(False)
    return Fn(lambda self, x: self.mha(x, x, x, need_weights=False)[0], mha=mha).eval(), x(2, 5, 8)


@case
def transformer_fast_path() -> Any:  # 50
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    for p in encoder.parameters():
        p.requires_grad_(False)
    return encoder, x(2, 5, 8)


@case
def transformer_training() -> Any:
    RANDOM.add("transformer_training")
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1)
    return nn.TransformerEncoder(layer, 2), x(2, 5, 8)


@case
def full_transformer() -> Any:
    return nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True), (x(2, 5, 8), x(2, 3, 8))


@case
def autoencoder_with_transposed_convolution() -> Any:
    return nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.SiLU(), nn.ConvTranspose2d(4, 1, 4, 2, 1)), x(2, 1, 8, 8)


@case
def embedding_bag() -> Any:
    return Fn(lambda self, i: self.e(i), e=nn.EmbeddingBag(10, 3)), torch.tensor([[1, 2, 3], [4, 5, 6]])


# inputs, outputs, sources


@case
def identities() -> Any:  # 1
    def forward(self: Any, x: Tensor) -> Any:
        x = self.linear(x)
        y = self.drop(self.identity(x)).contiguous().to(torch.float32)
        return y + x

    return Fn(forward, linear=nn.Linear(4, 4), identity=nn.Identity(), drop=nn.Dropout(0.5)).eval(), x()


@case
def returns_its_input() -> Any:  # 2
    return Fn(lambda self, x: (x, self.p, self.b, x * 2), p=nn.Parameter(torch.ones(2)), b=torch.zeros(3)), x()


@case
def same_tensor_twice() -> Any:  # 3
    def forward(self: Any, x: Tensor) -> Any:
        return torch.cat([x + x, x, x]), self.bilinear(x, x)

    return Fn(forward, bilinear=nn.Bilinear(4, 4, 2)), x()


@dataclass
class Batch:
    image: Tensor
    mask: Tensor


class Bag:
    def __init__(self, a: Tensor, b: Tensor) -> None:
        self.a, self.b = a, {"inner": [b]}


Pair = namedtuple("Pair", "mean std")


@case
def structured_inputs() -> Any:  # 4
    def forward(self: Any, pair: Any, batch: Any, bag: Any, *rest: Tensor, scale: Tensor, **more: Any) -> Any:
        return (
            pair[0] + pair[1]["k"] + batch.image * batch.mask + bag.a + bag.b["inner"][0] + rest[0] * scale + more["z"]
        )

    args = ([x(), {"k": x()}], Batch(x(), x()), Bag(x(), x()), x())
    return Fn(forward), args, {"scale": x(), "z": x()}


@dataclass
class Result:
    loss: Tensor | None
    hidden: tuple[Tensor, ...]


@case
def structured_outputs() -> Any:  # 5
    def forward(self: Any, x: Tensor) -> Any:
        return {
            "pair": Pair(x.mean(), x.std()),
            "rows": [x[0], None, 3, "text"],
            "result": Result(None, (x * 2, x * 3)),
        }

    return Fn(forward), x()


@case
def tensors_made_inside() -> Any:  # 6
    def forward(self: Any, x: Tensor) -> Any:
        positions = torch.arange(4, dtype=torch.float32)
        return x + positions + torch.zeros(4) + x.new_ones(3, 4) + torch.tensor([1.0, 2.0, 3.0, 4.0])

    return Fn(forward), x()


@case
def orphans() -> Any:  # 7
    def forward(self: Any, x: Tensor) -> Any:
        unused = torch.ones(3).exp()
        unused.sum()
        return x.relu()

    return Fn(forward), x()


# in-place, views, escapes


@case
def chained_in_place() -> Any:  # 8
    def forward(self: Any, x: Tensor) -> Any:
        y = x * 2
        y.add_(1).relu_()
        y.masked_fill_(y > 1, 0.5)
        y *= 3
        y -= x
        return y, y.exp().zero_()

    return Fn(forward), x()


@case
def in_place_on_the_input() -> Any:  # 8
    return Fn(lambda self, x: x.add_(1) * 2), x()


@case
def in_place_through_views() -> Any:  # 9, 10
    def forward(self: Any, x: Tensor) -> Any:
        y = x * 1
        y[0].add_(1)
        y.t()[1].mul_(2)
        v = y.view(-1)
        v[2:5].neg_()
        w = v.unsqueeze(0)
        z = y.sum()
        w.add_(10)
        return y * 2, v.sin(), z

    return Fn(forward), x()


@case
def disjoint_views() -> Any:
    def forward(self: Any, x: Tensor) -> Any:
        a, b = (x * 1).chunk(2, dim=1)
        a.add_(1)
        return b * 2, a * 3

    return Fn(forward), x()


@case
def value_overwritten_later() -> Any:  # 11
    def forward(self: Any, x: Tensor) -> Any:
        h = self.linear(x)
        kept = h.clone()
        h.zero_()
        return kept + h

    return Fn(forward, linear=nn.Linear(4, 4)), x()


@case
def setitem() -> Any:  # 12
    def forward(self: Any, x: Tensor) -> Any:
        y = torch.zeros(3, 4)
        y[0] = x[0]
        y[:, 1] = 5.0
        y[x > 0] = -1.0
        y[[0, 2], [1, 3]] = x[0, :2]
        m = y > 0
        y[m] *= 2
        return y

    return Fn(forward), x()


@case
def out_argument() -> Any:  # 13
    def forward(self: Any, x: Tensor) -> Any:
        out = torch.empty(3, 4)
        torch.mul(x, 2, out=out)
        y = out + 1
        torch.add(x, 5, out=out)
        return y * out

    return Fn(forward), x()


@case
def data_attribute() -> Any:  # 14
    def forward(self: Any, x: Tensor) -> Any:
        y = x * 2
        before = y.sum()
        y.data.add_(1)
        return y.data * 2 + before

    return Fn(forward), x()


@case
def memory_swapped() -> Any:  # 14
    def forward(self: Any, x: Tensor) -> Any:
        y = x * 2
        y.data = torch.ones(2, 6)
        z = x.clone()
        z.t_()
        z.add_(1)
        w = torch.empty(0)
        torch.mul(x, 3, out=w)
        return y * 3, z.sum(0), w + 1

    return Fn(forward), x()


@case
def numpy_round_trip() -> Any:  # 15
    def forward(self: Any, x: Tensor) -> Any:
        y = x * 2
        array = y.detach().numpy()
        array += 1
        return torch.from_numpy(array * 3) + x

    return Fn(forward), x()


@case
def scalars_steer() -> Any:  # 16
    def forward(self: Any, x: Tensor) -> Any:
        if x.sum() > -1000:
            x = x * 2
        n = int(x.abs().max().item()) % 3 + 1
        while x.norm() > 1:
            x = x / 2
        return x * n + sum(x[0].tolist()) + float(x.mean())

    return Fn(forward), x()


@case
def multiple_outputs() -> Any:  # 17, 18, 19
    def forward(self: Any, x: Tensor) -> Any:
        a, b = x.chunk(2, dim=1)
        values, indices = x.topk(2)
        best = x.max(dim=1)
        _u, s, _v = torch.linalg.svd(x @ x.T)
        first, *_ = x.unbind(0)
        return (
            a + b,
            values,
            indices.float(),
            best.values + best[1],
            s,
            torch.sort(x).values,
            first,
            x.split([1, 3], 1)[1],
        )

    return Fn(forward), x()


# loops and reuse


@case
def loops_without_parameters() -> Any:  # 20
    def forward(self: Any, x: Tensor) -> Any:
        for _ in range(3):
            x = torch.tanh(x + 1)
        for _ in range(2):
            x = x.sin()
        return x

    return Fn(forward), x()


@case
def interleaved_loops() -> Any:  # 21, 28
    def forward(self: Any, x: Tensor) -> Any:
        a = b = x
        for _ in range(3):
            a, b = self.f(a).relu() + b, self.g(b).relu() + a
        return a, b

    return Fn(forward, f=nn.Linear(4, 4), g=nn.Linear(4, 4)), x()


@case
def shared_modules() -> Any:  # 25, 26
    shared = nn.Linear(4, 4)

    def forward(self: Any, x: Tensor) -> Any:
        return self.second(self.first(x)) + self.block[0](x)

    return Fn(forward, first=shared, second=shared, block=nn.Sequential(shared)), x()


@case
def tied_weights() -> Any:  # 26
    embed, head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
    head.weight = embed.weight
    return Fn(lambda self, i: self.head(self.embed(i)), embed=embed, head=head), torch.tensor([[1, 2], [3, 4]])


@case
def conditionals() -> Any:  # 30, 31, 33
    def forward(self: Any, x: Tensor) -> Any:
        for i in range(3):
            x = self.a(x) if x.sum() > i else self.b(x)
        if (y := x.mean()) > 0 and not (y > 100):
            x = x + 1
        elif y < -5:
            x = x - 1
        return x

    return Fn(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4)), x()


# buffers and randomness


@case
def buffers() -> Any:  # 35
    def forward(self: Any, x: Tensor) -> Any:
        self.count += 1
        self.mean.copy_(x.mean(0))
        self.state[1] = x[0]
        y = x - self.mean + self.count + self.state.sum()
        self.mean = self.mean * 2
        return y + self.mean

    return Fn(forward, count=torch.tensor(0), mean=torch.zeros(4), state=torch.zeros(2, 4)), x()


@case
def spectral_and_weight_norm() -> Any:  # 36
    return nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(4, 4)), parametrizations.weight_norm(nn.Linear(4, 2))
    ), x()


@case
def randomness() -> Any:  # 37
    RANDOM.add("randomness")

    def forward(self: Any, x: Tensor) -> Any:
        noise = torch.randn(3, 4) + torch.rand_like(x) + torch.bernoulli(torch.full((3, 4), 0.5))
        return self.drop(x) + noise + torch.empty(4).normal_()

    return Fn(forward, drop=nn.Dropout(0.5)), x()


@case
def stochastic_depth() -> Any:  # 38
    RANDOM.add("stochastic_depth")

    def forward(self: Any, x: Tensor) -> Any:
        for layer in self.layers:
            if torch.rand(()) > 0.5:
                x = layer(x)
        return x

    return Fn(forward, layers=nn.ModuleList(nn.Linear(4, 4) for _ in range(4))), x()


# numerics


@case
def mixed_dtypes() -> Any:  # 39
    def forward(self: Any, x: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        z = y.float() + x.half().float() + (x > 0) + torch.tensor(3)
        return z.bfloat16(), z[:0], z.sum(), z.long()

    return Fn(forward, linear=nn.Linear(4, 4)), x()


@case
def saturated() -> Any:  # 40, 41
    def forward(self: Any, x: Tensor) -> Any:
        return (x * 1e4).softmax(-1).clamp(0, 1).round() + x.masked_fill(torch.ones(3, 4, dtype=torch.bool), 0) * 0

    return Fn(forward), x()


# autograd


@case
def detached() -> Any:  # 42
    def forward(self: Any, x: Tensor) -> Any:
        h = self.a(x)
        with torch.no_grad():
            g = self.b(h)
        with torch.inference_mode():
            i = x * 2
        return h + g + h.detach() + i.clone()

    return Fn(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4)), x()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


@case
def custom_autograd_function() -> Any:  # 43
    return Fn(lambda self, x: Square.apply(self.a(x)) + 1, a=nn.Linear(4, 4)), x()


@case
def gradient_inside_forward() -> Any:  # 43
    def forward(self: Any, x: Tensor) -> Any:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.a(x).pow(2).sum()
            (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return energy, force * 2

    return Fn(forward, a=nn.Linear(4, 4)), x()


@case
def checkpointed() -> Any:  # 44
    def forward(self: Any, x: Tensor) -> Any:
        h = checkpoint(self.a, x, use_reentrant=False)
        return checkpoint(self.b, h, use_reentrant=True)

    return Fn(forward, a=nn.Sequential(nn.Linear(4, 4), nn.Tanh()), b=nn.Linear(4, 4)), x().requires_grad_()


@case
def function_transforms() -> Any:  # 45
    def forward(self: Any, x: Tensor) -> Any:
        rows = torch.vmap(lambda row: self.a(row).sum())(x)
        slope = torch.func.grad(lambda v: (v**2).sum())(x)
        called = torch.func.functional_call(self.a, dict(self.a.named_parameters()), (x,))
        return rows, slope, called

    return Fn(forward, a=nn.Linear(4, 4)), x()


@case
def jacobians() -> Any:  # 45
    return Fn(lambda self, x: torch.func.jacrev(lambda v: self.a(v).tanh())(x[0]) * 2, a=nn.Linear(4, 4)), x()


# other engines


@case
def cond() -> Any:  # 46
    def forward(self: Any, x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v.sin() + 1, lambda v: v.cos() - 1, (x,)) * 2

    return Fn(forward), x()


@torch.jit.script
def scripted_function(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).relu() + 1


@case
def scripted_parts() -> Any:  # 48
    inner = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    traced = torch.jit.trace(nn.Linear(4, 4), torch.zeros(3, 4))
    return Fn(
        lambda self, x: scripted_function(self.inner(self.a(x)), x).exp() + self.traced(x),
        a=nn.Linear(4, 4),
        inner=inner,
        traced=traced,
    ), x()


@torch.library.custom_op("cutaway_zoo::scaled", mutates_args=())
def custom_scaled(x: Tensor, by: float) -> Tensor:
    return x * by


@torch.library.custom_op("cutaway_zoo::bump", mutates_args=("x",))
def custom_bump(x: Tensor) -> None:
    x.add_(1)


@case
def custom_ops() -> Any:  # 49
    def forward(self: Any, x: Tensor) -> Any:
        y = torch.ops.cutaway_zoo.scaled(x, 2.0) + torch.ops.aten.relu(x) + torch.ops.aten.mul.Tensor(x, x)
        z = y * 1
        torch.ops.cutaway_zoo.bump(y)
        return y * 2, z

    return Fn(forward), x()


@case
def sparse() -> Any:  # 51
    def forward(self: Any, x: Tensor) -> Any:
        s = x.relu().to_sparse()
        return torch.sparse.mm(s, x.T), s, s.coalesce().values().sum(), x.relu().to_sparse_csr() @ x.T

    return Fn(forward), x()


@case
def nested() -> Any:  # 52
    def forward(self: Any, a: Tensor, b: Tensor) -> Any:
        n = torch.nested.nested_tensor([a, b], layout=torch.jagged)
        return (n * 2).values().sum(), n.sin()

    return Fn(forward), (x(2, 4), x(3, 4))


@case
def complex_and_fft() -> Any:  # 52
    return Fn(
        lambda self, x: (torch.fft.fft(x), torch.fft.ifft(torch.fft.fft(x)).real, torch.view_as_real(x + 0j))
    ), x()


@case
def quantized() -> Any:  # 52
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8), x()


class Tagged(Tensor):
    """A tensor subclass with an opinion of its own."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


@case
def subclass() -> Any:  # 52
    def forward(self: Any, x: Tensor) -> Any:
        t = x.as_subclass(Tagged)
        return F.softmax(t * 2, dim=-1) + F.relu(t)

    return Fn(forward), x()


@case
def meta() -> Any:  # 53
    return nn.Sequential(nn.Linear(4, 8, device="meta"), nn.ReLU(), nn.Linear(8, 2, device="meta")), torch.empty(
        3, 4, device="meta"
    )


# process and lifetime


@case
def hooks_that_replace() -> Any:  # 55
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[0].register_forward_hook(lambda module, args, out: out * 2)
    model[2].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return model, x()


@case
def modules_made_in_forward() -> Any:  # 56
    def forward(self: Any, x: Tensor) -> Any:
        fresh = nn.Linear(4, 4)
        nn.init.constant_(fresh.weight, 0.1)
        nn.init.zeros_(fresh.bias)
        return fresh(x) + self.lazy(x)

    RANDOM.add("modules_made_in_forward")
    return Fn(forward, lazy=nn.Linear(4, 4)), x()


@case
def kept_between_calls() -> Any:  # 57
    def forward(self: Any, x: Tensor) -> Any:
        self.cache.append(x * 2)
        return torch.cat(self.cache).sum(0) + x

    return Fn(forward, cache=[torch.ones(3, 4)]), x()


class ReturnsDict(nn.Module):
    def forward(self, xs: list[Tensor]) -> dict[str, Tensor]:
        return {"a": xs[0] * 2}


@case
def containers_changed_later() -> Any:  # 57
    def forward(self: Any, x: Tensor, cache: list[Tensor]) -> Any:
        xs = [x]
        out = self.inner(xs)
        out["b"] = self.linear(out["a"])
        xs.append(out["b"] + 1)
        cache.append(x)
        return out["b"].relu() + xs[1] + cache[0]

    return Fn(forward, inner=ReturnsDict(), linear=nn.Linear(4, 4)), (x(),), {"cache": [x()]}


@case
def early_references() -> Any:  # 58
    from functools import partial

    return Fn(lambda self, x: self.act(early_relu(x)) + self.part(x), act=F.gelu, part=partial(F.softmax, dim=-1)), x()


# scale and detail


@case
def mixture_of_experts() -> Any:  # 61
    def forward(self: Any, x: Tensor) -> Any:
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (chosen == i).nonzero().squeeze(-1)
            out.index_add_(0, rows, expert(x[rows]))
        return out

    return Fn(forward, gate=nn.Linear(4, 3), experts=nn.ModuleList(nn.Linear(4, 4) for _ in range(3))), x(2, 4)


@case
def graph_convolution() -> Any:  # 61
    def forward(self: Any, x: Tensor, edges: Tensor) -> Any:
        messages = self.a(x)[edges[0]]
        total = torch.zeros_like(messages[: x.shape[0]])
        return total.scatter_add(0, edges[1].unsqueeze(1).expand_as(messages), messages) / math.sqrt(2)

    return Fn(forward, a=nn.Linear(4, 4)), (x(3, 4), torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]]))


@case
def channels_last() -> Any:  # 63
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True)), x(2, 3, 6, 6).to(memory_format=torch.channels_last)


@case
def one_line() -> Any:  # 64
    return Fn(lambda self, x: torch.relu(torch.relu(x) - torch.relu(-x)) + torch.relu(x * 2)), x()


@case
def deep_nesting() -> Any:  # 60
    model: nn.Module = nn.Linear(4, 4)
    for _ in range(60):
        model = nn.Sequential(OrderedDict(inner=model))
    return model, x()


@case
def odd_module_names() -> Any:
    return nn.ModuleDict({"a b": nn.Linear(4, 4), "c/d": nn.ReLU()}), x()


class _Dict(nn.ModuleDict):
    def forward(self, x: Tensor) -> Tensor:
        for module in self.values():
            x = module(x)
        return x


ZOO["odd_module_names"] = lambda: (_Dict({"a b": nn.Linear(4, 4), "c/d": nn.ReLU(), "x@y": nn.Tanh()}), (x(),), {})


@case
def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(bos_token_id=0, eos_token_id=0, vocab_size=50, n_positions=16, n_embd=8, n_layer=2, n_head=2)
    return GPT2LMHeadModel(config).eval(), (), {"input_ids": torch.tensor([[1, 2, 3, 4]])}


@case
def bert() -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=50, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
    return (
        BertModel(config).eval(),
        (),
        {"input_ids": torch.tensor([[1, 2, 3]]), "attention_mask": torch.tensor([[1, 1, 0]])},
    )


@case
def t5() -> Any:
    from transformers import T5Config, T5Model

    config = T5Config(vocab_size=50, d_model=8, d_kv=4, d_ff=16, num_layers=2, num_heads=2)
    ids = torch.tensor([[1, 2, 3]])
    return T5Model(config).eval(), (), {"input_ids": ids, "decoder_input_ids": ids}
