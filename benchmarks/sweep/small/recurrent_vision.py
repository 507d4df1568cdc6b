"""Recurrent vision: networks that look several times, in the order of the visual stream or over glimpses."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.sweep.small.registry import small


class _AreaS(nn.Module):
    def __init__(self, i: int, o: int, times: int) -> None:
        super().__init__()
        self.times = times
        self.input, self.skip = nn.Conv2d(i, o, 1), nn.Conv2d(o, o, 1, 2)
        self.conv1, self.conv2 = nn.Conv2d(o, 2 * o, 1), nn.Conv2d(2 * o, 2 * o, 3, 2, 1)
        self.conv2b, self.conv3 = nn.Conv2d(2 * o, 2 * o, 3, 1, 1), nn.Conv2d(2 * o, o, 1)
        for t in range(times):
            setattr(self, f"norm_{t}", nn.BatchNorm2d(o))

    def forward(self, x: Tensor) -> Tensor:
        x = self.input(x)
        for t in range(self.times):
            short = self.skip(x) if t == 0 else x
            y = F.relu(self.conv1(x))
            y = F.relu(self.conv2(y) if t == 0 else self.conv2b(y))
            x = F.relu(getattr(self, f"norm_{t}")(self.conv3(y)) + short)
        return x


@small
def cornet_s() -> tuple[Any, ...]:
    """Areas that run several times, with a norm for each time, as CORnet-S."""
    first = nn.Sequential(nn.Conv2d(3, 8, 5, 2, 2), nn.ReLU())
    areas = [_AreaS(8, 8, 2), _AreaS(8, 16, 4), _AreaS(16, 16, 2)]
    return nn.Sequential(first, *areas, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)), torch.randn(
        2, 3, 32, 32
    )


class _AreaRT(nn.Module):
    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.input, self.conv = nn.Conv2d(i, o, 3, 2, 1), nn.Conv2d(o, o, 3, padding=1)
        self.norm = nn.GroupNorm(4, o)

    def forward(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        x = F.relu(self.input(x))
        x = F.relu(self.norm(self.conv(x if state is None else x + state)))
        return x, x


class _CORnetRT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = (3, 8, 8, 16)
        self.areas = nn.ModuleList(_AreaRT(i, o) for i, o in itertools.pairwise(widths))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor, times: int = 4) -> Tensor:
        outputs: list[Tensor | None] = [None] * 3
        states: list[Tensor | None] = [None] * 3
        for t in range(times):
            before = [x, *outputs[:-1]]
            for i, area in enumerate(self.areas):
                given = before[i]
                if i <= t and given is not None:
                    outputs[i], states[i] = area(given, states[i])
        last = outputs[-1]
        assert last is not None
        return self.head(last.mean((2, 3)))


@small
def cornet_rt() -> tuple[Any, ...]:
    """A wave through the areas, each with a state, unrolled in biological time, as CORnet-RT."""
    return _CORnetRT(), torch.randn(2, 3, 24, 24)


class _PredNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bottom, self.top = nn.Conv2d(2 * 1 + 8 + 8, 32, 3, padding=1), nn.Conv2d(2 * 4 + 8, 32, 3, padding=1)
        self.guess = nn.ModuleList([nn.Conv2d(8, 1, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)])
        self.raise_ = nn.Conv2d(2, 4, 3, padding=1)

    @staticmethod
    def _step(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, o, g = gates.chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def forward(self, clip: Tensor) -> tuple[Tensor, Tensor]:
        n, _, _, h, w = clip.shape
        r0 = c0 = torch.zeros(n, 8, h, w)
        r1 = c1 = torch.zeros(n, 8, h // 2, w // 2)
        e0, e1 = torch.zeros(n, 2, h, w), torch.zeros(n, 8, h // 2, w // 2)
        losses = []
        for frame in clip.unbind(1):
            r1, c1 = self._step(self.top(torch.cat([e1, r1], 1)), c1)
            above = F.interpolate(r1, scale_factor=2)
            r0, c0 = self._step(self.bottom(torch.cat([e0, r0, above], 1)), c0)
            wrong = self.guess[0](r0).clamp(max=1) - frame
            e0 = torch.cat([wrong.relu(), wrong.neg().relu()], 1)
            target = F.max_pool2d(self.raise_(e0).relu(), 2)
            wrong = self.guess[1](r1).relu() - target
            e1 = torch.cat([wrong.relu(), wrong.neg().relu()], 1)
            losses.append(e0.mean() + 0.1 * e1.mean())
        return torch.stack(losses), e1


@small
def prednet() -> tuple[Any, ...]:
    """Predictions downwards, errors upwards, over frames, as PredNet."""
    return _PredNet(), torch.rand(2, 4, 1, 8, 8)


class _Glimpses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look, self.cell = nn.Linear(2 * 16 + 2, 16), nn.GRUCell(16, 16)
        self.where, self.head = nn.Linear(16, 2), nn.Linear(16, 4)

    def _seen(self, image: Tensor, place: Tensor) -> Tensor:
        parts = []
        for scale in (0.25, 0.5):
            theta = torch.cat([torch.eye(2).mul(scale).expand(len(image), 2, 2), place[..., None]], dim=2)
            parts.append(F.grid_sample(image, F.affine_grid(theta, [len(image), 1, 4, 4], False), align_corners=False))
        return torch.cat([*(part.flatten(1) for part in parts), place], dim=1)

    def forward(self, image: Tensor, n_glimpses: int) -> tuple[Tensor, Tensor]:
        h, place = torch.zeros(len(image), 16), torch.zeros(len(image), 2)
        logs = []
        for _ in range(n_glimpses):
            h = self.cell(F.relu(self.look(self._seen(image, place))), h)
            chosen = torch.distributions.Normal(self.where(h).tanh(), 0.1)
            place = chosen.sample().clamp(-1, 1)
            logs.append(chosen.log_prob(place).sum(-1))
        return self.head(h), torch.stack(logs, 1)


@small
def glimpses() -> tuple[Any, ...]:
    """A recurrent network that samples where to look next, as the recurrent attention model."""
    return _Glimpses(), torch.randn(3, 1, 16, 16), 4


class _BLT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)])
        self.side = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(2))
        self.down = nn.ConvTranspose2d(8, 8, 2, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> list[Tensor]:
        low = high = torch.zeros(())
        found = []
        for t in range(4):
            below = self.up[0](x)
            if t:
                below = below + self.side[0](low) + self.down(high)
            low = F.local_response_norm(F.relu(below), 3)
            above = self.up[1](F.max_pool2d(low, 2))
            high = F.local_response_norm(F.relu(above + self.side[1](high) if t else above), 3)
            found.append(self.head(high.amax((2, 3))).softmax(-1))
        return found


@small
def blt() -> tuple[Any, ...]:
    """Links upwards, sideways and downwards, and a readout at each time, as the BLT networks."""
    return _BLT(), torch.randn(2, 3, 8, 8)


class _Slots(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.mean, self.spread = (
            nn.Conv2d(3, 12, 5, 2, 2),
            nn.Parameter(torch.randn(12)),
            nn.Parameter(torch.zeros(12)),
        )
        self.norm, self.q, self.kv = nn.LayerNorm(12), nn.Linear(12, 12), nn.Linear(12, 24)
        self.cell, self.mlp = (
            nn.GRUCell(12, 12),
            nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12)),
        )

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        k, v = self.kv(self.encode(image).relu().flatten(2).mT).chunk(2, -1)
        slots = self.mean + self.spread.exp() * torch.randn(len(image), 4, 12)
        weights = k
        for _ in range(3):
            weights = (self.q(self.norm(slots)) @ k.mT / 12**0.5).softmax(dim=1)  # slots compete for each place
            seen = (weights / weights.sum(-1, keepdim=True)) @ v
            slots = self.cell(seen.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
            slots = slots + self.mlp(slots)
        return slots, weights


@small
def slot_attention() -> tuple[Any, ...]:
    """Slots that compete for places and are refined three times, as slot attention."""
    return _Slots(), torch.randn(2, 3, 12, 12)
