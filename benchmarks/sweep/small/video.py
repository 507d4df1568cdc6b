"""Video: space and time together, one after the other, or frame by frame."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.sweep.small.registry import small


def _clip() -> Tensor:
    return torch.randn(2, 3, 6, 16, 16)  # (batch, channel, frame, row, column)


class _Factorized(nn.Module):
    def __init__(self, i: int, o: int, stride: int = 1) -> None:
        super().__init__()
        self.space = nn.Conv3d(i, o, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
        self.time = nn.Conv3d(o, o, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm3d(o), nn.BatchNorm3d(o)])
        self.short = nn.Conv3d(i, o, 1, stride) if stride > 1 or i != o else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norms[0](self.space(x)), inplace=True)
        return F.relu_(self.norms[1](self.time(y)) + self.short(x))


@small
def r2plus1d() -> tuple[Any, ...]:
    """Convolutions over space, then over time, in residual blocks, as R(2+1)D."""
    blocks = [_Factorized(3, 8), _Factorized(8, 16, 2), _Factorized(16, 16)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(16, 4)), _clip()


class _ConvLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Conv2d(3 + 8, 4 * 8, 3, padding=1)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, clip: Tensor) -> Tensor:
        h = c = clip.new_zeros(len(clip), 8, *clip.shape[-2:])
        frames = []
        for frame in clip.unbind(2):
            i, f, o, g = self.gates(torch.cat([frame, h], dim=1)).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            frames.append(self.head(h))
        return torch.stack(frames, dim=2)


@small
def conv_lstm() -> tuple[Any, ...]:
    """An LSTM whose gates are convolutions, over the frames."""
    return _ConvLSTM(), _clip()


class _Divided(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.time = nn.MultiheadAttention(width, 2, batch_first=True)
        self.space = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        b, t, s, d = x.shape  # (batch, frame, patch, unit)
        y = self.norms[0](x).transpose(1, 2).reshape(b * s, t, d)
        x = x + self.time(y, y, y, need_weights=False)[0].reshape(b, s, t, d).transpose(1, 2)
        y = self.norms[1](x).reshape(b * t, s, d)
        x = x + self.space(y, y, y)[0].reshape(b, t, s, d)
        return x + self.mlp(self.norms[2](x))


class _TimeSformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.when = nn.Parameter(torch.randn(6, 1, 16))
        self.where = nn.Parameter(torch.randn(4, 16))
        self.blocks = nn.ModuleList(_Divided(16) for _ in range(2))
        self.head = nn.Linear(16, 4)

    def forward(self, clip: Tensor) -> Tensor:
        b = len(clip)
        x = self.patches(clip.transpose(1, 2).flatten(0, 1)).flatten(2).mT.unflatten(0, (b, -1))
        x = x + self.when + self.where
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((1, 2)))


@small
def timesformer() -> tuple[Any, ...]:
    """Attention over time, then over space, as TimeSformer."""
    return _TimeSformer(), _clip()


class _SlowFast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slow = nn.Conv3d(3, 16, (1, 5, 5), (1, 2, 2), (0, 2, 2))
        self.fast = nn.Conv3d(3, 4, (3, 5, 5), (1, 2, 2), (1, 2, 2))
        self.lateral = nn.Conv3d(4, 8, (3, 1, 1), (3, 1, 1))
        self.mixed = nn.Conv3d(24, 16, 3, padding=1)
        self.head = nn.Linear(20, 4)

    def forward(self, clip: Tensor) -> Tensor:
        slow, fast = self.slow(clip[:, :, ::3]).relu(), self.fast(clip).relu()
        slow = self.mixed(torch.cat([slow, self.lateral(fast)], dim=1)).relu()
        return self.head(torch.cat([slow.amax((2, 3, 4)), fast.mean((2, 3, 4))], dim=1))


@small
def slow_fast() -> tuple[Any, ...]:
    """Two frame rates with a link between them, as SlowFast."""
    return _SlowFast(), _clip()


class _Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 8, 3, 2, 1)
        self.update = nn.GRUCell(8 + 2 + 8, 16)
        self.delta = nn.Linear(16, 2)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        a, b = self.features(first), self.features(second)
        n, c, h, w = a.shape
        grid = F.affine_grid(torch.eye(2, 3).expand(n, 2, 3), [n, c, h, w], align_corners=False)
        flow, state = torch.zeros(n, h, w, 2), torch.zeros(n * h * w, 16)
        for _ in range(3):
            warped = F.grid_sample(b, grid + flow, align_corners=False)
            seen = torch.cat([a, warped], dim=1).permute(0, 2, 3, 1)
            state = self.update(torch.cat([seen[..., :8], flow, seen[..., 8:]], -1).flatten(0, 2), state)
            flow = flow + self.delta(state).view(n, h, w, 2) * 0.1
        return F.interpolate(flow.permute(0, 3, 1, 2), scale_factor=2, mode="bilinear")


@small
def recurrent_flow() -> tuple[Any, ...]:
    """Optical flow refined by a GRU that warps and looks again, as RAFT."""
    return _Flow(), torch.randn(1, 3, 16, 16), torch.randn(1, 3, 16, 16)
