"""The data model of a page: sections with blocks, for notebooks, HTML files, the viewer and terminals.

A block is one part of a page, such as a table, a chart or colored text. It is plain data: Python decides what it says,
`web/src/pages` how it looks. Texts are plain text, never HTML. Lists and arrays are stored as tuples; numbers that are
not finite become None.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from cutaway.core import late
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint, listed, short, type_text
from cutaway.results.result import Result

ColumnKind = Literal["text", "number", "share", "bar"]
"""How a column of a table is shown:

text     left-aligned words
number   right-aligned, sorted by size
share    a number from 0 to 1, as percent
bar      a number with a bar of that length
"""
Topic = Literal["start", "neurons", "language"]
"""The tab of the viewer that lists a saved page."""
Cell = str | float | None
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Prose:
    """Paragraphs of plain text, separated by empty lines."""

    text: str
    title: str = ""
    kind: Literal["prose"] = field(default="prose", init=False)

    def __post_init__(self) -> None:
        _set_fields(self, text=str(self.text), title=str(self.title))


@dataclass(frozen=True, slots=True)
class Fact:
    """One named value."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values: `Facts([("units", "2,304"), ("accuracy", "0.93", "± 0.01")])`."""

    items: Sequence[Fact]
    title: str = ""
    kind: Literal["facts"] = field(default="facts", init=False)

    def __post_init__(self) -> None:
        _set_fields(self, items=tuple(map(_fact, self.items)), title=str(self.title))


@dataclass(frozen=True, slots=True)
class Column:
    """The header of a column."""

    name: str
    kind: ColumnKind = "text"
    about: str = ""
    """Explains the column, in its tooltip."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(ColumnKind):
            kinds = get_args(ColumnKind)
            raise InputError(
                f"kind of column {self.name!r} must be {', '.join(map(repr, kinds[:-1]))} or {kinds[-1]!r}, "
                f"got {self.kind!r}.{hint(self.kind, kinds)}"
            )


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the reader can sort them."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    kind: Literal["table"] = field(default="table", init=False)

    def __post_init__(self) -> None:
        columns = tuple(each if isinstance(each, Column) else Column(str(each)) for each in self.columns)
        rows = tuple(_row(row, f"row {place} of the table") for place, row in enumerate(self.rows))
        for place, row in enumerate(rows):
            _check_same_length(len(row), len(columns), f"cells of row {place}", "columns")
        is_text = [column.kind == "text" for column in columns]
        cells = (
            tuple(_as_text(cell) if text else _number(cell) for cell, text in zip(row, is_text, strict=True))
            for row in rows
        )
        _set_fields(self, columns=columns, rows=tuple(cells), title=str(self.title))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart."""

    name: str
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    """Lower end of an interval around each point; empty, or one per point."""
    high: Sequence[float | None] = ()
    is_dashed: bool = False

    def __post_init__(self) -> None:
        _set_fields(self, name=str(self.name), y=_numbers(self.y), low=_numbers(self.low), high=_numbers(self.high))
        for what in ("low", "high"):
            if getattr(self, what):
                _check_same_length(
                    len(getattr(self, what)), len(self.y), f"{what} ends of line {self.name!r}", "points"
                )


@dataclass(frozen=True, slots=True)
class Lines:
    """A line chart, such as accuracy over the number of units kept."""

    x_name: str
    y_name: str
    x: Sequence[float | None]
    lines: Sequence[Line]
    is_log_x: bool = False
    x_names: Sequence[str] = ()
    """Label of each x position, such as a token; empty, or one per position."""
    title: str = ""
    kind: Literal["lines"] = field(default="lines", init=False)

    def __post_init__(self) -> None:
        lines = _checked(self.lines, (Line,), "lines of Lines")
        _set_fields(self, x=_numbers(self.x), lines=lines, title=str(self.title))
        if any(a is None or b is None or a >= b for a, b in zip(self.x, self.x[1:], strict=False)):
            raise InputError(f"x of Lines must be finite and ascending, got {listed(map(str, self.x), 20)}.")
        for line in self.lines:
            _check_same_length(len(line.y), len(self.x), f"points of line {line.name!r}", "x positions")
        _set_fields(self, x_names=_names(self.x_names))
        if self.x_names:
            _check_same_length(len(self.x_names), len(self.x), "names", "x positions")


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar chart: one number per name."""

    names: Sequence[str]
    values: Sequence[float | None]
    low: Sequence[float | None] = ()
    """Lower end of an interval around each value; empty, or one per value."""
    high: Sequence[float | None] = ()
    is_signed: bool = False
    """Whether bars start in the middle and go both ways."""
    title: str = ""
    kind: Literal["bars"] = field(default="bars", init=False)

    def __post_init__(self) -> None:
        _set_fields(self, names=_names(self.names), values=_numbers(self.values), title=str(self.title))
        _set_fields(self, low=_numbers(self.low), high=_numbers(self.high))
        _check_same_length(len(self.values), len(self.names), "values", "bar names")
        for ends in filter(None, (self.low, self.high)):
            _check_same_length(len(ends), len(self.names), "interval ends", "bars")


@dataclass(frozen=True, slots=True)
class Series:
    """Counts per bin for one kind of value."""

    name: str
    counts: Sequence[float | None]

    def __post_init__(self) -> None:
        _set_fields(self, name=str(self.name), counts=_numbers(self.counts))


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram with one series per kind of value."""

    edges: Sequence[float | None]
    """Bin edges, ascending: one more than bins."""
    series: Sequence[Series]
    title: str = ""
    kind: Literal["histogram"] = field(default="histogram", init=False)

    def __post_init__(self) -> None:
        series = _checked(self.series, (Series,), "series of Histogram")
        _set_fields(self, edges=_numbers(self.edges), series=series, title=str(self.title))
        for each in self.series:
            _check_same_length(
                len(each.counts) + 1, len(self.edges), f"edges that the counts of {each.name!r} need", "edges"
            )


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A matrix shown as colors."""

    row_names: Sequence[str]
    column_names: Sequence[str]
    values: Sequence[Sequence[float | None]]
    low: float | None = None
    """The value with the palest color; the least by default. If diverging, the negative of `high`. It may be greater
    than `high`: ranks have the full color at 1."""
    high: float | None = None
    is_diverging: bool = False
    """Whether the scale is symmetric around zero."""
    is_log: bool = False
    """Whether the color scale is logarithmic; values and ends must be positive."""
    shows_numbers: bool = True
    is_share: bool = False
    """Whether values are shares from 0 to 1, shown as percent."""
    texts: Sequence[Sequence[str]] = ()
    """Text in each cell beside its number, such as a token; empty, or one per cell."""
    notes: Sequence[Sequence[str]] = ()
    """Tooltip of each cell; empty, or one per cell."""
    title: str = ""
    kind: Literal["heatmap"] = field(default="heatmap", init=False)

    def __post_init__(self) -> None:
        _set_fields(
            self, row_names=_names(self.row_names), column_names=_names(self.column_names), title=str(self.title)
        )
        values = (_row(row, f"row {place} of the heatmap") for place, row in enumerate(self.values))
        _set_fields(self, values=tuple(map(_numbers, values)))
        _check_same_length(len(self.values), len(self.row_names), "rows", "row names")
        for row in self.values:
            _check_same_length(len(row), len(self.column_names), "columns", "column names")
        for what in ("texts", "notes"):
            texts_of_cells = tuple(_names(row) for row in getattr(self, what))
            if texts_of_cells:
                _check_same_length(len(texts_of_cells), len(self.values), f"rows of {what}", "row names")
            for texts in texts_of_cells:
                _check_same_length(len(texts), len(self.column_names), f"{what} of cells", "column names")
            _set_fields(self, **{what: texts_of_cells})
        low, high = _finite_range(value for row in self.values for value in row)
        low, high = (low if self.low is None else self.low), (high if self.high is None else self.high)
        most = max(abs(low), abs(high))
        if self.is_log and (self.is_diverging or min(low, high) <= 0):
            raise InputError(f"is_log=True needs a positive low= and high=, not {low:g} and {high:g}.")
        _set_fields(self, low=-most if self.is_diverging else low, high=most if self.is_diverging else high)


@dataclass(frozen=True, slots=True)
class Text:
    """Tokens with values."""

    tokens: Sequence[str]
    values: Sequence[Sequence[float | None]]
    """One row per channel of the block, one number per token; None for a token without a value."""
    title: str = ""
    marks: Sequence[int] = ()
    """Positions of tokens to frame."""
    chooses: Sequence[int] = ()
    """For each token, the channel that it selects on hover or click, -1 for none; empty if tokens select nothing."""

    def __post_init__(self) -> None:
        _set_fields(self, tokens=_names(self.tokens), values=tuple(_numbers(row) for row in self.values))
        _set_fields(self, title=str(self.title), marks=tuple(int(place) for place in self.marks))
        _set_fields(self, chooses=tuple(int(channel) for channel in self.chooses))
        if self.chooses:
            _check_same_length(len(self.chooses), len(self.tokens), "choices", "tokens")
        for row in self.values:
            _check_same_length(len(row), len(self.tokens), "values", "tokens")
        if any(not 0 <= place < len(self.tokens) for place in self.marks):
            raise InputError(
                f"marks must be positions 0 to {len(self.tokens) - 1} of the text, got {list(self.marks)}."
            )


@dataclass(frozen=True, slots=True)
class ColoredText:
    """Texts with tokens colored by one channel at a time: a unit, a head, a factor."""

    channels: Sequence[str]
    texts: Sequence[Text]
    is_signed: bool = True
    """Whether negative values have their own color."""
    most: Sequence[float] = ()
    """The magnitude with the full color, per channel; the largest by default."""
    shows_strongest: bool = False
    """Whether channels compete for tokens, as factors do: each has its own color and a curve beside the text, and a
    token has the color of its strongest channel."""
    is_share: bool = False
    """Whether values are shares from 0 to 1, shown as percent."""
    missing: str = "no number"
    """Tooltip of a token without a value."""
    link: str = ""
    """Colored texts of a page with the same nonempty link always show the same channel."""
    title: str = ""
    kind: Literal["text"] = field(default="text", init=False)

    def __post_init__(self) -> None:
        texts = _checked(self.texts, (Text,), "texts of ColoredText")
        _set_fields(self, channels=_names(self.channels), texts=texts, title=str(self.title))
        for text in self.texts:
            _check_same_length(
                len(text.values), len(self.channels), f"rows of values of the text {text.title!r}", "channels"
            )
            if any(not -1 <= channel < len(self.channels) for channel in text.chooses):
                raise InputError(
                    f"chooses= must name channels 0 to {len(self.channels) - 1}, or -1 for none, "
                    f"got {sorted(set(text.chooses))}."
                )
        if self.shows_strongest and (self.link or any(text.chooses for text in self.texts)):
            raise InputError("shows_strongest=True cannot be combined with link= or with texts that have chooses=.")
        full_scale = self.most or [
            max((abs(value) for text in self.texts for value in text.values[channel] if value is not None), default=0.0)
            for channel in range(len(self.channels))
        ]
        _check_same_length(len(full_scale), len(self.channels), "values in most=", "channels")
        _set_fields(self, most=tuple(float(value) for value in full_scale))


Block = Prose | Facts | Table | Lines | Bars | Histogram | Heatmap | ColoredText


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks of a page with a common title."""

    title: str
    about: str = ""
    blocks: Sequence[Block] = ()
    is_wide: bool = False
    """Whether it takes the full width; other sections may be side by side."""

    def __post_init__(self) -> None:
        blocks = _checked(self.blocks, get_args(Block), f"blocks of section {self.title!r}")
        _set_fields(self, title=str(self.title), about=str(self.about), blocks=blocks)


@dataclass(frozen=True, slots=True)
class Page(Result):
    """A page about a result: `cutaway.show(page)`, `page.to_html("page.html")`, or `print(page)`.

    >>> print(Page("Units", sections=[Section("Scores", blocks=[Bars(["#1", "#2"], [0.5, 0.25])])]).text(40))
    Units
    =====
    <BLANKLINE>
    Scores
    ------
    #1  ██████████████████████████████   0.5
    #2  ███████████████                 0.25
    """

    title: str
    about: str = ""
    sections: Sequence[Section] = ()
    topic: str = ""  # not a Topic, so that pages of other versions still load
    """The tab of the viewer that lists a saved page: "neurons", "language", or "start". The viewer opens on a start
    page; texts in its columns named "saved as" link to the archives of that name."""
    kind: Literal["page"] = field(default="page", init=False)

    def __post_init__(self) -> None:
        sections = _checked(self.sections, (Section,), f"sections of page {self.title!r}")
        _set_fields(self, title=str(self.title), about=str(self.about), sections=sections)
        _set_fields(self, topic=str(self.topic))
        if self.topic and self.topic not in get_args(Topic):
            names = ", ".join(map(repr, get_args(Topic)))
            close = hint(self.topic, get_args(Topic))
            warnings.warn(
                f"cutaway: the viewer has no tab for topic={self.topic!r}, and lists the page under 'neurons'.{close} "
                f"Topics: {names}.",
                UserWarning,
                stacklevel=3,
            )
        linked: dict[str, int] = {}
        for block in (block for section in self.sections for block in section.blocks):
            if isinstance(block, ColoredText) and block.link:
                n = linked.setdefault(block.link, len(block.channels))
                _check_same_length(
                    len(block.channels), n, f"channels of a text linked by {block.link!r}", "channels of another one"
                )

    def page(self) -> Page:
        """Returns itself."""
        return self

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Save it as one self-contained HTML file; returns its path.

        Args:
            path: the file to write.
        """
        written: Path = late.call("Page.to_html", self, path)
        return written

    def text(self, width: int = 100) -> str:
        """The page as plain text, in lines of at most `width` characters.

        Args:
            width: the most characters in a line.
        """
        text: str = late.call("Page.text", self, width)
        return text

    def _repr_html_(self) -> str:
        html: str = late.call("Page._repr_html_", self)
        return html

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Page {self.title}: {', '.join(section.title for section in self.sections)}>"


def _set_fields(instance: object, **values: Any) -> None:
    """Sets fields of a frozen dataclass in `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def _checked(items: Sequence[_T], kinds: tuple[type, ...], what: str) -> tuple[_T, ...]:
    """The items as a tuple; raises `InputTypeError` if they are no list, or one has the wrong type."""
    names = listed([kind.__name__ for kind in kinds], len(kinds))
    if isinstance(items, (str, *kinds)) or not isinstance(items, Iterable):
        raise InputTypeError(f"the {what} must be a list, got a single {type(items).__name__}: put it in brackets.")
    for item in items:
        if not isinstance(item, kinds):
            prose = " Wrap text in Prose(…)." if isinstance(item, str) and Prose in kinds else ""
            raise InputTypeError(f"the {what} must be {names}, got {type_text(item)}.{prose}")
    return tuple(items)


def _fact(item: Any) -> Fact:
    if isinstance(item, Fact):
        return item
    if not isinstance(item, (tuple, list)) or not 2 <= len(item) <= 3:
        how = "a fact must be (name, value) or (name, value, remark)"
        raise InputTypeError(f"{how}, got {short(repr(item), 60)}.")
    return Fact(*map(_as_text, item))


def _row(row: Any, what: str) -> tuple[Any, ...]:
    if isinstance(row, str) or not hasattr(row, "__iter__"):
        raise InputTypeError(f"{what} must be a list of cells, got {short(repr(row), 60)}.")
    return tuple(row)


def _as_text(value: object) -> str:
    return "" if value is None else str(value)


def _names(values: Iterable[object]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InputTypeError(f"expected a list of texts, got a single text: {short(values, 60)!r}.")
    return tuple(map(str, values))


def _number(value: Any) -> float | None:
    """A number for JSON; None for missing or non-finite values."""
    if value is None:
        return None
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, (bool, int)):
        return int(plain)
    if not isinstance(plain, float):
        raise InputTypeError(f"expected a number, got {type_text(plain)}: {short(str(plain), 60)!r}.")
    return plain if math.isfinite(plain) else None


def _numbers(values: Iterable[Any]) -> tuple[float | None, ...]:
    return tuple(_number(value) for value in (values.tolist() if hasattr(values, "tolist") else values))


def _finite_range(values: Iterable[float | None]) -> tuple[float, float]:
    finite = [value for value in values if value is not None]
    return (min(finite), max(finite)) if finite else (0.0, 0.0)


def _check_same_length(n: int, expected: int, what: str, of: str) -> None:
    if n != expected:
        raise InputError(f"got {n:,} {what}, but {expected:,} {of}: the numbers must be equal.")
