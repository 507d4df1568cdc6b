"""Records all beams of a beam search as a tree."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from cutaway.lm.generation.tokens import TokenReader
from cutaway.results.lm.tokens import Beams


class BeamRecorder:
    """A logits processor that records every beam at each step. It returns the scores unchanged.

    Args:
        ends: ids of the end-of-sequence tokens.
    """

    def __init__(self, ends: frozenset[int]) -> None:
        self._ends = sorted(ends)
        self._rows: list[tuple[int, ...]] = []
        self._scores: Tensor | None = None
        """(beam, token): log-probabilities of the last step."""
        self._nodes: dict[tuple[int, ...], float] = {}
        """Beam → log-probability of its last token."""
        self._ended: dict[tuple[int, ...], float] = {}
        """Beam extended by an end-of-sequence token → log-probability of that token."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        rows = [tuple(row) for row in input_ids.tolist()]
        self._note(rows)
        self._rows, self._scores = rows, scores.detach().clone()
        if self._ends:
            # A beam that ends is not among the rows of the next step, so its end is noted in advance.
            of_ends = scores[:, self._ends].tolist()
            for row, values in zip(rows, of_ends, strict=True):
                self._ended |= {(*row, end): value for end, value in zip(self._ends, values, strict=True)}
        return scores

    def _note(self, rows: list[tuple[int, ...]]) -> None:
        """Stores the log-probability of each row that extends a beam of the previous step."""
        # At the first step all beams are the same prompt; the first one stands for them.
        before = {row: i for i, row in reversed(list(enumerate(self._rows)))}
        for row in rows:
            if self._scores is not None and row[:-1] in before and row not in self._nodes:
                self._nodes[row] = float(self._scores[before[row[:-1]], row[-1]])

    def tree(self, sequences: Tensor, prefix: int, best: list[int], pieces: TokenReader) -> Beams:
        """All beams, also those that ended early. `best` is the returned sequence."""
        finished = [tuple(row) for row in sequences.tolist()]
        start = finished[0][:prefix]
        self._note([row[: len(self._rows[0]) + 1] for row in finished])
        for row in finished:
            for n in range(prefix + 1, len(row) + 1):
                if row[:n] in self._ended:
                    self._nodes.setdefault(row[:n], self._ended[row[:n]])
                    break
        chosen = (*start, *best)
        # Parents precede their children, so one pass sums up the scores.
        nodes = sorted(self._nodes, key=len)
        number = {row: i for i, row in enumerate(nodes)}
        parents = [number.get(row[:-1], -1) for row in nodes]
        logprobs = [self._nodes[row] for row in nodes]
        scores: list[float] = []
        for parent, logprob in zip(parents, logprobs, strict=True):
            scores.append(logprob + (scores[parent] if parent >= 0 else 0.0))
        ids = [row[-1] for row in nodes]
        return Beams(
            ids=np.array(ids, np.int64),
            pieces=pieces.pieces(ids),
            parents=np.array(parents, np.int64),
            steps=np.array([len(row) - prefix - 1 for row in nodes], np.int64),
            logprobs=np.array(logprobs),
            scores=np.array(scores),
            is_best=np.array([row == chosen[: len(row)] for row in nodes], bool),
        )
