"""Edits count absolute token positions, whatever slice of the text a step has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import cutaway
from cutaway.capture.interventions.token_positions import (
    TokenWindow,
    current_token_window,
    generation_window,
    token_window,
)
from cutaway.core.errors import EditError

LENGTH = 12


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.lists(st.integers(-3, 15), max_size=4))
def test_steps_together_meet_what_one_run_meets(sizes: list[int], positions: list[int]) -> None:
    whole = TokenWindow(3)
    sizes = [sum(sizes) + 3, *sizes]  # the prompt is longer than any step
    here = TokenWindow(3)
    met = []
    for size in sizes:
        here.step(size)
        met += [place + here.first for place in here.indices(positions, size)]
    assert met == whole.indices(positions, sum(sizes))


def test_a_model_without_a_cache_reads_all_of_it_each_time() -> None:
    here = TokenWindow(2)
    for n in (2, 3, 4):
        here.step(n)
        assert here.first == 0


def test_a_text_of_one_token_goes_on() -> None:
    here = TokenWindow(1)
    firsts = []
    for _ in range(3):
        here.step(1)
        firsts.append(here.first)
    assert firsts == [0, 1, 2]


@pytest.mark.parametrize("first", [0, 2, 4, 6])
def test_another_text_lies_over_the_same_positions(first: int) -> None:
    other = torch.arange(5.0).reshape(1, 5, 1) + 100
    value = torch.arange(8.0).reshape(1, 8, 1)[:, first : first + 2]
    expected = [float(p + 100 if p < 5 else p) for p in range(first, first + 2)]
    assert TokenWindow(5, first=first).overlay(other, value).flatten().tolist() == expected


def test_outside_of_it_places_are_meant_as_they_are() -> None:
    model = nn.Linear(2, 2)
    x = torch.ones(1, 4, 2)

    def zeros(**part: Any) -> list[int]:
        with torch.no_grad(), cutaway.edit(model, at=".", to=0, **part):
            return [place for place, row in enumerate(model(x)[0]) if not row.any()]

    assert current_token_window() is None
    assert zeros(positions=-1) == [3]
    with token_window(2) as here:
        assert zeros(positions=-1) == [1]
        here.first = 10
        assert zeros(positions=[0, 11]) == [1]
    assert current_token_window() is None
    with pytest.raises(EditError, match="-1 is the last one"), token_window(2):
        zeros(positions=-3)


def test_the_hook_leaves_with_the_block_also_after_an_error() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(RuntimeError), generation_window(model, 1):
        model(torch.ones(3))
    assert not model._forward_pre_hooks
    assert current_token_window() is None
