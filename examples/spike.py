"""Trains on images of strokes, one of which was never divided by 255, and records what leads to it.

Run it with: python examples/spike.py [folder] [steps]. Then open the viewer and click the first spike of the loss.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import cutaway

N_IMAGES, SIDE, BATCH, KEPT = 1024, 24, 32, 12
BAD = 812
"""The image whose pixels are 0 to 255 instead of 0 to 1, and whose label is wrong."""
WRITERS = ("03", "07", "11", "15")


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
        self.blocks = nn.ModuleList(Block(8) for _ in range(3))
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 9, 8)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        for block in self.blocks:
            x = block(x)
        return self.head(nn.functional.adaptive_avg_pool2d(self.norm(x), 3).flatten(1))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv2d(width, width, 3, padding=1), nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.act(self.conv(x))


def strokes() -> tuple[Tensor, Tensor]:
    """Images of a bent stroke in one of eight directions, and the direction of each."""
    noise = torch.Generator().manual_seed(0)
    labels = torch.arange(N_IMAGES) % 8
    along = torch.linspace(-1, 1, 40)
    images = 0.05 * torch.rand(N_IMAGES, 1, SIDE, SIDE, generator=noise)
    for number, label in enumerate(labels.tolist()):
        angle = torch.tensor(label * torch.pi / 8)
        bend = 0.3 * torch.randn(1, generator=noise) * along**2
        x = (along * angle.cos() - bend * angle.sin()) * 9 + 11.5
        y = (along * angle.sin() + bend * angle.cos()) * 9 + 11.5
        images[number, 0, y.round().long().clamp(0, SIDE - 1), x.round().long().clamp(0, SIDE - 1)] = 1
    images[BAD] *= 255
    labels[BAD] = (labels[BAD] + 4) % 8
    return images, labels


def train(folder: Path, n_steps: int) -> Path:
    torch.manual_seed(1)
    model, (images, labels) = Reader(), strokes()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    shuffle = torch.Generator().manual_seed(2)
    usual = float("inf")
    with cutaway.record(folder, model, every=1, samples=KEPT, config={"lr": 2e-3, "batch": BATCH}) as run:
        for number in range(n_steps):
            chosen = torch.randint(0, N_IMAGES, (BATCH,), generator=shuffle)
            # The bad image comes back now and then, as in every epoch.
            chosen = torch.where(chosen == BAD, 0, chosen)
            if number % 43 == 36:
                chosen[9] = BAD
            with run.step(kind=None):  # whether it is worth keeping is known when its loss is
                losses = nn.functional.cross_entropy(model(images[chosen]), labels[chosen], reduction="none")
                loss = losses.mean()
                run.log(loss=loss)
                run.samples(
                    ids=chosen.tolist(),
                    label=labels[chosen],
                    image=images[chosen, 0],
                    writer=[WRITERS[index % 4] for index in chosen.tolist()],
                    loss=losses,
                )
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                now = loss.item()
                if number % 5 == 0 or now > 1.5 * usual:
                    run.keep("train", samples=KEPT, by=losses)
                usual = now if number < 10 else 0.9 * usual + 0.1 * min(now, usual)
    return Path(run.path)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo/spike")
    folder = train(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 300)
    run = cutaway.load(folder, expect=cutaway.Run)
    losses = run.scalars["loss"]
    peak = int(losses.steps[losses.values.argmax()])
    print(f"{len(run)} of {len(losses.steps)} steps were kept. Largest loss: {losses.values.max():.2f}, at step {peak}")
    samples = run.at(peak).samples
    print(f"The sample with the largest loss there: {samples.ids[samples.fields['loss'].argmax()]}")
    print(f"Find it with three clicks: {os.path.relpath(sys.executable)} -m cutaway view {folder}")


if __name__ == "__main__":
    main()
