"""What stands in the place of a code object in a trace that was read from disk, and when two pieces of code are one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from types import CodeType
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class StoredCode:
    """What is kept of a code object: its names, a fingerprint, and the lines of the instructions that were run."""

    co_filename: str
    co_qualname: str
    fingerprint: str
    lines: Mapping[int, tuple[int, str]]
    """Instruction → number and text of its line."""


def fingerprint_of(code: CodeType | StoredCode) -> str:
    """The same for the same code, in this process and in any other of the same Python.

    >>> one, two = (eval("lambda x: x + 1").__code__ for _ in range(2))
    >>> fingerprint_of(one) == fingerprint_of(two)
    True
    """
    return code.fingerprint if isinstance(code, StoredCode) else _fingerprint(code)


@lru_cache(maxsize=1024)
def _fingerprint(code: CodeType) -> str:
    parts = (
        *(code.co_qualname, code.co_firstlineno, code.co_flags, code.co_argcount, code.co_kwonlyargcount),
        *(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        *(code.co_code, code.co_linetable, _said(code.co_consts)),
    )
    return blake2b(repr(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _said(constant: Any) -> str:
    """A constant in words that do not depend on the process: sets have no order of their own."""
    if isinstance(constant, CodeType):
        return _fingerprint(constant)
    if isinstance(constant, tuple):
        return f"({', '.join(map(_said, constant))})"
    if isinstance(constant, frozenset):
        return f"{{{', '.join(sorted(map(_said, constant)))}}}"
    return f"{type(constant).__name__} {constant!r}"
