"""Groups of targets that share a forward pass, so that early targets do not run on the text after them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cutaway.lm.saliency.task import TargetScores

_FORWARD = 1.5
"""Cost of a forward pass relative to one backward pass."""
_MAX_GROUPS = 64


def group_targets(rows: Sequence[int], at_once: int) -> list[list[int]]:
    """Splits the targets into the number of groups that costs least; each group runs on the text up to its last row.

    Args:
        rows: the row of each target, in a causal model.
        at_once: rows of a matrix that the device processes at once; a group has at least a quarter of them.

    >>> group_targets([7, 8, 9], 1024)
    [[0, 1, 2]]
    >>> [len(each) for each in group_targets(range(4, 304), 1024)]
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

    return min(map(split, range(1, min(len(rows), _MAX_GROUPS) + 1)), key=work)


def merge_groups(scores: Sequence[TargetScores], parts: Sequence[Sequence[int]], n: int) -> TargetScores:
    """The scores of all groups in the order of the targets, (target, position), padded to the whole text."""
    order = torch.tensor([i for part in parts for i in part], device="cpu").argsort()

    def padded(values: list[Tensor]) -> Tensor:
        wide = [torch.nn.functional.pad(each, (0, n - each.shape[-1])) for each in values]
        return torch.cat(wide)[order.to(values[0].device)]

    def ordered(values: list[Tensor]) -> Tensor:
        return torch.cat(values)[order.to(values[0].device)]

    ends = [each.baseline_values for each in scores if each.baseline_values is not None]
    return TargetScores(
        padded([each.norms for each in scores]),
        padded([each.sums for each in scores]),
        ordered([each.values for each in scores]),
        ordered(ends) if ends else None,
    )
