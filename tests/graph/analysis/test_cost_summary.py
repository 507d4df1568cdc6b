"""Where time, FLOPs and bytes go."""

from __future__ import annotations

import pytest
import torch
from tests.zoo import ZOO
from torch import nn

import cutaway
from cutaway import Op, Trace
from cutaway.core.errors import InputError


@pytest.fixture(scope="module")
def trace() -> Trace:
    block = [nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 8))) for _ in range(3)]
    return cutaway.trace(nn.Sequential(nn.Linear(4, 8), nn.Sequential(*block), nn.LSTM(8, 5)), torch.ones(6, 4))


@pytest.mark.parametrize("name", ZOO)
def test_every_table_adds_up_to_the_whole(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    trace = cutaway.trace(model, *args, **kwargs)
    for by in ("function", "module", "module_class", lambda op: op.dtype):
        for of in ("seconds", "flops", "bytes"):
            rows = trace.ops.totals(by, of=of)  # type: ignore[arg-type]
            assert sum(row.flops for row in rows.values()) == trace.flops == trace.ops.total.flops
            assert sum(row.bytes for row in rows.values()) == trace.bytes == trace.ops.total.bytes
            assert sum(row.count for row in rows.values()) == len({op.siblings[0] for op in trace.ops})
            amounts = [getattr(row, of) for row in rows.values()]
            assert amounts == sorted(amounts, reverse=True)
            if sum(amounts):
                assert sum(row.share for row in rows.values()) == pytest.approx(1)


def test_inclusive_totals_count_an_op_in_every_module_around_it(trace: Trace) -> None:
    rows = trace.ops.totals("module", inclusive=True)
    exclusive = trace.ops.totals("module")
    assert rows["."].flops == trace.flops
    for address, row in rows.items():
        inside = [op for op in trace.ops if is_in(op, address)]
        assert row.flops == sum(op.flops for op in inside)
        assert row.bytes == sum(op.bytes for op in inside)
    assert rows["1.0"].count == 3
    assert "1.0" not in exclusive  # nothing ran in it directly
    assert rows["2"] == exclusive["2"]


def is_in(op: Op, address: str) -> bool:
    call = op.module
    while call is not None and call.address != address:
        call = call.parent
    return call is not None


def test_nested_modules_of_one_class_count_an_op_once(trace: Trace) -> None:
    rows = trace.ops.totals("module_class", inclusive=True)
    assert rows["Sequential"].count == trace.ops.total.count
    assert rows["Linear"].count == 7
    assert set(trace.ops.totals("module_class")) == {"Linear", "ReLU", "LSTM"}


def test_a_call_with_several_results_counts_once_whichever_of_them_are_chosen(trace: Trace) -> None:
    lstm = trace.select(function="lstm")
    assert len(lstm) == 3
    for part in (lstm, lstm[:1], lstm[1:2], lstm[1:]):
        assert (part.total.count, part.total.flops) == (1, lstm[0].flops)
        assert part.total.bytes == sum(op.bytes for op in part)
        assert part.total.seconds == lstm[0].seconds


def test_totals_of_a_part_are_of_that_part(trace: Trace) -> None:
    linear = trace.select(function="linear")
    rows = linear.totals()
    assert list(rows) == ["linear"]
    assert rows["linear"].share == 1
    assert rows["linear"].flops == linear.total.flops
    assert len(trace.select(function="none").totals()) == 0


def test_ops_outside_all_modules_have_their_own_row() -> None:
    model, x = nn.Linear(2, 2), torch.ones(1, 2)
    with cutaway.watch(model) as trace:
        model(x).pow(2).mean()
    rows = trace.ops.totals("module")
    assert rows[""].count == 2
    assert "(outside all modules)" in repr(rows)
    assert trace.ops.totals("module", inclusive=True)[""].count == 2


def test_a_table_fits_one_screen_and_names_what_it_is_sorted_by(trace: Trace) -> None:
    text = repr(trace.ops.totals("module", of="flops"))
    assert "of flops" in text.splitlines()[0]
    assert text.splitlines()[1].startswith("2")  # the LSTM
    assert len(text.splitlines()) <= 14
    assert max(map(len, text.splitlines())) <= 100
    assert "and " in repr(trace.ops.totals(lambda op: op.label)) or len(trace) <= 12


def test_what_cannot_be_counted_or_grouped_by_is_an_error(trace: Trace) -> None:
    with pytest.raises(InputError, match="unknown measure 'joules'"):
        trace.ops.totals(of="joules")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot group by 'color'"):
        trace.ops.totals("color")  # type: ignore[arg-type]
