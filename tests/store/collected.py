"""A small collection on disk, beside the arrays it was made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Dtype, Rows

SITES = (CollectedSite("encoder.layer.0", 5), CollectedSite("encoder.layer.1", 3), CollectedSite("conv", 4, 1))
WORDS = ("the", "Ünïcode", "", "\N{SOFT HYPHEN}", "🙂", "cat", "a b")


@dataclass
class Expected:
    """What was handed in, as plain arrays and lists."""

    values: NDArray[np.float32]
    items: list[int] = field(default_factory=list)
    word: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)
    n_items: int = 0


@dataclass
class Window:
    """One call of `writer.window`."""

    arrays: dict[str, NDArray[Any]]
    rows: Rows
    words: list[str]
    n_items: int
    problems: list[tuple[int, str]]

    def write(self, writer: ActivationsWriter) -> None:
        writer.window(self.arrays, self.rows, self.words, n_items=self.n_items, problems=self.problems)


def windows(n: int, *, dtype: Dtype = "float32", seed: int = 0) -> list[Window]:
    """Windows of 0 to 12 rows; some items have none, some windows neither."""
    random = np.random.default_rng(seed)
    found, first = [], 0
    for number in range(n):
        n_items = int(random.integers(1, 5))
        lengths = random.integers(0, 4, n_items) * (number != 1)  # the second window has no row at all
        items = np.repeat(np.arange(first, first + n_items), lengths)
        word = np.concatenate([np.arange(length) for length in lengths])
        arrays = {site.site: random.normal(size=(len(items), site.width)).astype(dtype) for site in SITES}
        words = [WORDS[i] for i in random.integers(0, len(WORDS), len(items))]
        problems = [(first, f"item {first} was cut off")] if number % 2 else []
        found.append(Window(arrays, Rows.of(items, word=word, first=word + 1, last=word + 1), words, n_items, problems))
        first += n_items
    return found


def expected(written: list[Window]) -> Expected:
    values = [np.concatenate([window.arrays[site.site] for site in SITES], axis=1) for window in written]
    found = Expected(np.concatenate(values))
    for window in written:
        found.items += window.rows.item.tolist()
        found.word += window.rows.word.tolist()
        found.words += window.words
        found.problems += window.problems
        found.n_items += window.n_items
    return found


def collection(path: Path, n: int = 6, *, dtype: Dtype = "float32", seed: int = 0) -> Expected:
    """Write a collection and say what should be in it."""
    written = windows(n, dtype=dtype, seed=seed)
    with ActivationsWriter(path, SITES, dtype=dtype, aggregate="last", provenance={"model": "Tiny"}) as writer:
        for window in written:
            window.write(writer)
    return expected(written)
