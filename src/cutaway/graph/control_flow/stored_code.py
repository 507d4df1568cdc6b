"""Placeholder for a code object in a trace loaded from disk; fingerprints of code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from types import CodeType
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class StoredCode:
    """The stored part of a code object: its names, a fingerprint, and the lines of the instructions that were run."""

    co_filename: str
    co_qualname: str
    fingerprint: str
    lines: Mapping[int, tuple[int, str]]
    """Instruction → line number and text."""


def fingerprint_of(code: CodeType | StoredCode) -> str:
    """A hash of the code; equal for equal code in all processes with the same Python version.

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
        *(code.co_code, code.co_linetable, _constant_text(code.co_consts)),
    )
    # A string constant can contain a lone surrogate, which UTF-8 rejects.
    return blake2b(repr(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _constant_text(constant: Any) -> str:
    """The text of a constant, independent of the process: the order of sets varies between processes."""
    if isinstance(constant, CodeType):
        return _fingerprint(constant)
    if isinstance(constant, tuple):
        return f"({', '.join(map(_constant_text, constant))})"
    if isinstance(constant, frozenset):
        return f"{{{', '.join(sorted(map(_constant_text, constant)))}}}"
    return f"{type(constant).__name__} {constant!r}"
