"""Outliers among the tensors of a step: z-scores within a role, and siblings of a different magnitude."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.statistics import statistic
from cutaway.core.zscores import peer_group, z_among_peers
from cutaway.views.run.rows import Matrix, RunRows

SIBLING_RATIO: Final = 100.0
"""A magnitude this many times that of a sibling is reported."""
_BETWEEN: Final = re.compile(r"[./]")


def comparable_statistics(rows: RunRows) -> tuple[str, ...]:
    """The recorded statistics that are comparable between tensors."""
    return tuple(name for name in rows.statistics if statistic(name).is_comparable)


def z_of_step(rows: RunRows, matrix: Matrix) -> Matrix:
    """Z-scores of all tensors of a step within their peer group, `[row, statistic]` for `comparable_statistics`.

    Args:
        matrix: all statistics, from `RunRows.matrix` or `sample_matrix`.
    """
    names = comparable_statistics(rows)
    columns = [rows.statistics.index(name) for name in names]
    groups = [peer_group(row.role, row.of) for row in rows.rows]
    z, _ = z_among_peers(matrix[:, columns], groups, names)
    return z.astype(np.float32)


def z_of_row(rows: RunRows, number: int, matrix: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Z-scores of one row for every statistic, and its number of peers."""
    row = rows.row(number)
    group = peer_group(row.role, row.of)
    peers = [each for each, other in enumerate(rows.rows) if peer_group(other.role, other.of) == group]
    z, n = z_among_peers(matrix[peers], [group] * len(peers), rows.statistics)
    place = peers.index(number)
    return z[place], n[place]


def are_siblings(site: str, other: str) -> bool:
    """Whether two sites differ in exactly one part of the address, and not in the last.

    >>> are_siblings("encoder.3.mlp", "encoder.0.mlp"), are_siblings("a/out", "b/out"), are_siblings("h.0", "h.1")
    (True, True, False)
    """
    own, its = _BETWEEN.split(site), _BETWEEN.split(other)
    if len(own) != len(its) or own[-1] != its[-1]:
        return False
    n_other: int = sum(a != b for a, b in zip(own, its, strict=True))
    return n_other == 1
