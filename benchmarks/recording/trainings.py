"""The trainings on which recording is measured, with seeded weights and data.

Peers load this file in environments of their own, so it needs torch alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

BATCH = 32


@dataclass(frozen=True, slots=True)
class Training:
    """A model, its optimizer, and one batch that is learnt again and again."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    inputs: Tensor
    targets: Tensor
    loss_of: Callable[[Tensor, Tensor], Tensor]
    is_small: bool = True
    """Whether a step feels what ran before it."""

    def loss(self, inputs: Tensor | None = None) -> Tensor:
        """The forward."""
        return self.loss_of(self.model(self.inputs if inputs is None else inputs), self.targets)

    def update(self) -> None:
        """What comes after the backward."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def step(self) -> Tensor:
        """One whole step."""
        loss = self.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        self.update()
        return loss


class Transformer(nn.Module):
    """A small language model, made of torch's own encoder layers."""

    def __init__(self, n_layers: int, width: int, length: int, n_words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(n_words, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(n_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, n_words)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.words(tokens) + self.places  # (batch, position, width)
        for block in self.blocks:
            hidden = block(hidden)
        scores: Tensor = self.head(self.norm(hidden))
        return scores.transpose(1, 2)  # (batch, word, position)


def mlp(width: int = 128) -> Training:
    """Four linear layers."""
    torch.manual_seed(0)
    layers = [layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(width, width))
    return _training(model, torch.randn(BATCH, width), torch.randn(BATCH, width), mse_loss)


def transformer(n_layers: int = 4, width: int = 128, length: int = 32, n_words: int = 64) -> Training:
    """A transformer that guesses words."""
    torch.manual_seed(0)
    model = Transformer(n_layers, width, length, n_words)
    tokens, targets = (torch.randint(n_words, (BATCH, length)) for _ in range(2))
    return _training(model, tokens, targets, cross_entropy)


def chain(n_modules: int, width: int = 16) -> Training:
    """Modules in a row that hold nothing: the number of recorded tensors grows, and the rest stays."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(width, width), *(nn.Tanh() for _ in range(n_modules - 1)))
    return _training(model, torch.randn(BATCH, width), torch.randn(BATCH, width), mse_loss)


def _training(
    model: nn.Module, inputs: Tensor, targets: Tensor, loss_of: Callable[[Tensor, Tensor], Tensor]
) -> Training:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return Training(model, optimizer, inputs, targets, loss_of, is_small=not isinstance(model, Transformer))


TRAININGS: dict[str, Callable[[], Training]] = {"mlp": mlp, "transformer": transformer}
TITLES = {
    "mlp": "MLP 4 × 128, batch 32",
    "transformer": "transformer, 4 layers, width 128, 32 × 32 tokens",
}
