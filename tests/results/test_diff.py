"""What a diff says of itself."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from torch import nn

import cutaway
from cutaway.results.diff import Change, Compared, Diff, Distance, First, shade

FAR = Distance(False, 0.5, 0.25, 0.1, 0.99, 8, 2)
ROWS = (
    Compared("op", "value", "linear_1_1", "0/linear", "0/linear", Distance(True, n_elements=8)),
    Compared("op", "value", "relu_1_2", "1/relu", "1/relu", FAR, None, True, "net.py:3 in forward"),
    Compared("op", "grad", "relu_1_2", "1/relu", "1/relu", Distance(False, 2.0, 1.0, 0.9, 0.1, 8, 8), 0),
    Compared("output", "value", "relu_1_2", ".", ".", FAR),
)
CHANGES = (
    Change("new", "module", "2", "2", "", after="Tanh"),
    Change("new", "op", "tanh_1_3", "2/tanh", "", after="tanh float32 [2, 4]"),
    Change("changed", "op", "gelu_1_2", "1/gelu", "1/relu", ("function",), "relu", "gelu"),
    Change("removed", "op", "neg_1_4", "/neg", "/neg", before="neg float32 [2, 4]"),
)
FIRST = First("relu_1_2", "1/relu", "1/relu", "net.py:3 in forward", FAR, ("linear_1_1",), (), ("0.weight",))
FULL = Diff("Net (4 ops)", "Net (5 ops)", CHANGES, ROWS, FIRST, 3, ("something else",))


def test_it_is_true_if_structure_or_values_differ() -> None:
    assert FULL
    assert Diff("a", "b", CHANGES[:1], (), None, 0)
    assert Diff("a", "b", (), ROWS[1:2], None, 0)
    assert not Diff("a", "b", (), ROWS[:1], None, 0)
    assert not Diff("a", "b", (), (), None, 0)


def test_its_parts_are_those_of_structure_and_values() -> None:
    assert [row.label for row in FULL.new] == ["tanh_1_3"]
    assert [row.label for row in FULL.removed] == ["neg_1_4"]
    assert [row.label for row in FULL.changed] == ["gelu_1_2"]
    assert [row.label for row in FULL.modules] == ["2"]
    assert FULL.outputs == ROWS[3:]
    assert FULL.different == ROWS[1:]
    assert FULL.origins == ROWS[1:2]
    assert FULL.largest() == (ROWS[2], ROWS[1])


def test_in_print_it_says_how_many_where_first_and_what() -> None:
    assert repr(FULL).splitlines() == [
        "Diff of Net (4 ops) and Net (5 ops)",
        "  ops         1 new, 1 removed, 1 changed, 3 in both",
        "  modules     1 new",
        "  values      4 compared, 1 equal, 3 different",
        "  output      relu_1_2 at .: 10 % of its norm, at most 0.5, 2 of 8 elements",
        "  first       relu_1_2 at 1/relu: 10 % of its norm, at most 0.5, 2 of 8 elements",
        "              net.py:3 in forward",
        "              of its parents: equal linear_1_1; unknown 0.weight",
        "  structure",
        "    + module 2: Tanh with 1 op",
        "    ~ op gelu_1_2 at 1/relu → 1/gelu: relu → gelu",
        "    − op neg_1_4 at /neg: neg float32 [2, 4]",
        "  furthest apart",
        "    relu_1_2 at 1/relu gradient: 90 % of its norm, at most 2, 8 of 8 elements",
        "    relu_1_2 at 1/relu: 10 % of its norm, at most 0.5, 2 of 8 elements",
        "  note        something else",
    ]


def test_in_print_a_long_list_is_cut() -> None:
    many = Diff("a", "b", CHANGES[1:2] * 40, ROWS[1:2] * 40, None, 0)
    assert "    and 30 more" in repr(many).splitlines()
    assert "    and 35 more" in repr(many).splitlines()
    assert len(repr(many).splitlines()) < 30


def test_in_print_a_new_module_stands_for_all_in_it() -> None:
    inside = (
        Change("new", "module", "h.2", "h.2", "", after="Block"),
        Change("new", "module", "h.2.up", "h.2.up", "", after="Linear"),
        Change("new", "module", "h.20", "h.20", "", after="Block"),
        Change("new", "parameter", "h.2.up.weight", "h.2.up.weight", "", after="float32 [4, 4]"),
        Change("new", "op", "linear_3_5", "h.2.up/linear", "", after="linear float32 [2, 4]"),
        Change("new", "op", "add_3_6", "h.2/add:2", "", after="add float32 [2, 4]"),
        Change("removed", "op", "add_2_4", "h.2/add", "h.2/add", before="add float32 [2, 4]"),
    )
    lines = repr(Diff("a", "b", inside, (), None, 0)).splitlines()
    assert lines[lines.index("  structure") + 1 :] == [
        "    + module h.2: Block with 1 module, 1 parameter, 2 ops",
        "    + module h.20: Block",
        "    − op add_2_4 at h.2/add: add float32 [2, 4]",
    ]


def test_without_a_difference_it_says_so() -> None:
    assert repr(Diff("a", "b", (), ROWS[:1], None, 1)) == "no difference: 1 op alike, 1 value equal"


def test_what_is_not_finite_is_said_and_comes_first() -> None:
    odd = Distance(False, 0.0, 0.0, 0.0, 1.0, 4, 2, n_nan=1, n_inf=1)
    assert str(odd) == "0.0e+00 of its norm, at most 0, 2 of 4 elements (1 NaN, 1 Inf in one only)"
    assert odd.order > FAR.order


def test_shades_grow_with_the_distance() -> None:
    norms = [1e-9, 1e-5, 1e-3, 0.1, 0.5, 100.0]
    shades = [shade(Distance(False, 1.0, 1.0, norm)) for norm in norms]
    assert shades == [1, 1, 2, 3, 4, 4]
    assert shade(Distance(True)) == 0
    assert shade(Distance(False, norm=None)) == shade(Distance(False, norm=0.0, n_nan=1)) == 4


def test_it_is_plain_data() -> None:
    plain = json.loads(json.dumps(FULL.to_dict(), allow_nan=False))
    assert plain["first"]["label"] == "relu_1_2"
    assert plain["values"][1]["distance"]["norm"] == 0.1
    assert plain["structure"][2]["aspects"] == ["function"]


def test_the_table_has_a_row_for_each_change_and_value(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = FULL.table()
    assert len(frame) == 8
    assert list(frame["what"]) == ["structure"] * 4 + ["value", "value", "grad", "value"]
    assert list(frame[frame["how"] == "new"]["label"]) == ["2", "tanh_1_3"]
    assert frame["share"].dropna().tolist() == [0.0, 0.25, 1.0, 0.25]
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = FULL.table()
    assert [set(row) for row in rows] == [set(frame.columns)] * 8
    assert rows[5]["norm"] == 0.1
    assert list(Diff("a", "b", (), (), None, 0).table()) == []


def test_it_cannot_be_changed() -> None:
    found = cutaway.diff(*(cutaway.trace(nn.ReLU(), torch.ones(2)) for _ in range(2)))
    with pytest.raises(AttributeError):
        found.first = None  # type: ignore[misc]
