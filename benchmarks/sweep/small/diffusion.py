"""Diffusion and flow matching: noise predictors and the loops that sample with them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.sweep.small.registry import small


def _when(t: Tensor, width: int) -> Tensor:
    """Sines and cosines of the time."""
    rates = torch.exp(-math.log(10_000) * torch.arange(width // 2) / (width // 2))
    angles = t[:, None].float() * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class _Block(nn.Module):
    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(4, i), nn.GroupNorm(4, o)])
        self.convs = nn.ModuleList([nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)])
        self.time = nn.Linear(16, o)
        self.short = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = self.convs[0](F.silu(self.norms[0](x))) + self.time(t)[:, :, None, None]
        return self.convs[1](F.silu(self.norms[1](h))) + self.short(x)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16))
        self.first, self.down = nn.Conv2d(1, 8, 3, padding=1), nn.ModuleList([_Block(8, 8), _Block(8, 16)])
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.up, self.last = nn.ModuleList([_Block(32, 8), _Block(16, 8)]), nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        t = self.time(_when(t, 16))
        x, kept = self.first(x), []
        for block in self.down:
            x = block(x, t)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        flat = x.flatten(2).mT
        x = x + self.attention(flat, flat, flat)[0].mT.reshape(x.shape)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([x, kept.pop()], dim=1), t)
        return self.last(x)


class _DDPM(nn.Module):
    def __init__(self, n_steps: int) -> None:
        super().__init__()
        self.net = _UNet()
        betas = torch.linspace(1e-4, 0.2, n_steps)
        self.register_buffer("betas", betas)
        self.register_buffer("kept", torch.cumprod(1 - betas, 0))

    def forward(self, shape: list[int]) -> Tensor:
        x = torch.randn(shape)
        for t in reversed(range(len(self.betas))):
            beta, kept = self.betas[t], self.kept[t]
            noise = self.net(x, torch.full((shape[0],), t))
            x = (x - beta / (1 - kept).sqrt() * noise) / (1 - beta).sqrt()
            if t > 0:
                x = x + beta.sqrt() * torch.randn_like(x)
        return x.clamp(-1, 1)


@small
def ddpm() -> tuple[Any, ...]:
    """A UNet that knows the time, in the sampling loop of DDPM."""
    return _DDPM(4), [2, 1, 8, 8]


class _Guided(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.label = _UNet(), nn.Embedding(4, 64)
        self.register_buffer("kept", torch.linspace(0.99, 0.1, 10))

    def forward(self, label: Tensor, scale: float) -> Tensor:
        x, b = torch.randn(len(label), 1, 8, 8), len(label)
        times = torch.linspace(9, 0, 4).round().long()
        for now, then in itertools.pairwise(times):
            both = torch.cat([x, x + self.label(label).view(b, 1, 8, 8)])
            free, led = self.net(both, now.expand(2 * b)).chunk(2)
            noise = free + scale * (led - free)
            clean = (x - (1 - self.kept[now]).sqrt() * noise) / self.kept[now].sqrt()
            x = self.kept[then].sqrt() * clean + (1 - self.kept[then]).sqrt() * noise
        return x


@small
def guided_ddim() -> tuple[Any, ...]:
    """Fewer steps without noise, two predictions in one batch, as DDIM with classifier-free guidance."""
    return _Guided(), torch.tensor([1, 3]), 3.0


class _DiTBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU("tanh"), nn.Linear(32, width))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        shift, scale, gate, shift2, scale2, gate2 = self.modulation(t)[:, None].chunk(6, dim=-1)
        y = self.norms[0](x) * (1 + scale) + shift
        q, k, v = self.qkv(y).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        x = x + gate * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + gate2 * self.mlp(self.norms[1](x) * (1 + scale2) + shift2)


class _DiT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.blocks = nn.Conv2d(4, 16, 2, 2), nn.ModuleList(_DiTBlock(16) for _ in range(2))
        self.position, self.head = nn.Parameter(torch.randn(16, 16)), nn.Linear(16, 16)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).mT + self.position
        for block in self.blocks:
            y = block(y, _when(t, 16))
        return F.pixel_shuffle(self.head(y).mT.unflatten(2, (4, 4)), 2)


@small
def dit() -> tuple[Any, ...]:
    """A transformer over patches whose norms are set by the time, as DiT."""
    return _DiT(), torch.randn(2, 4, 8, 8), torch.tensor([3, 500])


class _FlowMatching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.velocity = nn.Sequential(nn.Linear(2 + 8, 32), nn.SiLU(), nn.Linear(32, 2))

    def forward(self, x: Tensor, n_steps: int) -> tuple[Tensor, Tensor]:
        path = [x]
        for i in range(n_steps):
            t = torch.full((len(x),), i / n_steps)
            x = x + self.velocity(torch.cat([x, _when(t, 8)], -1)) / n_steps
            path.append(x)
        return x, torch.stack(path)


@small
def flow_matching() -> tuple[Any, ...]:
    """Euler steps along a learned velocity, as flow matching."""
    return _FlowMatching(), torch.randn(5, 2), 8


class _Score(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 1))

    def forward(self, x: Tensor, n_steps: int) -> Tensor:
        for _ in range(n_steps):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                (slope,) = torch.autograd.grad(self.energy(x).sum(), x)
            x = x - 0.1 * slope + 0.2**0.5 * torch.randn_like(x)
        return x.detach()


@small
def langevin() -> tuple[Any, ...]:
    """Noisy steps down the gradient of an energy, which is taken inside the forward."""
    return _Score(), torch.randn(4, 2), 4


class _Discrete(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(13, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(16, 12)

    def forward(self, n_tokens: int, n_steps: int) -> Tensor:
        tokens = torch.full((1, n_tokens), 12)
        for i in range(n_steps):
            probabilities = self.head(self.body(self.embed(tokens))).softmax(-1)
            sure, best = probabilities.max(-1)
            sure = sure.masked_fill(tokens != 12, -1)
            n = max(1, int((tokens == 12).sum()) // (n_steps - i))
            where = sure.topk(n, dim=-1).indices
            tokens = tokens.scatter(1, where, best.gather(1, where))
        return tokens


@small
def masked_diffusion() -> tuple[Any, ...]:
    """Masked tokens filled in, the surest first, as MaskGIT and masked language diffusion."""
    return _Discrete(), 8, 3
