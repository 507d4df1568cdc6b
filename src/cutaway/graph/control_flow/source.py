"""Where in the code something ran, worked out from a code object when somebody asks."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from cutaway.graph.control_flow.stored_code import StoredCode

if TYPE_CHECKING:
    from cutaway.graph.tables import Tables

_OWN = str(Path(__file__).parents[2]).replace("\\", "/") + "/"


@dataclass(frozen=True, slots=True)
class Source:
    """One place in the code."""

    file: str
    line: int
    function: str
    _text: str | None = field(default=None, repr=False, compare=False)
    """The line as it was when the trace was saved; None in a trace that was made in this process."""

    @property
    def text(self) -> str:
        """The line itself, where the file is at hand or the line was stored with the trace."""
        return linecache.getline(self.file, self.line).strip() if self._text is None else self._text

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def source_of(code: CodeType | StoredCode | None, instruction: int) -> Source | None:
    """The place of one instruction of a code object."""
    if code is None:
        return None
    if isinstance(code, StoredCode):
        place, text = code.lines.get(instruction, (0, ""))
        return Source(code.co_filename, place, code.co_qualname, text)
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
            break
    return Source(code.co_filename, line, code.co_qualname)


def is_users(source: Source) -> bool:
    """Whether a place lies in the user's own code rather than inside torch."""
    file = source.file.replace("\\", "/")
    return "/torch/" not in file and not file.startswith(("<frozen", _OWN))


def stack_of(tables: Tables, event: tuple[Any, ...]) -> tuple[Source, ...]:
    """The places that led to an event: its own line, those of its composites, those of its module calls."""
    places = [source_of(event[6], event[7])]
    call, group = event[4], event[5]
    while group:
        opened = tables.groups[group]
        places.append(source_of(opened.code, opened.instruction))
        group = opened.parent
    while call:
        row = tables.calls[call]
        places.append(source_of(row.code, row.instruction))
        call = row.parent
    return tuple(place for place in places if place is not None)


def users_line(stack: tuple[Source, ...]) -> Source | None:
    """The innermost place outside torch; the innermost of all where there is none."""
    return next((place for place in stack if is_users(place)), stack[0] if stack else None)
