"""Estimates the memory that gradients need before they run, from two short runs of each model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cutaway.capture.interventions.token_positions import PROBE_PROMPT_LENGTH
from cutaway.capture.model.tree import structure_of
from cutaway.core.errors import MemoryLimitError
from cutaway.core.formatting import human_bytes
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.language_model import context_length
from cutaway.results.lm.tokens import Role

_PROBE_LENGTH = 48
"""Tokens of the longer of the two runs that are measured."""
_TRANSIENT = 10
"""How many tensors of the largest size are alive at once in a forward or backward pass through a block."""
_LOGIT_COPIES = 8
"""How many tensors of the size of the logits are alive at once."""
_ROWS_AT_ONCE = {"cpu": 1024}
_ROWS_ON_DEVICE = 16384
"""Rows of a matrix to process at once; on a CPU, more of them no longer fit the caches."""
_cache: WeakKeyDictionary[nn.Module, tuple[int, Growth, Growth]] = WeakKeyDictionary()
"""Model → its structure, the growth of all saved tensors, and of the largest one."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes as a quadratic function of the text length."""

    each: float
    """Bytes per position."""
    pair: float
    """Bytes per pair of positions, for attention."""

    @staticmethod
    def fit(short: tuple[int, float], longer: tuple[int, float]) -> Growth:
        """The function through two measurements (length, bytes)."""
        (n, a), (m, b) = short, longer
        pair = max(0.0, (b / m - a / n) / (m - n)) if m > n else 0.0
        return Growth(max(0.0, b / m - pair * m), pair)

    def __call__(self, n: int) -> float:
        return self.each * n + self.pair * n * n


@dataclass(frozen=True, slots=True)
class MemoryCost:
    """Bytes that one copy of the text takes."""

    n_positions: int
    saved: float
    """What a forward pass saves for the backward pass."""
    transient: float
    """On top of it: per vector in a backward pass, and per copy in a forward pass without gradients."""
    limit: int
    rows: int
    """Rows of a matrix to process at once."""

    def samples(self, longest: int, *, gradients: bool) -> int:
        """How many copies can run as one batch."""
        each = self.transient + (self.saved if gradients else 0)
        if gradients:
            self.check()
        fitting = int(self.limit / 2 // each) if gradients else int(self.limit // each)
        quick = (self.rows // 4 if gradients else self.rows) // self.n_positions
        return max(1, min(longest, fitting, max(1, quick)))

    def vectors(self, longest: int, n_samples: int = 1) -> int:
        """How many gradients can be computed at once."""
        fitting = int((self.limit - n_samples * self.saved) // (n_samples * self.transient))
        n = max(1, min(longest, fitting, max(1, self.rows // (self.n_positions * n_samples))))
        return -(-longest // -(-longest // n))  # batches of equal size

    def check(self) -> None:
        """Raises `MemoryLimitError` if not even one gradient fits."""
        needed = self.saved + self.transient
        if needed > self.limit:
            raise MemoryLimitError(
                f"gradients over {self.n_positions:,} tokens need about {human_bytes(needed)} on top of the model, "
                f"but the limit is {human_bytes(self.limit)}. Give limit={_limit_text(needed)}, a shorter text, or "
                "method='occlusion', which needs no gradients."
            )


def memory_cost(run: PromptRun, limit: int) -> MemoryCost:
    """The memory cost of a run, estimated from short texts: nothing of full length runs."""
    model = run.model
    structure = structure_of(model)
    if model not in _cache or _cache[model][0] != structure:
        _cache[model] = (structure, *_measure(run))
    _, saved, widest = _cache[model]
    n = max(len(run.ids(role)) for role in run.roles)
    total = sum(len(run.ids(role)) for role in run.roles)
    logits = 4.0 * _LOGIT_COPIES * run.n_targets * _n_classes(model)
    rows = _ROWS_AT_ONCE.get(run.device.type, _ROWS_ON_DEVICE)
    return MemoryCost(total, saved(n) + logits, _TRANSIENT * widest(n) + logits, limit, rows)


def _measure(run: PromptRun) -> tuple[Growth, Growth]:
    """Growth of all tensors saved for the backward pass, and of the largest one."""
    longest = min(_PROBE_LENGTH, context_length(run.model) or _PROBE_LENGTH)
    # Two lengths determine the two unknowns of `Growth`: bytes per position and per pair of positions.
    measured = [(n, *_saved_bytes(_with_length(run, n))) for n in (max(1, longest // 3), longest)]
    (n, saved, widest), (m, more, wider) = measured
    return Growth.fit((n, saved), (m, more)), Growth.fit((n, widest), (m, wider))


def _with_length(run: PromptRun, n: int) -> PromptRun:
    """The run with its text cut or repeated to n tokens, and one target."""
    inputs = {
        name: value.repeat(1, -(-n // value.shape[1]))[:, :n]
        if isinstance(value, Tensor) and value.dim() == 2
        else value
        for name, value in run.inputs.items()
    }
    return replace(run, inputs=inputs, rows=run.rows[:1] * 0, classes=run.classes[:1], n_given=PROBE_PROMPT_LENGTH)


def _saved_bytes(run: PromptRun) -> tuple[float, float]:
    """Bytes that a forward pass saves for the backward pass, without weights; and those of the largest tensor."""
    weights = {weight.untyped_storage().data_ptr() for weight in run.model.parameters()}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        # By storage: views of one tensor are saved several times, but take memory once.
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    embeds: dict[Role, Tensor] = {
        role: value[None].clone().requires_grad_() for role, value in run.embeddings().items()
    }
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run.logits_of(embeds)
    widths = [value.nbytes for value in embeds.values()]
    return float(sum(sizes.values(), 0)), float(max([*sizes.values(), *widths]))


def _n_classes(model: nn.Module) -> int:
    size = getattr(getattr(model, "config", None), "vocab_size", None)
    return size if isinstance(size, int) else 0


def _limit_text(n: float) -> str:
    """A limit that is large enough, as Python code.

    >>> _limit_text(5 * 2**30)
    '6 * 2**30'
    """
    return f"{int(n * 1.1 / 2**30 + 1)} * 2**30"
