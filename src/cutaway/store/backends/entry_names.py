"""Checks file names inside an archive, one rule for every backend.

Names also come from index files, which are untrusted input.
"""

from __future__ import annotations

from cutaway.core.errors import InputError, InputTypeError

_MAX_PART = 255
_MAX_NAME = 1024


def split_name(name: object) -> tuple[str, ...]:
    """Split a name into folders and file; InputError if it could lead out of the archive.

    >>> split_name("rank-0/0001.index")
    ('rank-0', '0001.index')
    """
    if not isinstance(name, str):
        raise InputTypeError(f"a file name inside an archive is text such as 'rank-0/0001.index', not {name!r}")
    parts = tuple(name.split("/"))
    why = _name_problem(name, parts)
    if why:
        shown = repr(name) if len(name) <= 80 else f"{name[:80]!r}…"
        raise InputError(f"{shown} is not a valid name inside an archive: {why}. Names look like 'rank-0/0001.index'")
    return parts


def is_allowed(name: str) -> bool:
    """Whether a name is valid.

    >>> is_allowed("../secret")
    False
    """
    return not _name_problem(name, tuple(name.split("/")))


def _name_problem(name: str, parts: tuple[str, ...]) -> str:
    if not name:
        return "it is empty"
    if name.startswith("/"):
        return "it is an absolute path"
    if "\\" in name:
        return "it has a backslash"
    if not name.isprintable():  # NUL, control characters, lone surrogates
        return "it has unprintable characters"
    if ".." in parts or "." in parts or "" in parts:
        return "a part between slashes is empty, '.' or '..'"
    if len(name.encode()) > _MAX_NAME or any(len(part.encode()) > _MAX_PART for part in parts):
        return f"it is longer than {_MAX_NAME} bytes, or than {_MAX_PART} between slashes"
    return ""
