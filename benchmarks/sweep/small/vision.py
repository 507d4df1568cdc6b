"""Images, points, scenes and sets."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.sweep.small.registry import small


class _Double(nn.Sequential):
    def __init__(self, i: int, o: int) -> None:
        layers = [(nn.Conv2d(a, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True)) for a in (i, o)]
        super().__init__(*(layer for group in layers for layer in group))


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([_Double(3, 8), _Double(8, 16), _Double(16, 32)])
        self.raised = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.up, self.head = nn.ModuleList([_Double(32, 16), _Double(16, 8)]), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for raised, block, before in zip(self.raised, self.up, reversed(kept[:-1]), strict=True):
            x = raised(x)
            dy, dx = before.shape[2] - x.shape[2], before.shape[3] - x.shape[3]
            x = block(torch.cat([before, F.pad(x, (dx // 2, dx - dx // 2, dy // 2, dy - dy // 2))], dim=1))
        return self.head(x)


@small
def unet() -> tuple[Any, ...]:
    """Down, up and across, on a side that does not divide evenly, as U-Net."""
    return _UNet(), torch.randn(1, 3, 18, 22)


class _Capsules(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.primary = nn.Conv2d(1, 8, 5), nn.Conv2d(8, 4 * 4, 3, 2)
        self.weights = nn.Parameter(torch.randn(3, 36, 4, 6) * 0.1)

    @staticmethod
    def _squash(x: Tensor) -> Tensor:
        n = x.square().sum(-1, keepdim=True)
        return n / (1 + n) * x / (n + 1e-8).sqrt()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        u = self._squash(
            self.primary(self.conv(x).relu()).unflatten(1, (4, 4)).flatten(3).permute(0, 1, 3, 2).flatten(1, 2)
        )
        votes = torch.einsum("bid,oide->boie", u, self.weights)
        logits, v = torch.zeros(votes.shape[:3]), votes
        for i in range(3):
            v = self._squash((logits.softmax(1)[..., None] * votes).sum(2))
            if i < 2:
                logits = logits + (votes * v[:, :, None]).sum(-1)
        return v.norm(dim=-1), v


@small
def capsules() -> tuple[Any, ...]:
    """Votes routed three times by agreement, as the capsule network."""
    return _Capsules(), torch.randn(2, 1, 12, 12)


class _PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.align = nn.Sequential(
            nn.Conv1d(3, 16, 1), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(16, 9)
        )
        self.body = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1))
        self.local, self.head = nn.Conv1d(6, 8, 1), nn.Linear(32 + 8, 4)

    def forward(self, points: Tensor) -> Tensor:
        turned = torch.bmm(points, self.align(points.mT).view(-1, 3, 3) + torch.eye(3))
        near = torch.cdist(turned, turned).topk(4, largest=False).indices  # (batch, point, neighbor)
        others = turned[torch.arange(len(points))[:, None, None], near]
        edges = torch.cat([others - turned[:, :, None], others], -1).amax(2)
        found = torch.cat([self.body(turned.mT).max(-1).values, self.local(edges.mT).amax(-1)], -1)
        return self.head(found)


@small
def point_net() -> tuple[Any, ...]:
    """A cloud of points turned, each with its neighbors, then the maximum, as PointNet and DGCNN."""
    return _PointNet(), torch.randn(2, 20, 3)


class _NeRF(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.density = (
            nn.Sequential(nn.Linear(3 * 8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()),
            nn.Linear(32, 1),
        )
        self.color = nn.Linear(32 + 3, 3)

    @staticmethod
    def _waves(x: Tensor) -> Tensor:
        angles = x[..., None] * 2.0 ** torch.arange(4) * math.pi
        return torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)

    def forward(self, origins: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        depths = torch.linspace(0, 1, 9)[:-1] + torch.rand(len(origins), 8) / 8  # stratified
        points = origins[:, None] + directions[:, None] * depths[..., None]
        h = self.body(self._waves(points))
        sigma = F.softplus(self.density(h)).squeeze(-1)
        color = self.color(torch.cat([h, directions[:, None].expand_as(points)], -1)).sigmoid()
        alpha = 1 - torch.exp(-sigma * torch.diff(depths, append=torch.full((len(depths), 1), 2.0)))
        passed = torch.cumprod(torch.cat([torch.ones(len(alpha), 1), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        weights = alpha * passed
        return (weights[..., None] * color).sum(1), (weights * depths).sum(1)


@small
def nerf() -> tuple[Any, ...]:
    """Color and density along rays, put together by their transparency, as NeRF."""
    return _NeRF(), torch.randn(4, 3), F.normalize(torch.randn(4, 3), dim=-1)


class _Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 8)
        )

    def forward(self, anchor: Tensor, good: Tensor, bad: Tensor) -> tuple[Tensor, Tensor]:
        a, p, n = (F.normalize(self.tower(x), dim=-1) for x in (anchor, good, bad))
        return F.triplet_margin_loss(a, p, n, margin=0.5), F.pairwise_distance(a, p)


@small
def siamese() -> tuple[Any, ...]:
    """One tower three times, and the triplet loss."""
    return _Siamese(), *(torch.randn(2, 1, 8, 8) for _ in range(3))


class _Contrast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Sequential(nn.Flatten(), nn.Linear(64, 8)), nn.EmbeddingBag(20, 8)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        a, b = F.normalize(self.image(images), dim=-1), F.normalize(self.text(texts), dim=-1)
        logits = self.scale.exp().clamp(max=100) * a @ b.T
        goal = torch.arange(len(a))
        return logits, (F.cross_entropy(logits, goal) + F.cross_entropy(logits.T, goal)) / 2


@small
def contrastive_pair() -> tuple[Any, ...]:
    """Images against texts with a symmetric loss, as CLIP."""
    return _Contrast(), torch.randn(3, 1, 8, 8), torch.randint(20, (3, 5))


class _Pooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.points, self.seeds = nn.Parameter(torch.randn(1, 3, 8)), nn.Parameter(torch.randn(1, 2, 8))
        self.attentions = nn.ModuleList(nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(3))
        self.norms, self.head = nn.ModuleList(nn.LayerNorm(8) for _ in range(3)), nn.Linear(16, 4)

    def _attend(self, i: int, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.norms[i](x + self.attentions[i](x, y, y, key_padding_mask=mask)[0])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        points = self.points.expand(len(x), -1, -1)
        x = self._attend(1, x, self._attend(0, points, x, mask))
        return self.head(self._attend(2, self.seeds.repeat(len(x), 1, 1), x, mask).flatten(1))


@small
def set_transformer() -> tuple[Any, ...]:
    """Attention through inducing points, pooled by learned seeds, on sets of different size."""
    return _Pooling(), torch.randn(2, 6, 8), torch.tensor([[False] * 6, [False] * 4 + [True] * 2])


class _SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(100, 6))
        self.where[-1].weight.data.zero_()
        self.where[-1].bias.data.copy_(torch.tensor([1.0, 0, 0, 0, 1, 0]))
        self.head = nn.Sequential(nn.Conv2d(1, 4, 3), nn.LeakyReLU(), nn.Flatten(), nn.LazyLinear(3))

    def forward(self, x: Tensor) -> Tensor:
        grid = F.affine_grid(self.where(x).view(-1, 2, 3), list(x.shape), align_corners=False)
        return self.head(F.grid_sample(x, grid, align_corners=False))


@small
def spatial_transformer() -> tuple[Any, ...]:
    """An image turned by what a network says, as the spatial transformer; its last layer is lazy."""
    model, image = _SpatialTransformer(), torch.randn(2, 1, 14, 14)
    model(image)
    return model, image


class _Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.query = nn.Conv2d(3, 16, 4, 4), nn.Parameter(torch.randn(5, 16))
        layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)
        self.decoder, self.label, self.box = nn.TransformerDecoder(layer, 2), nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> list[dict[str, Tensor]]:
        seen = self.body(x).flatten(2).mT
        h = self.decoder(self.query.expand(len(x), -1, -1), seen)
        scores, boxes = self.label(h).softmax(-1)[..., :-1].max(-1)[0], self.box(h).sigmoid()
        found = []
        for score, box in zip(scores, boxes, strict=True):
            keep = score > score.median()
            found.append({"scores": score[keep], "boxes": box[keep]})
        return found


@small
def set_detector() -> tuple[Any, ...]:
    """Learned queries that become boxes, a different number for each image, as DETR."""
    return _Detector(), torch.randn(2, 3, 16, 16)


class _Upscaler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(12, 12, 3, padding=1)
        self.dense = nn.ModuleList(nn.Conv2d(12 + 4 * i, 4, 3, padding=1) for i in range(3))
        self.fuse = nn.Conv2d(24, 12, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = first = self.first(x)
        for conv in self.dense:
            y = torch.cat([y, F.leaky_relu_(conv(y), 0.2)], dim=1)
        return F.pixel_shuffle(self.last(self.fuse(y).mul_(0.2).add_(first)), 2).clamp_(0, 1)


@small
def super_resolution() -> tuple[Any, ...]:
    """Dense residual convolutions and shuffled pixels, as ESRGAN."""
    return _Upscaler(), torch.rand(1, 3, 8, 8)
