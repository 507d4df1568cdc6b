"""Train a small transformer to reverse words, record the training, and read the recorded run.

    python examples/record.py [folder] [seconds]

Steps are of two kinds, short words and long ones. Long ones are rare, so the schedule records them more often.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from time import monotonic

import torch
from torch import Tensor, nn

import cutaway

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAD = len(LETTERS)
LENGTH = 16


class Turner(nn.Module):
    """Reads a word and writes it backwards, all letters at once."""

    def __init__(self, width: int = 64, n_blocks: int = 3) -> None:
        super().__init__()
        self.letters = nn.Embedding(PAD + 1, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(n_blocks)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, PAD + 1)

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.letters(words) + self.places(torch.arange(LENGTH, device=words.device))
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))


def batch(rng: random.Random, n: int, longest: int) -> tuple[list[str], Tensor, Tensor]:
    """Random words as text, as token ids, and the reversed words as token ids."""
    words = ["".join(rng.choices(LETTERS, k=rng.randint(3, longest))) for _ in range(n)]
    return words, torch.stack(list(map(numbers, words))), torch.stack([numbers(word[::-1]) for word in words])


def numbers(word: str) -> Tensor:
    return torch.tensor([LETTERS.index(letter) for letter in word] + [PAD] * (LENGTH - len(word)))


def train(folder: Path, seconds: float) -> Path:
    torch.manual_seed(0)
    rng = random.Random(0)
    model = Turner()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    config = {"lr": 3e-3, "blocks": len(model.blocks), "words": 32}
    start, is_halved, is_right = monotonic(), False, False
    with cutaway.record(folder, model, every={"long": 10, "short": 25}, samples=4, config=config) as run:
        while monotonic() < start + seconds:
            is_long = rng.random() < 0.05
            words, inputs, targets = batch(rng, 32, LENGTH if is_long else 8)
            with run.step(kind="long" if is_long else "short"):
                scores = model(inputs)
                run.tensor("target", targets, role="target")
                run.samples(text=words, tokens=[list(word) for word in words], label=[len(word) for word in words])
                loss = nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
                right = (scores.argmax(-1) == targets).float().mean()
                run.log(loss=loss, right=right)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            if not is_right and right == 1:
                is_right = True
                run.note(f"first batch of {'long' if is_long else 'short'} words without a mistake")
            if not is_halved and monotonic() > start + seconds / 2:
                is_halved = True
                optimizer.param_groups[0]["lr"] /= 2
                run.note("learning rate halved", level="warning")
    recorded = Path(run.path)  # numbered, if the folder was taken
    cutaway.trace(model.eval(), inputs[:2]).save(recorded.with_suffix(".trace"))
    return recorded


def ask(folder: Path) -> None:
    run = cutaway.load(folder)
    print(run)
    loss, right = run.scalars["loss"], run.scalars["right"]
    print(f"loss {loss.values[0]:.2f} → {loss.values[-1]:.2f}, right {right.values[0]:.0%} → {right.values[-1]:.0%}")
    print("Standard deviation of each block over the training:")
    for number in range(3):
        norm = run[f"blocks.{number}"].stats("std")
        print(f"  blocks.{number}  std {norm[0]:.2f} → {norm[-1]:.2f} over {len(norm)} recorded steps")
    ratio = run["head.weight"].update_ratio().values
    print(f"head.weight changes by {ratio[0]:.1%} of itself in the first step, by {ratio[-1]:.1%} in the last")
    step = run.at(-1)
    predictions = step["head"].value.argmax(-1)
    for word, letters in zip(step.samples.text, predictions, strict=True):
        print(f"  {word} → {''.join(LETTERS[letter] for letter in letters if letter < PAD)}")


def fresh(folder: Path) -> Path:
    """A path that does not exist yet: runs are never overwritten."""
    names = [folder, *(folder.with_name(f"{folder.name}-{number}") for number in range(2, 1000))]
    return next(name for name in names if not name.exists() and not name.with_suffix(".trace").exists())


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else fresh(Path("demo/turner"))
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    print(f"Training for {seconds:.0f} seconds, recorded to {folder} …", flush=True)
    folder = train(folder, seconds)
    ask(folder)
    print(f"The run is in {folder}. Open the viewer with: {os.path.relpath(sys.executable)} -m cutaway view {folder}")


if __name__ == "__main__":
    main()
