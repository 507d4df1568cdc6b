"""Random generators, autocast and grad mode are saved and restored."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.oracles import random_states
from torch import nn

import cutaway
from cutaway.capture.model.rng_state import RngStates, current_context, generators_used, preserve_rng, restore_context
from cutaway.core.events import Context


def draw() -> list[float]:
    return [random.random(), float(np.random.rand()), float(np.random.randint(1000)), float(torch.rand(()))]


@pytest.mark.parametrize("take", [RngStates.now, RngStates.now_fast], ids=["now", "now_fast"])
def test_the_same_numbers_come_again(take) -> None:
    draw()
    before = take()
    first = draw()
    before.restore()
    assert draw() == first


def test_only_the_exact_state_knows_of_a_number_in_store() -> None:
    np.random.seed(0)
    np.random.randn()  # made two, handed out one
    before = RngStates.now()
    first = np.random.randn()
    before.restore()
    assert np.random.randn() == first


def test_quickly_reads_what_numpy_itself_says() -> None:
    np.random.seed(5)
    np.random.rand(700)
    state = np.random.get_state()
    words = np.frombuffer(RngStates.now_fast().numpy, dtype=np.uint32)
    assert np.array_equal(words[:-1], state[1])
    assert words[-1] == state[2]


def test_another_generator_of_numpy_is_kept_as_well() -> None:
    own = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(3))
        before = RngStates.now_fast()
        first = np.random.rand()
        before.restore()
        assert np.random.rand() == first
    finally:
        np.random.set_bit_generator(own)


def test_whatever_is_drawn_inside_nothing_is_drawn_outside() -> None:
    before = random_states()
    with suppress(ZeroDivisionError), preserve_rng():
        draw()
        1 / 0  # noqa: B018
    assert random_states() == before


def test_conditions_are_restored_and_left() -> None:
    with restore_context(Context(False, (("cpu", torch.bfloat16),))):
        assert current_context() == Context(False, (("cpu", torch.bfloat16),))
        assert F.linear(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.bfloat16
    assert current_context() == Context(True)
    with restore_context(True):
        assert current_context() == Context(True)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "draws"),
    [
        ("dropout", (0, 0.5, False), {}, False),
        ("dropout", (0, 0.5, True), {}, True),
        ("dropout", (0,), {"training": False}, False),
        ("scaled_dot_product_attention", (0, 0, 0), {}, False),
        ("scaled_dot_product_attention", (0, 0, 0), {"dropout_p": 0.1}, True),
        ("lstm", (0, 0, 0, True, 2, 0.0, True, False, True), {}, False),
        ("lstm", (0, 0, 0, True, 2, 0.3, True, False, True), {}, True),
        ("randn", (3,), {}, True),
    ],
)
def test_a_state_is_kept_only_where_numbers_may_be_drawn(name, args, kwargs, draws) -> None:
    assert bool(generators_used(name, args, kwargs)) is draws


def test_only_drawing_ops_carry_a_state() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU()).train()
    trace = cutaway.trace(model, torch.ones(2, 4))
    contexts = {op.function: trace.tables.nodes.event[op.node][11] for op in trace.ops}  # type: ignore[index]
    assert contexts["linear"] is True
    assert contexts["relu"] is True
    assert contexts["dropout"].generators[0][0] is torch.default_generator
    quiet = cutaway.trace(model.eval(), torch.ones(2, 4))
    assert quiet.tables.nodes.event[quiet["dropout_1"].node][11] is True  # type: ignore[index]
