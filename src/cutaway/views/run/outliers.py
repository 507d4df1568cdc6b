"""Which tensors of a step stand out: z-scores among those of the same role, and siblings of another size."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.statistics import statistic
from cutaway.core.zscores import peer_group, z_among_peers
from cutaway.views.run.rows import Matrix, RunRows

SIBLING_RATIO: Final = 100.0
"""Values so many times larger than those of a sibling are no chance."""
_BETWEEN: Final = re.compile(r"[./]")


def comparable_statistics(rows: RunRows) -> tuple[str, ...]:
    """The recorded statistics that can be compared between tensors."""
    return tuple(name for name in rows.statistics if statistic(name).is_comparable)


def z_of_step(rows: RunRows, matrix: Matrix) -> Matrix:
    """The z-scores of all tensors of a step among their peers, `[row, statistic]` of the `compared` statistics.

    Args:
        matrix: all statistics, as `RunRows.matrix` or `sample_matrix` gives them.
    """
    names = comparable_statistics(rows)
    columns = [rows.statistics.index(name) for name in names]
    groups = [peer_group(row.role, row.of) for row in rows.rows]
    z, _ = z_among_peers(matrix[:, columns], groups, names)
    return z.astype(np.float32)


def z_of_row(rows: RunRows, number: int, matrix: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same of one row, for every statistic, and how many peers it has."""
    row = rows.row(number)
    group = peer_group(row.role, row.of)
    peers = [each for each, other in enumerate(rows.rows) if peer_group(other.role, other.of) == group]
    z, n = z_among_peers(matrix[peers], [group] * len(peers), rows.statistics)
    place = peers.index(number)
    return z[place], n[place]


def are_siblings(site: str, other: str) -> bool:
    """Whether two sites are the same but for one part of the address before the last: siblings of each other.

    >>> are_alike("encoder.3.mlp", "encoder.0.mlp"), are_alike("memory/out", "output/out"), are_alike("h.0", "h.1")
    (True, True, False)
    """
    own, its = _BETWEEN.split(site), _BETWEEN.split(other)
    if len(own) != len(its) or own[-1] != its[-1]:
        return False
    n_other: int = sum(a != b for a, b in zip(own, its, strict=True))
    return n_other == 1
