"""Nulls are what chance gives."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.neurons.evaluation.permutation import held_out_bits, p_value, permute_labels, tempering
from cutaway.neurons.labels.labels import encode
from cutaway.neurons.probes.gaussian.probe import mutual_information


def test_labels_of_whole_groups_change_places_together() -> None:
    groups = np.repeat(np.arange(20), 3)
    encoded = encode(np.repeat(np.arange(20) % 2, 3))
    found = permute_labels(encoded, groups, np.random.default_rng(0)).codes.reshape(20, 3)
    assert (found == found[:, :1]).all()
    assert found.sum() == encoded.codes.sum()
    assert (found.reshape(-1) != encoded.codes).any()


def test_one_row_that_differs_does_not_set_the_others_of_its_group_free() -> None:
    groups = np.repeat(np.arange(20), 6)
    labels = np.repeat(np.arange(20) % 2, 6)
    labels[4] = 1
    found = permute_labels(encode(labels), groups, np.random.default_rng(0))
    shares = found.codes.reshape(20, 6).sum(axis=1)
    assert sorted(shares.tolist()) == [0] * 9 + [1] + [6] * 10
    assert found.counts.tolist() == [59, 61]


def test_each_group_gets_a_part_of_the_labels_of_a_group_of_about_its_size_in_their_order() -> None:
    sizes = np.array([4] * 10 + [7] * 10 + [8])
    groups = np.repeat(np.arange(21), sizes)
    numbers = 100.0 * groups + np.concatenate([np.arange(size) for size in sizes]) + 0.5
    found = permute_labels(encode(numbers), groups, np.random.default_rng(0)).codes
    for group, size in enumerate(sizes):
        own = found[groups == group]
        lender = int(own[0] // 100)
        assert {int(value // 100) for value in own} == {lender}
        assert (sizes[lender] > 4) == (size > 4)
        assert np.isin(np.diff(own), [1, 1 - sizes[lender]]).all()


def test_rows_that_are_groups_of_their_own_change_places_one_by_one() -> None:
    encoded = encode(np.arange(60) % 3)
    found = permute_labels(encoded, np.arange(60), np.random.default_rng(0))
    assert found.counts.tolist() == [20, 20, 20]
    assert (found.codes != encoded.codes).any()


def test_p_counts_the_value_itself() -> None:
    assert p_value(1.0, np.zeros(19)) == 0.05
    assert p_value(0.0, np.zeros(19)) == 1.0


def test_bits_are_those_of_the_gaussian_probe_and_noise_adds_none() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2000, 30)), np.arange(2000) % 2
    x[:, 0] += 1.5 * y
    half = (np.arange(1000), np.arange(1000, 2000))
    sizes, inner = np.array([0, 1, 30]), (np.arange(750), np.arange(750, 1000))
    powers = tempering(x[inner[0]], x[inner[1]], (y[inner[0]], y[inner[1]]), sizes)
    both = (y[half[0]], y[half[1]])
    bits, null = held_out_bits(x[half[0]], x[half[1]], both, sizes, powers=powers, n_shuffles=4, seed=0)
    told = bits.mean(axis=1)
    assert told[0] == 0
    assert told[1] == pytest.approx(mutual_information(x, y, [0], validation=0.5), abs=0.03)
    assert 0.4 * told[1] < told[2] < told[1] + 0.02  # 30 units cost, but do not drown what one tells
    assert np.abs(null).max() < 0.02


def test_units_that_never_change_tell_nothing() -> None:
    x, y = np.zeros((40, 3)), np.arange(40) % 2
    x[:, 1] = y + np.random.default_rng(0).normal(size=40) / 10
    bits, _ = held_out_bits(x, x, (y, y), np.array([1, 2, 3]), powers=np.ones(3), n_shuffles=0, seed=0)
    assert bits.mean(axis=1) == pytest.approx([0, 1, 1], abs=0.05)
    assert (tempering(x, x, (y, y), np.array([1, 2, 3])) > 0).tolist() == [False, True, True]
    dead, ones = x[:, :1], np.ones(1)
    assert held_out_bits(dead, dead, (y, y), np.array([1]), powers=ones, n_shuffles=0, seed=0)[0].tolist() == [
        [0.0] * 40
    ]
