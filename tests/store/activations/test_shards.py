"""Parts of a collection are read as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.store.collected import Expected, collection

import cutaway
from cutaway.core.errors import InputError, NotFoundError
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.shards import shard_name


def parts(folder: Path, n: int = 3) -> list[Expected]:
    return [collection(folder / shard_name(i, n), 4 + i, seed=i) for i in range(n)]


def test_the_folder_of_all_shards_is_one_set(tmp_path: Path) -> None:
    wanted = parts(tmp_path)
    acts = cutaway.load(tmp_path)
    assert isinstance(acts, Activations)
    firsts = np.cumsum([0, *(part.n_items for part in wanted)])
    assert np.array_equal(acts.array(), np.concatenate([part.values for part in wanted]))
    assert acts.items.tolist() == [
        item + int(first) for part, first in zip(wanted, firsts, strict=False) for item in part.items
    ]
    assert acts.words == [word for part in wanted for word in part.words]
    assert acts.word_index.tolist() == [word for part in wanted for word in part.word]
    assert [(one.item, one.what) for one in acts.problems] == [
        (item + int(first), said) for part, first in zip(wanted, firsts, strict=False) for item, said in part.problems
    ]
    assert (acts.n_items, acts.is_whole, acts.path) == (int(firsts[-1]), True, str(tmp_path))
    rows = np.random.default_rng(0).permutation(len(acts))[:7]
    assert np.array_equal(acts.rows(rows).array(), acts.array()[rows])
    acts.save(tmp_path / "one")
    assert np.array_equal(cutaway.load(tmp_path / "one").array(), acts.array())
    assert cutaway.load(tmp_path / "one").items.tolist() == acts.items.tolist()


def test_parts_at_hand_are_joined_too() -> None:
    x = np.arange(12.0).reshape(6, 2)
    words = [["a", "b"], ["c"], ["d", "e", "f"]]
    halves = [Activations.of({"h": x[:3]}, words=words[:2]), Activations.of({"h": x[3:]}, words=words[2:])]
    both = Activations.join(halves)
    assert np.array_equal(both.array(), x)
    assert both.sentences == words
    for wrong, said in (
        ([], "got no activations to join"),
        ([halves[0], Activations.of({"g": x[3:]})], "part 1 has other sites"),
        ([halves[0], Activations.of({"h": x[3:].astype(np.float16)})], "part 1 has another dtype"),
        ([halves[0].rows([0]), halves[1]], "part 0 is a selection of rows or units"),
        ([halves[0].units([1]), halves[1]], "part 0 is a selection of rows or units"),
    ):
        with pytest.raises(InputError, match=said):
            Activations.join(wrong)


def test_a_shard_that_is_missing_or_of_another_set_is_named(tmp_path: Path) -> None:
    collection(tmp_path / "a" / shard_name(0, 3), 3)
    collection(tmp_path / "a" / shard_name(2, 3), 3)
    with pytest.raises(NotFoundError, match=r"2 of 3 shards. Missing: shard-00001-of-00003"):
        cutaway.load(tmp_path / "a")
    collection(tmp_path / "b" / shard_name(0, 1), 3)
    collection(tmp_path / "b" / shard_name(0, 2), 3)
    with pytest.raises(InputError, match=r"\(1 and 2 shards\)"):
        cutaway.load(tmp_path / "b")
