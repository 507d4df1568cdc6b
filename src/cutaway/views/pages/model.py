"""Pages of plates: the form in which results are shown, in a notebook, in a file, in the viewer and as text.

A plate is data and nothing else: what it says is decided in Python, how it looks in `web/src/plates`. Texts in it are
plain text, never HTML. Lists and arrays that are handed in are kept as tuples; numbers that are not finite become None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from cutaway.core import late
from cutaway.core.errors import InputError
from cutaway.results.result import Result

ColumnKind = Literal["text", "number", "share", "bar"]
"""How a column of a table reads:

text     words
number   to the right, sorted by size
share    a number from 0 to 1, as percent
bar      a number with a bar as long as it is large
"""
Cell = str | float | None


@dataclass(frozen=True, slots=True)
class Prose:
    """Paragraphs of plain text, with an empty line between them."""

    text: str
    title: str = ""
    kind: Literal["prose"] = field(default="prose", init=False)

    def __post_init__(self) -> None:
        _keep(self, text=str(self.text), title=str(self.title))


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is so."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what they are: `Facts([("units", "2,304"), ("accuracy", "0.93", "± 0.01")])`."""

    items: Sequence[Fact]
    title: str = ""
    kind: Literal["facts"] = field(default="facts", init=False)

    def __post_init__(self) -> None:
        made = (item if isinstance(item, Fact) else Fact(*map(_said, item)) for item in self.items)
        _keep(self, items=tuple(made), title=str(self.title))


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column."""

    name: str
    kind: ColumnKind = "text"
    about: str = ""
    """What its numbers are, for who points at it."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the reader sorts them."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    kind: Literal["table"] = field(default="table", init=False)

    def __post_init__(self) -> None:
        columns = tuple(each if isinstance(each, Column) else Column(str(each)) for each in self.columns)
        rows = tuple(tuple(row) for row in self.rows)
        for place, row in enumerate(rows):
            _same(len(row), len(columns), f"cells of row {place}", "columns")
        is_text = [column.kind == "text" for column in columns]
        cells = (
            tuple(_said(cell) if text else _number(cell) for cell, text in zip(row, is_text, strict=True))
            for row in rows
        )
        _keep(self, columns=columns, rows=tuple(cells), title=str(self.title))


@dataclass(frozen=True, slots=True)
class Line:
    """One line over the x of its plate."""

    name: str
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    """The lower end of an interval around each point; none, or one a point."""
    high: Sequence[float | None] = ()
    is_dashed: bool = False

    def __post_init__(self) -> None:
        _keep(self, name=str(self.name), y=_numbers(self.y), low=_numbers(self.low), high=_numbers(self.high))
        for what in ("low", "high"):
            if getattr(self, what):
                _same(len(getattr(self, what)), len(self.y), f"{what} ends of line {self.name!r}", "points")


@dataclass(frozen=True, slots=True)
class Lines:
    """Numbers over a number: an accuracy over how many units are kept."""

    x_name: str
    y_name: str
    x: Sequence[float | None]
    lines: Sequence[Line]
    is_log_x: bool = False
    x_names: Sequence[str] = ()
    """What stands at each place on x, a token say; none, or one a place."""
    title: str = ""
    kind: Literal["lines"] = field(default="lines", init=False)

    def __post_init__(self) -> None:
        _keep(self, x=_numbers(self.x), lines=tuple(self.lines), title=str(self.title))
        if any(a is None or b is None or a >= b for a, b in zip(self.x, self.x[1:], strict=False)):
            raise InputError(f"x of a plate of lines has to ascend, without gaps; it is {list(self.x)[:20]}.")
        for line in self.lines:
            _same(len(line.y), len(self.x), f"points of line {line.name!r}", "places on x")
        _keep(self, x_names=_names(self.x_names))
        if self.x_names:
            _same(len(self.x_names), len(self.x), "names", "places on x")


@dataclass(frozen=True, slots=True)
class Bars:
    """One number a name, each as long as it is large."""

    names: Sequence[str]
    values: Sequence[float | None]
    low: Sequence[float | None] = ()
    """The lower end of an interval around each value; none, or one a value."""
    high: Sequence[float | None] = ()
    is_signed: bool = False
    """Whether bars go both ways from the middle."""
    title: str = ""
    kind: Literal["bars"] = field(default="bars", init=False)

    def __post_init__(self) -> None:
        _keep(self, names=_names(self.names), values=_numbers(self.values), title=str(self.title))
        _keep(self, low=_numbers(self.low), high=_numbers(self.high))
        _same(len(self.values), len(self.names), "values", "names of bars")
        for ends in filter(None, (self.low, self.high)):
            _same(len(ends), len(self.names), "ends of intervals", "bars")


@dataclass(frozen=True, slots=True)
class Series:
    """How many values of one kind lie in each bin."""

    name: str
    counts: Sequence[float | None]

    def __post_init__(self) -> None:
        _keep(self, name=str(self.name), counts=_numbers(self.counts))


@dataclass(frozen=True, slots=True)
class Histogram:
    """How values are spread, one series for each kind of them."""

    edges: Sequence[float | None]
    """Of the bins, ascending: one more than there are bins."""
    series: Sequence[Series]
    title: str = ""
    kind: Literal["histogram"] = field(default="histogram", init=False)

    def __post_init__(self) -> None:
        _keep(self, edges=_numbers(self.edges), series=tuple(self.series), title=str(self.title))
        for each in self.series:
            _same(len(each.counts) + 1, len(self.edges), f"edges that the counts of {each.name!r} need", "edges")


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A matrix, each number as a color."""

    row_names: Sequence[str]
    column_names: Sequence[str]
    values: Sequence[Sequence[float | None]]
    low: float | None = None
    """What has the palest color; the least value if nothing is said. Diverging, it is the other side of `high`. It may
    be the greater one: ranks have their full color at 1."""
    high: float | None = None
    is_diverging: bool = False
    """Whether zero is the middle, and both ends are remarkable."""
    is_log: bool = False
    """Whether colors go by the logarithm; values and ends are above zero then."""
    shows_numbers: bool = True
    is_share: bool = False
    """Whether values are shares from 0 to 1, read as percent."""
    texts: Sequence[Sequence[str]] = ()
    """What stands in each cell beside its number, a token say; none, or one a cell."""
    notes: Sequence[Sequence[str]] = ()
    """What is said of each cell to who points at it; none, or one a cell."""
    title: str = ""
    kind: Literal["heatmap"] = field(default="heatmap", init=False)

    def __post_init__(self) -> None:
        _keep(self, row_names=_names(self.row_names), column_names=_names(self.column_names), title=str(self.title))
        _keep(self, values=tuple(_numbers(row) for row in self.values))
        _same(len(self.values), len(self.row_names), "rows", "names of rows")
        for row in self.values:
            _same(len(row), len(self.column_names), "columns", "names of columns")
        for what in ("texts", "notes"):
            said = tuple(_names(row) for row in getattr(self, what))
            if said:
                _same(len(said), len(self.values), f"rows of {what}", "names of rows")
            for texts in said:
                _same(len(texts), len(self.column_names), f"{what} of cells", "names of columns")
            _keep(self, **{what: said})
        low, high = _ends(value for row in self.values for value in row)
        low, high = (low if self.low is None else self.low), (high if self.high is None else self.high)
        most = max(abs(low), abs(high))
        if self.is_log and (self.is_diverging or min(low, high) <= 0):
            raise InputError(f"colors by the logarithm need ends above zero, and these are {low:g} and {high:g}.")
        _keep(self, low=-most if self.is_diverging else low, high=most if self.is_diverging else high)


@dataclass(frozen=True, slots=True)
class Text:
    """Tokens with numbers."""

    tokens: Sequence[str]
    values: Sequence[Sequence[float | None]]
    """One row for each channel of the plate, one number for each token; None for a token without one."""
    title: str = ""
    marks: Sequence[int] = ()
    """Places of the tokens that are meant: they are framed."""
    chooses: Sequence[int] = ()
    """For each token the channel that it chooses when it is pointed at or clicked, -1 for none; empty where tokens
    choose nothing."""

    def __post_init__(self) -> None:
        _keep(self, tokens=_names(self.tokens), values=tuple(_numbers(row) for row in self.values))
        _keep(self, title=str(self.title), marks=tuple(int(place) for place in self.marks))
        _keep(self, chooses=tuple(int(channel) for channel in self.chooses))
        if self.chooses:
            _same(len(self.chooses), len(self.tokens), "choices", "tokens")
        for row in self.values:
            _same(len(row), len(self.tokens), "values", "tokens")
        if any(not 0 <= place < len(self.tokens) for place in self.marks):
            raise InputError(f"marks {list(self.marks)} lie outside a text of {len(self.tokens)} tokens.")


@dataclass(frozen=True, slots=True)
class ColouredText:
    """Texts whose tokens are colored by one channel at a time: a unit, a head, a factor."""

    channels: Sequence[str]
    texts: Sequence[Text]
    is_signed: bool = True
    """Whether values below zero have a color of their own."""
    most: Sequence[float] = ()
    """The size of a value that has the full color, for each channel; the largest there is if nothing is said."""
    is_contest: bool = False
    """Whether the channels contend for the tokens, as factors do: each has a color and a line of its own beside the
    text, and a token has the color of the one that is largest there."""
    is_share: bool = False
    """Whether values are shares from 0 to 1, read as percent."""
    missing: str = "no number"
    """What is said of a token without a number."""
    link: str = ""
    """Colored texts of one page with the same link, if it is not empty, always show the same channel."""
    title: str = ""
    kind: Literal["text"] = field(default="text", init=False)

    def __post_init__(self) -> None:
        _keep(self, channels=_names(self.channels), texts=tuple(self.texts), title=str(self.title))
        for text in self.texts:
            _same(len(text.values), len(self.channels), f"rows of values of the text {text.title!r}", "channels")
            if any(not -1 <= channel < len(self.channels) for channel in text.chooses):
                raise InputError(f"tokens choose {sorted(set(text.chooses))} of {len(self.channels)} channels.")
        if self.is_contest and (self.link or any(text.chooses for text in self.texts)):
            raise InputError("channels that contend for the tokens are neither linked nor chosen by them.")
        own = self.most or [
            max((abs(value) for text in self.texts for value in text.values[channel] if value is not None), default=0.0)
            for channel in range(len(self.channels))
        ]
        _same(len(own), len(self.channels), "full colors", "channels")
        _keep(self, most=tuple(float(value) for value in own))


Plate = Prose | Facts | Table | Lines | Bars | Histogram | Heatmap | ColouredText


@dataclass(frozen=True, slots=True)
class Section:
    """Plates that belong together, below one title."""

    title: str
    about: str = ""
    plates: Sequence[Plate] = ()
    is_wide: bool = False
    """Whether it takes the whole width where two sections would stand side by side."""

    def __post_init__(self) -> None:
        _keep(self, title=str(self.title), about=str(self.about), plates=tuple(self.plates))


@dataclass(frozen=True, slots=True)
class Page(Result):
    """What is shown of a result: `cutaway.show(page)`, `page.to_html("page.html")`, or `print(page)`.

    >>> print(Page("Units", sections=[Section("Scores", plates=[Bars(["#1", "#2"], [0.5, 0.25])])]).text(40))
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
    topic: str = ""
    """What it is about, and with that the tab of the viewer that lists it where it is saved: "neurons", say."""
    kind: Literal["page"] = field(default="page", init=False)

    def __post_init__(self) -> None:
        _keep(self, title=str(self.title), about=str(self.about), sections=tuple(self.sections))
        _keep(self, topic=str(self.topic))
        linked: dict[str, int] = {}
        for plate in (plate for section in self.sections for plate in section.plates):
            if isinstance(plate, ColouredText) and plate.link:
                n = linked.setdefault(plate.link, len(plate.channels))
                _same(len(plate.channels), n, f"channels of a text linked by {plate.link!r}", "of another one")

    def page(self) -> Page:
        """Itself."""
        return self

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write it as one HTML file that needs nothing from outside; gives where it lies."""
        written: Path = late.call("Page.to_html", self, path)
        return written

    def text(self, width: int = 100) -> str:
        """It as text for a terminal, in lines of at most so many characters."""
        found: str = late.call("Page.text", self, width)
        return found

    def _repr_html_(self) -> str:
        found: str = late.call("Page._repr_html_", self)
        return found

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Page {self.title}: {', '.join(section.title for section in self.sections)}>"


def _keep(thing: object, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is being made."""
    for name, value in values.items():
        object.__setattr__(thing, name, value)


def _said(value: object) -> str:
    return "" if value is None else str(value)


def _names(values: Iterable[object]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InputError(f"a list of texts is needed, and this is one text: {values[:60]!r}.")
    return tuple(map(str, values))


def _number(value: Any) -> float | None:
    """A number as JSON knows it; None for what is none, or not finite."""
    if value is None:
        return None
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, (bool, int)):
        return int(plain)
    if not isinstance(plain, float):
        raise InputError(f"a number is needed here, and this is a {type(plain).__name__}: {str(plain)[:60]!r}.")
    return plain if math.isfinite(plain) else None


def _numbers(values: Iterable[Any]) -> tuple[float | None, ...]:
    return tuple(_number(value) for value in (values.tolist() if hasattr(values, "tolist") else values))


def _ends(values: Iterable[float | None]) -> tuple[float, float]:
    found = [value for value in values if value is not None]
    return (min(found), max(found)) if found else (0.0, 0.0)


def _same(n: int, expected: int, what: str, of: str) -> None:
    if n != expected:
        raise InputError(f"there are {n:,} {what}, and {expected:,} {of}: they have to be as many.")
