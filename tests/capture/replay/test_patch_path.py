"""Path patching equals a forward pass written by hand in plain torch."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.oracles import same
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import CannotReplayError, EditError, InputError

X = torch.linspace(-1, 1, 4)
FUNCTIONS = (torch.sin, torch.cos, torch.tanh, torch.sigmoid, torch.atan, torch.erf)


class Unit(nn.Module):
    """A function of the sum of its inputs, weighted so that their order matters."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Tensor) -> Tensor:
        return self.function(sum(t * (k + 1) for k, t in enumerate(given)))


class RandomGraph(nn.Module):
    """Units that read random earlier units; unit 0 reads the input, the last one is returned."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        n = draw.randint(4, 8)
        self.units = nn.ModuleList(Unit(draw.choice(FUNCTIONS)) for _ in range(n))
        self.reads = [[0]] + [[draw.randrange(i) for _ in range(draw.randint(1, 3))] for i in range(1, n)]

    def forward(self, x: Tensor) -> Tensor:
        values: list[Tensor] = []
        for unit, reads in zip(self.units, self.reads, strict=True):
            values.append(unit(x) if not values else unit(*(values[k] for k in reads)))
        return values[-1]

    def by_hand(self, x: Tensor, *, fixed: dict[int, Tensor], edges: dict[tuple[int, int], Tensor]) -> list[Tensor]:
        """All values; `fixed` units have a given value, `edges` (reader, read) carry a given value."""
        values: list[Tensor] = []
        for i, (unit, reads) in enumerate(zip(self.units, self.reads, strict=True)):
            given = [edges.get((i, k), values[k]) for k in reads] if values else [x]
            values.append(fixed[i] if i in fixed else unit(*given))
        return values


@pytest.mark.parametrize("seed", range(60))
def test_every_path_of_random_models_as_written_by_hand(seed: int) -> None:
    model, draw = RandomGraph(seed), random.Random(seed + 1000)
    trace, n = cutaway.trace(model, X), len(model.units)
    clean = model.by_hand(X, fixed={}, edges={})
    n_patched = 0
    for sender in range(n - 1):
        new = clean[sender] * 2 + 1
        for reader in range(sender + 1, n):
            frozen = [k for k in range(n) if k not in (sender, reader) and draw.random() < 0.4]
            kept = {k: clean[k] for k in frozen}
            first = model.by_hand(X, fixed={**kept, sender: new}, edges={})
            edges = {(reader, k): first[k] for k in model.reads[reader]}
            reachable = {sender}
            for k in range(sender + 1, n):
                if k not in frozen and reachable & set(model.reads[k]):
                    reachable.add(k)
            call = {"into": f"units.{reader}", "frozen": [f"units.{k}" for k in frozen]}
            if not reachable & set(model.reads[reader]):
                with pytest.raises(EditError, match="no path leads from the change"):
                    trace.patch_path(f"units.{sender}", new, **call)
                continue
            expected = model.by_hand(X, fixed={}, edges=edges)
            patched = trace.patch_path(f"units.{sender}", new, **call)
            assert same(patched.returned, expected[-1]), (sender, reader, frozen)
            assert all(same(patched[f"units.{k}"].value, expected[k]) for k in range(n))
            n_patched += 1
            direct = trace.patch_path(f"units.{sender}", new, frozen=call["frozen"])
            assert same(direct.returned, first[-1])
    assert n_patched > 1
    assert same(trace.returned, model(X))


class Attention(nn.Module):
    def __init__(self, n_heads: int, width: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.heads(x))

    def heads(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        mixed = F.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
        return mixed.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(2, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


def transformer() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(8) for _ in range(3)), nn.LayerNorm(8), nn.Linear(8, 5))


@torch.no_grad()
def test_a_head_is_patched_into_a_later_head_as_written_by_hand() -> None:
    """Head 1 of block 0 → the attention of block 2, through the residual stream only: block 1 is frozen."""
    model = transformer()
    a, b = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    clean, corrupted = cutaway.trace(model, a), cutaway.trace(model, b)
    patched = clean.patch_path(
        "0.attn.out@in.0",
        corrupted["0.attn.out@in.0"].value,
        heads=1,
        n_heads=2,
        into="2.attn",
        frozen=["*.attn", "*.mlp"],
    )

    first, second, third, norm, head = model
    # The clean run, then the residual stream with the sender's new head and everything else frozen.
    heads = first.attn.heads(first.ln1(a))
    new = heads.clone()
    new[..., 4:] = first.attn.heads(first.ln1(b))[..., 4:]
    attn = [first.attn(first.ln1(a))]
    x = a + attn[0]
    mlp = [first.mlp(first.ln2(x))]
    x1 = x + mlp[0]
    attn.append(second.attn(second.ln1(x1)))
    mlp.append(second.mlp(second.ln2(x1 + attn[1])))
    x2 = x1 + attn[1] + mlp[1]
    stream = a + first.attn.out(new) + mlp[0] + attn[1] + mlp[1]
    y = x2 + third.attn(third.ln1(stream))
    y = y + third.mlp(third.ln2(y))
    torch.testing.assert_close(patched.returned, head(norm(y)))
    assert same(patched["1.attn"].value, clean["1.attn"].value)
    assert not same(patched.returned, clean.returned)
    # The direct effect of the head on the logits: no reader is named.
    direct = clean.patch_path(
        "0.attn.out@in.0", corrupted["0.attn.out@in.0"].value, heads=1, n_heads=2, frozen=["*.attn", "*.mlp"]
    )
    frozen = clean["2.attn"].value + clean["2.mlp"].value
    torch.testing.assert_close(direct.returned, head(norm(stream + frozen)))


def test_one_edge_between_two_ops() -> None:
    """What `h * 2` and `h + 1` read is the same tensor: only one of them sees the change."""

    def body(_: nn.Module, x: Tensor) -> Tensor:
        h = x.exp()
        return (h * 2).sin() + (h + 1)

    trace = cutaway.trace(Fn(body), X)
    patched = trace.patch_path("exp_1", 0, into="mul_1", frozen="**")
    assert same(patched.returned, torch.zeros(4).sin() + (X.exp() + 1))
    assert patched.recomputed.labels == ("mul_1_2", "sin_1_3", "add_2_5")
    assert same(trace.patch_path("exp_1", 0, into=[trace["mul_1"], "add_1"]).returned, torch.ones(4))
    both = patched.patch_path("exp_1", 0, into="add_1")
    assert same(both.returned, torch.ones(4))


def test_mistakes_are_told() -> None:
    trace = cutaway.trace(nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4)).eval(), X)
    with pytest.raises(InputError, match=r"'2@out' is an output: into= names modules"):
        trace.patch_path("0", 0, into="2@out")
    with pytest.raises(InputError, match="is an input: freeze the module or op"):
        trace.patch_path("0", 0, frozen="2@in.0")
    with pytest.raises(InputError, match="is no op and reads nothing"):
        trace.patch_path("0", 0, into="2.weight")
    with pytest.raises(CannotReplayError, match="returns its input tensor unchanged"):
        trace.patch_path("0", 0, into="1/dropout")
    with pytest.raises(EditError, match="no path leads from the change to '0'"):
        trace.patch_path("2", 0, into="0")
    with pytest.raises(InputError, match=r"trace\.patch_path\('0', 0\)"):
        trace.patch_path("0")
