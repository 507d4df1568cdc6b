"""Where in the code something ran, worked out from a code object when somebody asks."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from cutaway.graph.code import StoredCode

_OWN = str(Path(__file__).parent.parent).replace("\\", "/") + "/"


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
