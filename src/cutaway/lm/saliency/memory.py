"""How much memory gradients need, known before they are asked for: from two short runs, once for each model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cutaway.capture.interventions.token_positions import PROBE_PROMPT_LENGTH
from cutaway.capture.model.tree import structure_of
from cutaway.core.errors import MemoryLimitError
from cutaway.lm.generation.model_kind import context_of
from cutaway.lm.model.forward_run import Reading
from cutaway.lm.model.parts import Role

LIMIT = 4 * 2**30
"""Bytes that may be used beside the model, if nothing else is said."""
_LONGER = 48
_TRANSIENT = 10
"""How many tensors of the largest kind live at once while gradients, or values, pass through a block."""
_OF_LOGITS = 8
_ROWS = {"cpu": 1024}
_MORE_ROWS = 16384
"""How many rows of a matrix are worked on at once: on a CPU more of them fall out of its caches."""
_known: WeakKeyDictionary[nn.Module, tuple[int, Growth, Growth]] = WeakKeyDictionary()
"""Model → its structure, and what was measured of it."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes as a function of length: so many a position, and so many a pair of positions."""

    each: float
    pair: float

    @staticmethod
    def through(short: tuple[int, float], longer: tuple[int, float]) -> Growth:
        """The one that was seen at two lengths."""
        (n, a), (m, b) = short, longer
        pair = max(0.0, (b / m - a / n) / (m - n)) if m > n else 0.0
        return Growth(max(0.0, b / m - pair * m), pair)

    def __call__(self, n: int) -> float:
        return self.each * n + self.pair * n * n


@dataclass(frozen=True, slots=True)
class Cost:
    """What one copy of the text takes, in bytes."""

    n_positions: int
    kept: float
    """For the way back: all that a forward keeps."""
    passing: float
    """More, for each vector that goes back; and for each copy that only goes forward."""
    limit: int
    rows: int

    def samples(self, most: int, *, gradients: bool) -> int:
        """How many copies can run as a batch."""
        each = self.passing + (self.kept if gradients else 0)
        if gradients:
            self.check()
        fitting = int(self.limit / 2 // each) if gradients else int(self.limit // each)
        quick = (self.rows // 4 if gradients else self.rows) // self.n_positions
        return max(1, min(most, fitting, max(1, quick)))

    def vectors(self, most: int, n_samples: int = 1) -> int:
        """How many gradients can be taken at once."""
        fitting = int((self.limit - n_samples * self.kept) // (n_samples * self.passing))
        n = max(1, min(most, fitting, max(1, self.rows // (self.n_positions * n_samples))))
        return -(-most // -(-most // n))  # as even as they come

    def check(self) -> None:
        """An error where not even one fits."""
        needed = self.kept + self.passing
        if needed > self.limit:
            raise MemoryLimitError(
                f"gradients over {self.n_positions:,} tokens need about {needed / 2**30:.2f} GiB beside the model, and "
                f"the limit is {self.limit / 2**30:.2f} GiB: give limit={_rounded(needed)}, a shorter text, or "
                "method='occlusion', which needs no gradients."
            )


def cost(reading: Reading, limit: int) -> Cost:
    """What a reading takes; nothing of its length has been run by then."""
    model = reading.model
    structure = structure_of(model)
    if model not in _known or _known[model][0] != structure:
        _known[model] = (structure, *_measured(reading))
    _, kept, widest = _known[model]
    n = max(len(reading.ids(role)) for role in reading.roles)
    total = sum(len(reading.ids(role)) for role in reading.roles)
    logits = 4.0 * _OF_LOGITS * reading.n_targets * _n_classes(model)
    rows = _ROWS.get(reading.device.type, _MORE_ROWS)
    return Cost(total, kept(n) + logits, _TRANSIENT * widest(n) + logits, limit, rows)


def _measured(reading: Reading) -> tuple[Growth, Growth]:
    """What is kept for the way back, and the largest of it, over lengths."""
    most = min(_LONGER, context_of(reading.model) or _LONGER)
    found = [(n, *_kept_by(_as_long(reading, n))) for n in (max(1, most // 3), most)]
    (n, kept, widest), (m, more, wider) = found
    return Growth.through((n, kept), (m, more)), Growth.through((n, widest), (m, wider))


def _as_long(reading: Reading, n: int) -> Reading:
    """The text cut, or repeated, to n tokens; one target."""
    inputs = {
        name: value.repeat(1, -(-n // value.shape[1]))[:, :n]
        if isinstance(value, Tensor) and value.dim() == 2
        else value
        for name, value in reading.inputs.items()
    }
    return replace(
        reading, inputs=inputs, rows=reading.rows[:1] * 0, classes=reading.classes[:1], n_given=PROBE_PROMPT_LENGTH
    )


def _kept_by(reading: Reading) -> tuple[float, float]:
    """Bytes that a forward keeps for the way back, weights aside; and the largest single tensor of these."""
    weights = {weight.untyped_storage().data_ptr() for weight in reading.model.parameters()}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    embeds: dict[Role, Tensor] = {
        role: value[None].clone().requires_grad_() for role, value in reading.embeddings().items()
    }
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        reading.logits_of(embeds)
    widths = [value.nbytes for value in embeds.values()]
    return float(sum(sizes.values(), 0)), float(max([*sizes.values(), *widths]))


def _n_classes(model: nn.Module) -> int:
    found = getattr(getattr(model, "config", None), "vocab_size", None)
    return found if isinstance(found, int) else 0


def _rounded(n: float) -> str:
    """A number of bytes, a little more, as one would type it."""
    return f"{int(n * 1.1 / 2**30 + 1)} * 2**30"
