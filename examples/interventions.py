"""Train a network on two losses, and follow a few samples and two interventions over the whole training.

    python examples/interventions.py [folder] [steps]

The use cases of comgra's paper (Dietz et al., 2024): toy examples step by step, imbalanced gradients, interventions.
An encoder is shared by a classifier and a decoder. Which loss trains it? When do the classes come apart? And from
which step on does the classifier rely on the second half of the code?
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import cutaway

N_CLASSES, SIZE, CODE = 4, 16, 8


class Shared(nn.Module):
    """An encoder with two heads: one names the class, one reconstructs the input."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(SIZE, 32), nn.Tanh(), nn.Linear(32, CODE))
        self.classifier = nn.Linear(CODE, N_CLASSES)
        self.decoder = nn.Linear(CODE, SIZE)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encoder(x)
        return self.classifier(code), self.decoder(code)


def train(folder: Path, n_steps: int) -> str:
    torch.manual_seed(0)
    centers = torch.randn(N_CLASSES, SIZE)
    model = Shared()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with cutaway.record(folder, model, every=n_steps // 8) as run:
        second_half = range(CODE // 2, CODE)
        edits = {"half": lambda: cutaway.edit(model, "encoder.2", 0, units=second_half)}
        # One sample of each class, passed through the model between the steps; nothing of the training changes.
        run.fixed_batch("toy", centers, every=n_steps // 8, samples=N_CLASSES, edits=edits)
        for _ in range(n_steps):
            labels = torch.randint(N_CLASSES, (32,))
            x = centers[labels] + 0.8 * torch.randn(32, SIZE)
            with run.step():
                scores, copy = model(x)
                name_it = nn.functional.cross_entropy(scores, labels)
                copy_it = 20 * (copy - x).pow(2).mean()
                run.backward(name_it=name_it, copy_it=copy_it)  # (name_it + copy_it).backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log(name_it=name_it, copy_it=copy_it)
    return run.path  # if the folder was taken, the run is in the next free one


def ask(path: str) -> None:
    run = cutaway.load(path)
    print(run)
    print("Gradients at the code, by loss:")
    for loss in ("name_it", "copy_it"):
        print(f"  {loss}: {row(run['encoder.2'].other(f'grad/{loss}').stats('norm'))}")
    print("The classes of the toy samples, over the training:")
    for number in run.steps_of("toy"):
        step = run.at(number)
        half = run.at(step.about["edited"][0])  # the same samples and parameters, under the edit
        classes = [at["classifier"].value.argmax(1).tolist() for at in (step, half)]
        print(f"  before step {half.step + 1}: {classes[0]}, under {half.about['edit']}: {classes[1]}")
    plain, half = (run["classifier"].stats("batch_std", kind=kind) for kind in ("toy", "toy/half"))
    print(f"Spread of the scores over the classes: {row(plain)}; with half of the code: {row(half)}")


def row(numbers: Tensor) -> str:
    return " ".join(f"{number:.2g}" for number in numbers)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo/interventions")
    path = train(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 400)
    ask(path)
    print(f"The run is in {path}: cutaway view {path}")


if __name__ == "__main__":
    main()
