"""Which hidden units does a classifier need, and for which class?

1. train a small classifier on made-up data: four classes, each around two centers of its own;
2. switch off each hidden unit in turn, and measure the accuracy of each class;
3. print what every class loses with the units that matter most to it, and check one of them by hand.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import cutaway

N_CLASSES = 4


def main() -> None:
    torch.manual_seed(0)
    centers = 2.5 * torch.randn(2 * N_CLASSES, 10)
    x, y = samples(centers, 2000)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, N_CLASSES))
    train(model, x, y)

    x, y = samples(centers, 1000)

    @torch.no_grad()
    def accuracy() -> Tensor:
        right = model(x).argmax(1) == y
        return torch.stack([right[y == label].float().mean() for label in range(N_CLASSES)])

    lesions = cutaway.studies.lesion(model, accuracy, at="1", each="unit")
    print(lesions)
    print()
    for label in range(N_CLASSES):
        lost = [f"{name} {lesions.effect[lesions.names.index(name), label]:+.0%}" for name in lesions.top(3, of=label)]
        print(f"class {label}, {lesions.baseline[label]:.0%} right, loses most with {', '.join(lost)}")

    best = lesions.top(1)
    with cutaway.edit(model, at=best, to=0):
        again = accuracy()
    same = again.double().equal(torch.from_numpy(lesions.scores[lesions.order[0]]))
    print(f"\nEdited by hand at {best[0]}: {'the same' if same else 'another'} accuracy.")


def samples(centers: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Points around the centers, and the class of each."""
    which = torch.randint(len(centers), (n,))
    return centers[which] + 1.5 * torch.randn(n, centers.shape[1]), which % N_CLASSES


def train(model: nn.Module, x: Tensor, y: Tensor) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
