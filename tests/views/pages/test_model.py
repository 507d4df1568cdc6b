"""Blocks keep what they are given, as JSON can say it, and read as text and as still HTML."""

from __future__ import annotations

import html.parser
import json
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.views.pages.example_pages import HOSTILE, every_block

from cutaway.core.errors import InputError
from cutaway.server.view_json import to_json as as_json
from cutaway.views.pages.html import static_html
from cutaway.views.pages.model import (
    Bars,
    Block,
    ColoredText,
    Column,
    Fact,
    Facts,
    Heatmap,
    Histogram,
    Line,
    Lines,
    Page,
    Prose,
    Section,
    Series,
    Table,
    Text,
)
from cutaway.views.pages.text import as_text


def shown(block: Block, width: int = 80) -> list[str]:
    """The lines of a block alone."""
    return as_text(Page("P", sections=[Section("S", blocks=[block])]), width).splitlines()[5:]


def test_arrays_become_what_json_knows_and_what_is_not_finite_becomes_none() -> None:
    bars = Bars(np.array(["a", "b", "c"]), np.array([1.5, np.nan, -np.inf]), low=np.float32([1, 2, 3]))
    assert (bars.names, bars.values, bars.low) == (("a", "b", "c"), (1.5, None, None), (1.0, 2.0, 3.0))
    assert Bars(["n"], np.array([3])).values == (3,)
    assert isinstance(Bars(["n"], np.array([3])).values[0], int)


def test_a_page_is_strict_json_with_the_names_of_its_attributes() -> None:
    page = every_block()
    data = json.loads(as_json(page), parse_constant=lambda word: pytest.fail(word))
    assert data["kind"] == "page"
    kinds = [block["kind"] for section in data["sections"] for block in section["blocks"]]
    assert set(kinds) == {"prose", "facts", "table", "lines", "bars", "histogram", "heatmap", "text"}
    assert data["sections"][0]["blocks"][0]["items"][0] == {
        "name": "units",
        "value": "2,304",
        "remark": "6 layers of 384",
    }


def test_blocks_cannot_be_changed() -> None:
    prose = Prose("a")
    with pytest.raises(FrozenInstanceError):
        prose.text = "b"  # type: ignore[misc]


def _linked(*channels: list[str]) -> Page:
    return Page("P", sections=[Section("S", blocks=[ColoredText(each, [], link="a") for each in channels])])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Bars(["a"], [1, 2]), "got 2 values, but 1 bar names"),
        (lambda: Bars("ab", [1, 2]), "got a single text: 'ab'"),
        (lambda: Bars(["a"], ["x"]), "expected a number, got a str: 'x'"),
        (lambda: Table([Column("a")], [(1,), (1, 2)]), "got 2 cells of row 1, but 1 columns"),
        (lambda: Line("l", [1, 2], low=[1]), "1 low ends of line 'l', but 2 points"),
        (lambda: Lines("x", "y", [1, 2], [Line("l", [1])]), "1 points of line 'l', but 2 x positions"),
        (lambda: Lines("x", "y", [2, 1], []), "must be finite and ascending"),
        (lambda: Histogram([0, 1], [Series("s", [1, 2])]), "3 edges that the counts of 's' need, but 2 edges"),
        (lambda: Heatmap(["r"], ["c"], [[1, 2]]), "2 columns, but 1 column names"),
        (lambda: Heatmap(["r"], ["c"], [[1]], texts=[["a", "b"]]), "2 texts of cells, but 1 column names"),
        (lambda: Heatmap(["r"], ["c"], [[1]], notes=[["a"], ["b"]]), "2 rows of notes, but 1 row names"),
        (lambda: Heatmap(["r"], ["c"], [[0]], is_log=True), "positive low= and high=, not 0 and 0"),
        (lambda: Text(["a"], [[1, 2]]), "2 values, but 1 tokens"),
        (lambda: Text(["a"], [[1]], marks=[1]), r"marks must be positions 0 to 0 of the text, got \[1\]"),
        (lambda: Text(["a"], [[1]], chooses=[0, 0]), "2 choices, but 1 tokens"),
        (
            lambda: ColoredText(["u"], [Text(["a"], [[1]], chooses=[1])]),
            r"chooses= must name channels 0 to 0, or -1 for none, got \[1\]",
        ),
        (
            lambda: ColoredText(["u"], [], shows_strongest=True, link="a"),
            "shows_strongest=True cannot be combined with link=",
        ),
        (lambda: Column("a", "numbr"), "kind of column 'a' must be .* Did you mean 'number'"),  # type: ignore[arg-type]
        (lambda: Section("S", blocks=["a"]), "blocks of section 'S' must be .*Wrap text in Prose"),  # type: ignore[list-item]
        (lambda: Section("S", blocks=Prose("a")), "must be a list, got a single Prose"),  # type: ignore[arg-type]
        (lambda: Page("P", sections=Section("S")), "sections of page 'P' must be a list"),  # type: ignore[arg-type]
        (lambda: Page("P", sections=[Prose("a")]), "must be Section, got a Prose"),  # type: ignore[list-item]
        (lambda: Facts([("a",)]), r"a fact must be \(name, value\) or .*, got \('a',\)"),
        (lambda: Facts(["ab"]), "a fact must be .*, got 'ab'"),
        (lambda: Table([Column("a")], [1]), "row 0 of the table must be a list of cells, got 1"),
        (lambda: Table([Column("a")], ["x"]), "row 0 of the table must be a list of cells, got 'x'"),
        (lambda: Heatmap(["r"], ["c"], [1]), "row 0 of the heatmap must be a list of cells, got 1"),
        (lambda: Lines("x", "y", [1], [[1]]), "lines of Lines must be Line, got a list"),
        (lambda: Histogram([0, 1], [("s", [1])]), "series of Histogram must be Series, got a tuple"),
        (lambda: ColoredText(["u"], ["text"]), "texts of ColoredText must be Text, got a str"),
        (lambda: _linked(["u"], ["u", "v"]), "2 channels of a text linked by 'a', but 1 channels of another one"),
        (lambda: Lines("x", "y", [1, 2], [], x_names=["a"]), "1 names, but 2 x positions"),
        (lambda: ColoredText(["u", "v"], [Text(["a"], [[1]])]), "1 rows of values of the text '', but 2 channels"),
    ],
)
def test_what_does_not_fit_together_is_told(make: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()


def test_the_full_color_is_that_of_the_largest_value_of_each_channel() -> None:
    texts = [Text(["a", "b"], [[1, -4], [0, None]]), Text(["c"], [[2], [0]])]
    assert ColoredText(["u", "dead"], texts).most == (4.0, 0.0)
    assert ColoredText(["u", "dead"], texts, most=[2, 1]).most == (2.0, 1.0)


def test_cells_have_texts_and_notes_and_ranks_are_full_at_one() -> None:
    block = Heatmap(
        ["r"], ["a", "b"], [[1, 100]], low=100, high=1, is_log=True, texts=[["<x>", "y"]], notes=[["n", "m"]]
    )
    assert (block.low, block.high) == (100, 1)
    assert shown(block)[-1].split() == ["r", "<x>", "1", "y", "100"]
    found = static_html(Page("P", sections=[Section("S", blocks=[block])]))
    assert "&lt;x&gt; <small>1</small>" in found
    assert 'title="100 m"' in found
    shades = Heatmap(["r"], ["a", "b", "c"], [[1, 10, 100]], low=100, high=1, is_log=True, shows_numbers=False)
    assert shown(shades)[0] == "r   █ ▒"


def test_the_names_on_x_stand_beside_the_numbers() -> None:
    block = Lines("step", "p", [0, 1], [Line("l", [0.5, 1.0])], x_names=["·a", "·b"])
    assert [line.split() for line in shown(block)[-2:]] == [["0", "·a", "0.5"], ["1", "·b", "1"]]


def test_a_diverging_heatmap_has_zero_in_the_middle() -> None:
    both = Heatmap(["r"], ["a", "b"], [[-1, 3]], is_diverging=True)
    assert (both.low, both.high) == (-3, 3)
    one = Heatmap(["r"], ["a", "b"], [[1, 3]])
    assert (one.low, one.high) == (1, 3)
    empty = Heatmap(["r"], ["a"], [[None]])
    assert (empty.low, empty.high) == (0, 0)


def test_facts_are_given_as_plain_tuples() -> None:
    assert Facts([("a", 3), ("b", "c", "d")]).items == (Fact("a", "3"), Fact("b", "c", "d"))


def test_a_table_in_a_terminal_is_aligned_and_says_what_is_left_out() -> None:
    table = Table([Column("name"), Column("n", "number"), Column("p", "share")], [("a", 12345, 0.5), ("bb", None, 1)])
    assert shown(table) == [
        "name       n        p",
        "────  ──────  ───────",
        "a     12,345   50.0 %",
        "bb         –  100.0 %",
    ]
    wide = Table([Column(f"column {n}") for n in range(20)], [tuple("x" * 20)] * 50)
    lines = shown(wide, 60)
    assert max(map(len, lines)) <= 60
    assert lines[-2].startswith("further columns: column 6")
    assert lines[-1] == "and 10 more rows"


def test_bars_in_a_terminal_are_as_long_as_their_values() -> None:
    lines = shown(Bars(["a", "b", "c"], [4, 2, 0]), 44)
    assert [line.count("█") for line in lines[:2]] == [38, 19]
    signed = shown(Bars(["a", "b"], [4, -4], is_signed=True), 44)
    middle = signed[0].index("│")
    assert signed[1].index("│") == middle
    assert "█" not in signed[0][:middle]
    assert "█" not in signed[1][middle:]


def test_colored_text_in_a_terminal_has_signs_and_densities() -> None:
    text = ColoredText(["u"], [Text(["much", "none", "little", "minus"], [[4, 0, 1, -4]], marks=[1])])
    assert shown(text) == ["u: full at 4", "  +█much [none] +░little -█minus"]


def test_all_zeros_are_no_division_by_zero() -> None:
    zeros = ColoredText(["u"], [Text(["a", "b"], [[0, 0]])])
    assert shown(zeros) == ["u: zero everywhere", "  a b"]
    flat = [Bars(["a"], [0]), Heatmap(["r"], ["c"], [[0]]), Histogram([0, 1], [Series("s", [0])]), zeros]
    page = Page("flat", sections=[Section("s", blocks=flat)])
    assert page.text()
    assert page._repr_html_()


def test_nothing_steers_the_terminal() -> None:
    page = Page("a\x1b[31m", "\x07", [Section("\x1b]0;x", blocks=[Bars(["\x1b[2J"], [1]), Prose("\x9b31m")])])
    assert all(sign.isprintable() or sign == "\n" for sign in page.text())


@given(
    names=st.lists(st.text(max_size=30), min_size=1, max_size=4),
    value=st.one_of(st.none(), st.floats(), st.integers(-(10**9), 10**9)),
    width=st.integers(40, 120),
)
def test_lines_keep_to_the_width_whatever_is_said(names: list[str], value: float | None, width: int) -> None:
    values = [value] * len(names)
    blocks: list[Block] = [
        Bars(names, values),
        Bars(names, values, is_signed=True),
        Facts([(name, name, name) for name in names]),
        Table([Column(name) for name in names], [names]),
        Heatmap(names, names, [values] * len(names)),
        Heatmap(names, names, [values] * len(names), shows_numbers=False, is_diverging=True),
        Histogram([0, 1], [Series(name, [2]) for name in names]),
        Prose(" ".join(names)),
        ColoredText(names, [Text(names, [values] * len(names), title=names[0])]),
    ]
    for block in blocks:
        assert max(map(len, shown(block, width)), default=0) <= width


def test_a_page_that_is_too_narrow_is_refused() -> None:
    with pytest.raises(InputError, match="at least 40"):
        Page("a").text(10)


class Reader(html.parser.HTMLParser):
    """What elements a text has, and what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[str] = []
        self.said = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.said += data


def test_the_still_page_holds_texts_as_texts_and_runs_nothing() -> None:
    reader = Reader()
    reader.feed(static_html(every_block()))
    assert HOSTILE in reader.said
    allowed = {"div", "h2", "h3", "p", "table", "tr", "td", "th", "b", "span", "img"}
    assert set(reader.elements) <= allowed
    assert set(reader.attributes) <= {"style", "title", "alt", "src"}


def test_the_still_page_says_the_whole_number_to_who_points_at_it() -> None:
    page = Page("p", sections=[Section("s", blocks=[Bars(["a"], [0.12345678901234])])])
    assert 'title="0.12345678901234"' in page._repr_html_()
    assert ">0.123<" in page._repr_html_()


def test_a_page_prints_itself_and_is_named_in_one_line() -> None:
    page = every_block()
    assert str(page) == page.text(100)
    assert repr(Page("A", sections=[Section("b"), Section("c")])) == "<Page A: b, c>"


def test_an_unknown_topic_warns_and_says_where_the_page_is_listed() -> None:
    with pytest.warns(UserWarning, match="no tab for topic='neuron'.*under 'neurons'. Did you mean 'neurons'?"):
        Page("Units", topic="neuron")
