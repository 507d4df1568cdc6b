"""Train a recurrent network twice, with and without a bug, and find the bug in the recorded iterations.

    python examples/partial_sums.py [folder] [steps]

The tutorial of comgra (Dietz et al., 2024) has this task: the network reads tuples of five numbers, one in each
iteration, and says which of the five sums is the largest. One of the two networks has an activation function after
its output layer, which a loss curve does not show: the recorded gradients do.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import cutaway

N_SEQUENCES, MEMORY, BATCH = 5, 24, 64
LENGTHS = (3, 6, 9)


class Adder(nn.Module):
    """One iteration: reads five numbers and the memory, returns a guess and the next memory."""

    def __init__(self, *, is_bugged: bool) -> None:
        super().__init__()
        self.read = nn.Sequential(nn.Linear(N_SEQUENCES + MEMORY, 48), nn.ReLU())
        self.remember = nn.Linear(48, MEMORY)
        layers = [nn.Linear(48, N_SEQUENCES), *([nn.LeakyReLU()] if is_bugged else [])]
        self.guess = nn.Sequential(*layers)

    def forward(self, numbers: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.read(torch.cat([numbers, memory], 1))
        return torch.sigmoid(self.guess(hidden)), self.remember(hidden)


def train(folder: Path, n_steps: int, *, is_bugged: bool) -> str:
    torch.manual_seed(0)
    model = Adder(is_bugged=is_bugged)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    with cutaway.record(folder, model, every=n_steps // 12, samples=3, config={"is_bugged": is_bugged}) as run:
        for number in range(n_steps):
            length = LENGTHS[number % len(LENGTHS)]
            inputs = torch.rand(length, BATCH, N_SEQUENCES)
            sums = inputs.cumsum(0)
            target = nn.functional.one_hot(sums[-1].argmax(1), N_SEQUENCES).float()
            with run.step(kind=f"{length} iterations"):
                memory = torch.zeros(BATCH, MEMORY)
                for index in range(length):
                    with run.iteration():
                        output, memory = model(inputs[index], memory)
                        run.tensor("memory", memory)
                        run.tensor("output", output)
                        # What the network should know by now: several tensors in one node of the graph.
                        run.tensor(f"sums_{index}", sums[index], node="partial sums", part=f"up to {index}")
                run.tensor("target", target, role="target")
                loss = (output - target).pow(2).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss, right=(output.argmax(1) == target.argmax(1)).float().mean())
    return run.path  # if the folder was taken, the run is in the next free one


def ask(path: str) -> None:
    """Read the iterations of the longest sequences back."""
    run = cutaway.load(path)
    kind = f"{LENGTHS[-1]} iterations"
    print(f"\n{run}")
    print(f"  right at the end: {run.scalars['right'].values[-30:].mean():.0%}")
    memory, output = run["$memory"], run["$output"].where(kind=kind)
    print(f"  memory, gradient in each iteration: {row(memory.grad.stats('norm', kind=kind)[-1])}")
    print(f"  memory, spread in each iteration:   {row(memory.stats('batch_std', kind=kind)[-1])}")
    last = output.where(iteration=LENGTHS[-1])  # one iteration over all recorded steps
    print(f"  output of the last iteration, largest value over the training: {row(last.stats('max'))}")
    step = run.at(run.steps_of(kind)[-1])
    guess, target = step["$output"].where(iteration=LENGTHS[-1]).value, step["$target"].value
    sums = step[f"$sums_{LENGTHS[-1] - 1}"].value
    for sample in range(len(guess)):
        print(f"  sums {row(sums[sample])}: guess {row(guess[sample])}, largest is {target[sample].argmax()}")


def row(numbers: Tensor) -> str:
    return " ".join(f"{number:.2g}" for number in numbers)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo/sums")
    n_steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1200
    paths = {}
    for name in ("bugged", "fixed"):
        paths[name] = train(folder / name, n_steps, is_bugged=name == "bugged")
        ask(paths[name])
    ask_for_the_bug(paths["bugged"])
    print(f"A guess that should fall hardly moves. Both runs are in {folder}: cutaway view {folder}")


def ask_for_the_bug(path: str) -> None:
    """Follow the gradient through the output layer of the bugged network."""
    guess = cutaway.load(path).at(-1)
    iteration = LENGTHS[-1]
    after, before = (guess[f"guess.{n}"].where(iteration=iteration).grad.stats["norm"] for n in (1, 0))
    print(f"\nThe bug: the gradient is {after:.2g} after the LeakyReLU of the output layer, {before:.2g} before it.")


if __name__ == "__main__":
    main()
