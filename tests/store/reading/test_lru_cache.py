"""The cache keeps what was asked for last, within its bytes."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutaway.store.reading.lru_cache import _OVERHEAD, LRUCache


@given(st.integers(0, 20_000), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 900)), max_size=60))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_it_never_holds_more_than_its_limit(most: int, asked: list[tuple[int, int]]) -> None:
    """Against a plain list, the last asked for at its end."""
    cache, model = LRUCache(most), list[tuple[tuple[int, int], int]]()
    for key in asked:
        n_read = 0

        def read(n: int = key[1]) -> np.ndarray:
            nonlocal n_read
            n_read += 1
            return np.full(n, n, np.float64)

        found = cache.find(key, read)
        assert found.tolist() == [key[1]] * key[1]
        known = dict(model)
        assert n_read == (key not in known)
        size = 8 * key[1] + _OVERHEAD
        model = [item for item in model if item[0] != key]
        if key in known or size <= most:
            model.append((key, size))
        while sum(size for _, size in model) > most:
            model.pop(0)
        assert cache.n_bytes == sum(size for _, size in model) <= most


def test_what_it_gives_cannot_be_written() -> None:
    found = LRUCache(10_000).find("a", lambda: np.zeros(3))
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


def test_a_view_counts_as_all_that_it_holds() -> None:
    cache = LRUCache(100_000)
    cache.find("a", lambda: np.zeros(1000)[:1])
    assert cache.n_bytes == 8000 + _OVERHEAD


def test_a_read_that_fails_leaves_nothing() -> None:
    cache = LRUCache(10_000)
    with pytest.raises(ZeroDivisionError):
        cache.find("a", lambda: np.zeros(1 // 0))
    assert cache.n_bytes == 0
    assert cache.find("a", lambda: np.ones(1)).tolist() == [1]


def test_many_threads_find_what_they_ask_for() -> None:
    cache = LRUCache(20 * (800 + _OVERHEAD))

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(500):
            key = chance.randrange(60)
            assert cache.find(key, lambda key=key: np.full(100, key))[0] == key  # type: ignore[misc]
            assert cache.n_bytes <= 20 * (800 + _OVERHEAD)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    held = sum(array.nbytes + _OVERHEAD for array in cache._arrays.values())
    assert cache.n_bytes == held
