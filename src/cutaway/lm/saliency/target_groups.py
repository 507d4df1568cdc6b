"""Targets in groups that share a forward: what goes back for a target need not pass the text that stands behind it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cutaway.lm.saliency.gradients import Scored

_FORWARD = 1.5
"""What a forward costs beside one way back."""
_MOST = 64


def groups(rows: Sequence[int], at_once: int) -> list[list[int]]:
    """Targets by the rows that made them, in as many groups as cost least, each run on the text up to its last row.

    Args:
        rows: of each target, in a causal model.
        at_once: rows of matrices that a device likes to work on at once; a group has a quarter of them at least.

    >>> groups([7, 8, 9], 1024)
    [[0, 1, 2]]
    >>> [len(each) for each in groups(range(4, 304), 1024)]
    [20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20]
    """
    order = sorted(range(len(rows)), key=lambda i: rows[i])

    def split(n: int) -> list[list[int]]:
        return [part.tolist() for part in np.array_split(np.array(order), n)]

    def work(parts: list[list[int]]) -> float:
        lengths = [rows[part[-1]] + 1 for part in parts]
        if len(parts) > 1 and any(n * len(part) < at_once / 4 for n, part in zip(lengths, parts, strict=True)):
            return float("inf")
        return sum(n * (_FORWARD + len(part)) for n, part in zip(lengths, parts, strict=True))

    return min(map(split, range(1, min(len(rows), _MOST) + 1)), key=work)


def joined(found: Sequence[Scored], parts: Sequence[Sequence[int]], n: int) -> Scored:
    """What groups of targets gave, in the order of the targets; (target, position) as long as the whole text."""
    order = torch.tensor([i for part in parts for i in part]).argsort()

    def laid(values: list[Tensor]) -> Tensor:
        wide = [torch.nn.functional.pad(each, (0, n - each.shape[-1])) for each in values]
        return torch.cat(wide)[order.to(values[0].device)]

    def put(values: list[Tensor]) -> Tensor:
        return torch.cat(values)[order.to(values[0].device)]

    ends = [each.baseline_values for each in found if each.baseline_values is not None]
    return Scored(
        laid([each.norms for each in found]),
        laid([each.sums for each in found]),
        put([each.values for each in found]),
        put(ends) if ends else None,
    )
