"""Source lines of instructions, and stacks of events, computed from code objects on demand."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from cutaway.graph.control_flow.stored_code import StoredCode

if TYPE_CHECKING:
    from cutaway.graph.tables import Tables

_PACKAGE = str(Path(__file__).parents[2]).replace("\\", "/") + "/"


@dataclass(frozen=True, slots=True)
class Source:
    """One line of source code."""

    file: str
    line: int
    function: str
    _text: str | None = field(default=None, repr=False, compare=False)
    """The line at the time the trace was saved; None in a trace made in this process."""

    @property
    def text(self) -> str:
        """The text of the line; "" if neither its file nor a stored copy is available."""
        return linecache.getline(self.file, self.line).strip() if self._text is None else self._text

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def source_of(code: CodeType | StoredCode | None, instruction: int) -> Source | None:
    """The source line of an instruction of a code object."""
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
    """Whether a line is in the user's code rather than inside torch or Cutaway."""
    file = source.file.replace("\\", "/")
    return "/torch/" not in file and not file.startswith(("<frozen", _PACKAGE))


def stack_of(tables: Tables, event: tuple[Any, ...]) -> tuple[Source, ...]:
    """The stack of an event: its line, those of its composite functions, those of its module calls."""
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
    """The innermost line outside torch; the innermost of all if there is none."""
    return next((place for place in stack if is_users(place)), stack[0] if stack else None)
