"""Units read one at a time: with their own names and words, and of a large collection by an even sample of windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutaway.core.errors import NotFoundError
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.sampling import UnitReader
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Rows
from cutaway.store.reading.archive import Archive

N_WINDOWS, N_ITEMS, N_WORDS = 10, 3, 4
SITES = (CollectedSite("h.0", 5), CollectedSite("h.1", 3, units=(2, 7, 9)))


@pytest.fixture(scope="module")
def values() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.random.default_rng(0).normal(size=(N_WINDOWS * N_ITEMS * N_WORDS, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def acts(
    tmp_path_factory: pytest.TempPathFactory, values: np.ndarray[tuple[int, int], np.dtype[np.float32]]
) -> Activations:
    path: Path = tmp_path_factory.mktemp("acts") / "acts"
    n = N_ITEMS * N_WORDS
    with ActivationsWriter(path, SITES) as writer:
        for window in range(N_WINDOWS):
            part = values[window * n : (window + 1) * n]
            rows = Rows.of(
                np.repeat(np.arange(N_ITEMS), N_WORDS) + window * N_ITEMS, word=list(range(N_WORDS)) * N_ITEMS
            )
            words = [f"w{window * n + row}" for row in range(n)]
            writer.window({"h.0": part[:, :5], "h.1": part[:, 5:]}, rows, words, n_items=N_ITEMS)
    return Activations.read(Archive(path))


def test_a_unit_is_its_column_with_its_name_and_the_words_of_its_rows(acts: Activations, values: np.ndarray) -> None:
    read = UnitReader(acts)
    for unit in range(8):
        one = read(unit)
        assert one.names == [acts.names[unit]]
        np.testing.assert_array_equal(one.array()[:, 0], values[:, unit])
        assert list(one.words) == list(acts.words)
        np.testing.assert_array_equal(one.items, acts.items)
        np.testing.assert_array_equal(one.word_index, acts.word_index)
    assert read.n_bytes > 0


def test_units_are_found_by_name_and_by_number(acts: Activations) -> None:
    read = UnitReader(acts)
    assert [read.unit_number(name) for name in acts.names] == list(range(8))
    assert [read.unit_number(str(unit)) for unit in range(8)] == list(range(8))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("h.1#3", "'h.1' has no unit '3'. It has 3 units, from 2 to 9"),
        ("h.0#5", "'h.0' has no unit '5'. It has 5 units, from 0 to 4"),
        ("h.0#-1", "'h.0' has no unit '-1'"),
        ("h.0#" + "9" * 40, "'h.0' has no unit"),
        ("h.2#0", "Nearest: 'h.1', 'h.0'"),
        ("h.0", "Write the site, # and a number, as in 'h.0#0'"),
        ("8", "no unit '8'"),
    ],
)
def test_what_is_no_unit_is_refused_in_a_sentence(acts: Activations, name: str, said: str) -> None:
    with pytest.raises(NotFoundError) as error:
        UnitReader(acts).unit_number(name)
    assert said in str(error.value)


@pytest.mark.parametrize("limits", [{"most_bytes": 3 * 12 * 5 * 4}, {"most_rows": 36}])
def test_above_a_limit_an_even_sample_of_whole_windows_is_read(
    acts: Activations, values: np.ndarray, limits: dict[str, int]
) -> None:
    read = UnitReader(acts, **limits)
    assert read.windows("h.0") == (0, 4, 9)
    one = read(1)
    rows = np.concatenate([np.arange(12 * window, 12 * window + 12) for window in (0, 4, 9)])
    np.testing.assert_array_equal(one.array()[:, 0], values[rows, 1])
    assert list(one.words) == [f"w{row}" for row in rows]
    np.testing.assert_array_equal(np.unique(one.items), [0, 1, 2, 12, 13, 14, 27, 28, 29])


def test_at_least_one_window_is_read_and_narrow_sites_are_read_further(acts: Activations) -> None:
    assert UnitReader(acts, most_bytes=1).windows("h.0") == (5,)
    read = UnitReader(acts, most_bytes=120 * 3 * 4)
    assert read.windows("h.1") is None
    assert len(read.windows("h.0") or ()) == 6


def test_rows_without_words_have_empty_ones() -> None:
    acts = Activations.of({"conv": np.arange(6.0).reshape(3, 2)})
    assert list(acts.words) == list(UnitReader(acts)(1).words) == ["", "", ""]
    assert acts.words[1:] == ["", ""]
