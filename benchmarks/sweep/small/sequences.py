"""Sequences: attention over what was read, memory, scans, searches."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.sweep.small.registry import small


class _Seq2Seq(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.encoder = nn.Embedding(12, 8), nn.GRU(8, 8, batch_first=True, bidirectional=True)
        self.cell, self.query, self.score = nn.GRUCell(8 + 16, 8), nn.Linear(8 + 16, 8), nn.Linear(8, 1)
        self.head = nn.Linear(8, 12)

    def forward(self, source: Tensor, most: int) -> tuple[Tensor, Tensor]:
        seen, last = self.encoder(self.embed(source))
        h, token, ended = last[0], torch.ones(len(source), dtype=torch.long), torch.zeros(len(source), dtype=torch.bool)
        tokens, maps = [], []
        for _ in range(most):
            both = torch.cat([h[:, None].expand(-1, seen.shape[1], -1), seen], -1)
            weights = self.score(self.query(both).tanh()).squeeze(-1).softmax(-1)
            h = self.cell(torch.cat([self.embed(token), (weights[:, None] @ seen)[:, 0]], -1), h)
            token = self.head(h).argmax(-1).masked_fill(ended, 0)
            ended |= token == 2
            tokens.append(token)
            maps.append(weights)
            if ended.all():
                break
        return torch.stack(tokens, 1), torch.stack(maps, 1)


@small
def seq2seq() -> tuple[Any, ...]:
    """Greedy decoding that looks back at what was read, as Bahdanau's translation."""
    return _Seq2Seq(), torch.randint(3, 12, (2, 7)), 5


class _Beams(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(10, 8), nn.LSTMCell(8, 8), nn.Linear(8, 10)

    def forward(self, width: int, length: int) -> tuple[Tensor, Tensor]:
        tokens, scores = torch.ones(width, 1, dtype=torch.long), torch.full((width,), -1e9)
        scores[0] = 0
        h = c = torch.zeros(width, 8)
        for _ in range(length):
            h, c = self.cell(self.embed(tokens[:, -1]), (h, c))
            total = scores[:, None] + self.head(h).log_softmax(-1)
            scores, best = total.flatten().topk(width)
            beam, token = best // 10, best % 10
            tokens = torch.cat([tokens[beam], token[:, None]], 1)
            h, c = h[beam], c[beam]
        return tokens, scores / length**0.6


@small
def beam_search() -> tuple[Any, ...]:
    """The best continuations kept at each step, states reordered."""
    return _Beams(), 3, 5


class _Pointer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.cell = nn.LSTM(2, 8, batch_first=True), nn.LSTMCell(2, 8)
        self.keys, self.query, self.score = nn.Linear(8, 8, bias=False), nn.Linear(8, 8), nn.Parameter(torch.randn(8))

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        seen, (h, c) = self.encoder(points)
        h, c, x = h[0], c[0], points.mean(1)
        visited = torch.zeros(points.shape[:2], dtype=torch.bool)
        order, total = [], torch.zeros(len(points))
        for _ in range(points.shape[1]):
            h, c = self.cell(x, (h, c))
            scores = (self.keys(seen) + self.query(h)[:, None]).tanh() @ self.score
            logs = scores.masked_fill(visited, -torch.inf).log_softmax(-1)
            chosen = logs.argmax(-1, keepdim=True)
            visited = visited.scatter(1, chosen, True)
            total = total + logs.gather(1, chosen)[:, 0]
            x = points.gather(1, chosen[..., None].expand(-1, -1, 2))[:, 0]
            order.append(chosen)
        return torch.cat(order, 1), total


@small
def pointer_network() -> tuple[Any, ...]:
    """Inputs pointed at one after the other, each once, as the pointer network."""
    return _Pointer(), torch.rand(2, 6, 2)


class _NTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.controller, self.heads = nn.LSTMCell(4 + 6, 12), nn.Linear(12, 2 * (6 + 1 + 1 + 3 + 1) + 12)
        self.out = nn.Linear(12 + 6, 4)

    def _address(self, made: Tensor, memory: Tensor, before: Tensor) -> Tensor:
        key, strength, gate, shift, sharp = made.split([6, 1, 1, 3, 1], dim=-1)
        match = F.cosine_similarity(memory, key[:, None], dim=-1)
        w = (F.softplus(strength) * match).softmax(-1)
        w = gate.sigmoid() * w + (1 - gate.sigmoid()) * before
        s = shift.softmax(-1)
        w = sum(s[:, i : i + 1] * w.roll(i - 1, dims=-1) for i in range(3))
        w = w ** (1 + F.softplus(sharp))
        return w / w.sum(-1, keepdim=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b = len(x)
        memory, read = torch.full((b, 5, 6), 1e-2), torch.zeros(b, 6)
        w_read = w_write = torch.full((b, 5), 0.2)
        state, found = None, []
        for t in range(x.shape[1]):
            state = self.controller(torch.cat([x[:, t], read], -1), state)
            made = self.heads(state[0])
            w_read = self._address(made[:, :12], memory, w_read)
            w_write = self._address(made[:, 12:24], memory, w_write)
            erase, add = made[:, 24:30].sigmoid(), made[:, 30:].tanh()
            memory = memory * (1 - w_write[..., None] * erase[:, None]) + w_write[..., None] * add[:, None]
            read = torch.einsum("bn,bnd->bd", w_read, memory)
            found.append(self.out(torch.cat([state[0], read], -1)))
        return torch.stack(found, 1), memory


@small
def turing_machine() -> tuple[Any, ...]:
    """A controller with heads that read and write a memory, as the neural Turing machine."""
    return _NTM(), torch.randn(2, 5, 4)


class _MemoryNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.keys, self.values, self.head = nn.EmbeddingBag(20, 8, mode="sum"), nn.EmbeddingBag(20, 8), nn.Linear(8, 20)

    def forward(self, story: Tensor, question: Tensor) -> Tensor:
        u = self.keys(question)
        m, c = (bag(story.flatten(0, 1)).unflatten(0, story.shape[:2]) for bag in (self.keys, self.values))
        for _ in range(3):
            u = u + ((m @ u[..., None]).softmax(1) * c).sum(1)
        return self.head(u)


@small
def memory_network() -> tuple[Any, ...]:
    """Three hops over sentences, as the end-to-end memory network."""
    return _MemoryNetwork(), torch.randint(20, (2, 4, 6)), torch.randint(20, (2, 5))


class _Selective(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.out, self.conv = nn.Linear(8, 32), nn.Linear(16, 8), nn.Conv1d(16, 16, 4, groups=16, padding=3)
        self.made, self.step = nn.Linear(16, 1 + 2 * 4), nn.Linear(1, 16)
        self.log_a, self.d = nn.Parameter(torch.arange(1.0, 5).log().repeat(16, 1)), nn.Parameter(torch.ones(16))

    def forward(self, x: Tensor) -> Tensor:
        x, gate = self.into(x).chunk(2, -1)
        x = F.silu(self.conv(x.mT)[..., : x.shape[1]]).mT
        dt, b, c = self.made(x).split([1, 4, 4], -1)
        dt = F.softplus(self.step(dt))[..., None]  # (batch, time, unit, 1)
        decay, gain = torch.exp(dt * -self.log_a.exp()), dt * b[:, :, None] * x[..., None]
        h, found = torch.zeros_like(gain[:, 0]), []
        for t in range(x.shape[1]):
            h = decay[:, t] * h + gain[:, t]
            found.append((h * c[:, t, None]).sum(-1))
        return self.out((torch.stack(found, 1) + self.d * x) * F.silu(gate))


@small
def selective_scan() -> tuple[Any, ...]:
    """A state space whose steps depend on the input, scanned in time, as Mamba."""
    return nn.Sequential(nn.RMSNorm(8), _Selective()), torch.randn(2, 6, 8)


class _Structured(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.complex(-torch.rand(8, 4), torch.arange(4.0).repeat(8, 1)))
        self.c, self.log_step = (
            nn.Parameter(torch.randn(8, 4, dtype=torch.cfloat)),
            nn.Parameter(torch.full((8,), -2.0)),
        )

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        powers = torch.exp(self.a * self.log_step.exp()[:, None])[..., None] ** torch.arange(n)
        kernel = 2 * torch.einsum("hs,hst->ht", self.c, powers).real
        spectrum = torch.fft.rfft(kernel, n=2 * n) * torch.fft.rfft(x.mT, n=2 * n)
        return F.gelu(torch.fft.irfft(spectrum, n=2 * n)[..., :n].mT) + x


@small
def state_space() -> tuple[Any, ...]:
    """A long convolution by the Fourier transform, with complex parameters, as S4D."""
    return _Structured(), torch.randn(2, 10, 8)


class _RWKV(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.decay, self.bonus, self.mix = (
            nn.Parameter(torch.rand(8)),
            nn.Parameter(torch.rand(8)),
            nn.Parameter(torch.rand(3, 8)),
        )
        self.k, self.v, self.r, self.out = (nn.Linear(8, 8, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        before = F.pad(x, (0, 0, 1, -1))
        k, v, r = (f(x * m + before * (1 - m)) for f, m in zip((self.k, self.v, self.r), self.mix, strict=True))
        above, below, most = torch.zeros(len(x), 8), torch.zeros(len(x), 8), torch.full((len(x), 8), -1e38)
        found = torch.empty_like(v)
        for t in range(x.shape[1]):
            top = torch.maximum(most, self.bonus + k[:, t])
            a, b = (most - top).exp(), (self.bonus + k[:, t] - top).exp()
            found[:, t] = (a * above + b * v[:, t]) / (a * below + b)
            top = torch.maximum(most - self.decay.exp(), k[:, t])
            a, b = (most - self.decay.exp() - top).exp(), (k[:, t] - top).exp()
            above, below, most = a * above + b * v[:, t], a * below + b, top
        return self.out(r.sigmoid() * found)


@small
def rwkv() -> tuple[Any, ...]:
    """Averages that decay in time, written in place, as RWKV."""
    return _RWKV(), torch.randn(2, 6, 8)


class _Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.flatten(0, -2)
        shares = self.gate(flat).softmax(-1)
        weights, chosen = shares.topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == i)
            if len(token):
                out.index_add_(0, token, expert(flat[token]) * weights[token, slot, None])
        load = F.one_hot(chosen, 4).float().mean((0, 1)) @ shares.mean(0) * 4
        return out.view_as(x), load


@small
def experts() -> tuple[Any, ...]:
    """Two experts of four for each token, as the sparsely gated mixture."""
    return _Experts(), torch.randn(2, 5, 8)


class _Adaptive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step, self.halt = nn.GRUCell(8, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h, out, left, n = torch.zeros_like(x), torch.zeros_like(x), torch.ones(len(x)), torch.zeros(len(x))
        while bool((left > 0.01).any()) and n.max() < 8:
            h = self.step(x, h)
            p = torch.minimum(self.halt(h).squeeze(-1).sigmoid(), left)
            out, left, n = out + p[:, None] * h, left - p, n + (left > 0.01)
        return out + left[:, None] * h, n


@small
def adaptive_time() -> tuple[Any, ...]:
    """As many steps as the input asks for, as adaptive computation time."""
    return _Adaptive(), torch.randn(3, 8)
