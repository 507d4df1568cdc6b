"""Computes the numbers of a lens from logits, in small chunks: ranks, probabilities, entropy, KL to the output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

_CELLS = 16
"""Rows of logits processed at once: fewer waste time between kernels, more fall out of the cache."""
_GROUP = 64
"""Group size of `top_k`: the largest of each group are searched first."""
_SAFE = (-20.0, 60.0)
"""If the largest logit is in this range, exponentials cannot overflow unshifted, which saves a pass through memory."""
_TINY = -80.0
"""Its exponential is still a normal float32: CPUs are many times slower with subnormal numbers."""
_LEAST = -1e4
"""A logit this far below the largest stands for -inf."""


@dataclass(slots=True)
class Scores:
    """The numbers per (layer, target)."""

    ranks: Tensor
    logprobs: Tensor
    entropies: Tensor
    kl: Tensor
    top_ids: Tensor
    """(layer, target, k)."""
    top_logprobs: Tensor
    watched_ranks: Tensor
    """(layer, target, token)."""
    watched_logprobs: Tensor

    @staticmethod
    def empty(n_layers: int, n_targets: int, k: int, n_watched: int) -> Scores:
        size = (n_layers, n_targets)
        whole = (torch.zeros(*size, *more, dtype=torch.long, device="cpu") for more in ((), (k,), (n_watched,)))
        real = (
            torch.zeros(*size, *more, dtype=torch.double, device="cpu") for more in ((), (), (), (k,), (n_watched,))
        )
        ranks, top_ids, watched_ranks = whole
        logprobs, entropies, kl, top_logprobs, watched_logprobs = real
        return Scores(ranks, logprobs, entropies, kl, top_ids, top_logprobs, watched_ranks, watched_logprobs)


@dataclass(slots=True)
class Scorer:
    """Fills the scores, one target after another; the last layer of each comes first."""

    scores: Scores
    classes: Tensor
    """(target,)."""
    watched: Tensor
    """(token,)."""
    _scratch: Tensor = field(default_factory=lambda: torch.empty(0, device="cpu"))
    _end: Tensor = field(default_factory=lambda: torch.empty(0, device="cpu"))
    """(class,): the output probabilities of the current target."""
    _end_entropy: float = 0.0
    _has_gaps: bool = False

    def add(self, target: int, layers: range, logits: Tensor) -> None:
        """Adds the logits (layer, class) of one target; the first chunk starts with the last layer."""
        for start in range(0, len(layers), _CELLS):
            self._add(target, layers[start : start + _CELLS], _wide(logits[start : start + _CELLS]))

    def _add(self, target: int, layers: range, z: Tensor) -> None:
        at = (torch.tensor(list(layers), device="cpu"), target)
        k = self.scores.top_ids.shape[-1]
        top, ids = top_k(z, max(k, 1))
        is_first = layers[0] == len(self.scores.ranks) - 1
        if is_first:
            self._has_gaps = bool(torch.isinf(z[0]).any())
        tokens = torch.cat([self.classes[target : target + 1], self.watched])
        values, largest = z[:, tokens], top[:, :1]
        # -inf times a probability of 0 would be NaN.
        if self._has_gaps:
            z = torch.maximum(z, largest + _LEAST)
        scratch = self._buffer(z)
        if _SAFE[0] < float(largest.min()) and float(largest.max()) < _SAFE[1]:
            largest = torch.zeros_like(largest)
            torch.clamp(z, min=_TINY, out=scratch)
        else:
            torch.sub(z, largest, out=scratch).clamp_(min=_TINY)
        scratch.exp_()
        total = scratch.sum(-1)
        if is_first:
            self._end = scratch[0] / total[0]
        # With lse = log Σ exp z: entropy is lse − Σ p z, and cross-entropy with the output is lse − Σ p_out z. So the
        # log-probabilities of all classes are never written to memory.
        lse = (largest[:, 0].double() + total.double().log()).cpu()
        mean = (scratch.mul_(z).sum(-1) / total).double().cpu()  # expected logit, for the entropy
        crossed = (z @ self._end).double().cpu()
        entropies = (lse - mean).clamp(min=0)
        if is_first:
            self._end_entropy = float(lse[0] - crossed[0])  # the same sum as below, so that the KL of the end is 0
        ranks = torch.stack([self._rank(z, values[:, i : i + 1]) for i in range(len(tokens))], -1).cpu()
        logprobs = values.double().cpu() - lse[:, None]
        scores = self.scores
        scores.ranks[at], scores.watched_ranks[at] = ranks[:, 0], ranks[:, 1:]
        scores.logprobs[at], scores.watched_logprobs[at] = logprobs[:, 0], logprobs[:, 1:]
        scores.entropies[at] = entropies
        scores.kl[at] = (lse - crossed - self._end_entropy).clamp(min=0)
        scores.top_ids[at] = ids[:, :k].cpu()
        scores.top_logprobs[at] = top[:, :k].double().cpu() - lse[:, None]

    def _rank(self, z: Tensor, logit: Tensor) -> Tensor:
        """1 + number of strictly greater logits; adding ones as float32 is fast, and exact up to 2²⁴."""
        return torch.gt(z, logit, out=self._buffer(z)).sum(-1).long() + 1

    def _buffer(self, like: Tensor) -> Tensor:
        if (
            self._scratch.shape[-1] != like.shape[-1]
            or len(self._scratch) < len(like)
            or self._scratch.dtype != like.dtype
        ):
            self._scratch = torch.empty_like(like)
        return self._scratch[: len(like)]


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()


def top_k(z: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each row and their indices, as `torch.topk`, in a third of the time on large rows.

    >>> values, places = top_k(torch.arange(1000.0)[None], 2)
    >>> values.tolist(), places.tolist()
    ([[999.0, 998.0]], [[999, 998]])
    """
    n = z.shape[-1] // _GROUP
    k = min(k, z.shape[-1])
    if n <= 4 * k:
        values, places = z.topk(k, dim=-1)
        return values, places
    groups = z[:, : n * _GROUP].unflatten(-1, (n, _GROUP))
    best = groups.amax(-1).topk(k, dim=-1).indices  # (row, k): no other group can hold one of the k largest
    inside = groups.gather(1, best[..., None].expand(-1, -1, _GROUP)).flatten(1)
    places = (best[..., None] * _GROUP + torch.arange(_GROUP, device=z.device)).flatten(1)
    rest = torch.arange(n * _GROUP, z.shape[-1], device=z.device).expand(len(z), -1)
    values, chosen = torch.cat([inside, z[:, n * _GROUP :]], -1).topk(k, dim=-1)
    return values, torch.cat([places, rest], -1).gather(1, chosen)


def split_by_target(n_targets: int, n_layers: int, cells: slice) -> Iterator[tuple[int, range, slice]]:
    """Splits a chunk of cells by target: (target, its layers from the last, their slice of the chunk).

    >>> list(split_by_target(2, 3, slice(1, 5)))
    [(0, range(1, -1, -1), slice(0, 2, None)), (1, range(2, 0, -1), slice(2, 4, None))]
    """
    at = cells.start
    while at < min(cells.stop, n_targets * n_layers):
        target, place = divmod(at, n_layers)
        n = min(n_layers - place, cells.stop - at)
        first = n_layers - 1 - place
        yield target, range(first, first - n, -1), slice(at - cells.start, at - cells.start + n)
        at += n
