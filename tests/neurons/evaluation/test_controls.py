"""Control tasks give each word type one label, drawn as often as it occurs in the task."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.core.errors import InputError
from cutaway.neurons.evaluation.controls import control_labels

RNG = np.random.default_rng(0)
WORDS = [f"w{number}" for number in RNG.integers(0, 3000, 6000)]
LABELS = RNG.choice(["a", "b", "c"], 6000, p=[0.7, 0.2, 0.1])


def test_a_type_has_one_label_and_labels_keep_their_shares() -> None:
    found = control_labels(LABELS, WORDS, seed=1)
    of_type: dict[str, int] = {}
    for word, code in zip(WORDS, found.codes.tolist(), strict=True):
        assert of_type.setdefault(word, code) == code
    shares = np.bincount(list(of_type.values())) / len(of_type)
    assert shares == pytest.approx([0.7, 0.2, 0.1], abs=0.03)
    assert found.counts.sum() == 6000


def test_labels_do_not_depend_on_those_of_the_task() -> None:
    found = control_labels(LABELS, WORDS, seed=1)
    assert (np.array(found.classes)[found.codes] == LABELS).mean() == pytest.approx(0.7**2 + 0.2**2 + 0.1**2, abs=0.04)


def test_the_same_seed_draws_the_same_and_another_draws_others() -> None:
    first, again, other = (control_labels(LABELS, WORDS, seed=seed).codes for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()


def test_uniform_draws_all_labels_alike() -> None:
    found = control_labels(LABELS, WORDS, like="uniform")
    assert np.bincount(found.codes) / 6000 == pytest.approx([1 / 3] * 3, abs=0.05)
    with pytest.raises(InputError, match="like='other'"):
        control_labels(LABELS, WORDS, like="other")  # type: ignore[arg-type]


def test_numbers_are_drawn_from_the_numbers() -> None:
    numbers = RNG.normal(size=50)
    found = control_labels(numbers, ["a", "b"] * 25)
    assert set(found.codes.tolist()) <= set(numbers.tolist())
    assert len(set(found.codes.tolist())) == 2
