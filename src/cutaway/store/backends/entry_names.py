"""Which names may be asked for inside an archive: one rule for every backend.

Names come out of index files too, and those may have been written by anybody.
"""

from __future__ import annotations

from cutaway.core.errors import InputError

_LONGEST_PART = 255
_LONGEST_NAME = 1024


def parts_of(name: object) -> tuple[str, ...]:
    """The folders and the file of a name; InputError where it could lead out of the archive.

    >>> parts_of("rank-0/0001.index")
    ('rank-0', '0001.index')
    """
    if not isinstance(name, str):
        raise InputError(f"a file of an archive is named by text such as 'rank-0/0001.index', not by {name!r}")
    parts = tuple(name.split("/"))
    why = _objection(name, parts)
    if why:
        shown = repr(name) if len(name) <= 80 else f"{name[:80]!r}…"
        raise InputError(f"{shown} cannot name a file of an archive: {why}. Names look like 'rank-0/0001.index'")
    return parts


def is_allowed(name: str) -> bool:
    """Whether a name may be asked for.

    >>> is_allowed("../secret")
    False
    """
    return not _objection(name, tuple(name.split("/")))


def _objection(name: str, parts: tuple[str, ...]) -> str:
    if not name:
        return "it is empty"
    if name.startswith("/"):
        return "it is absolute"
    if "\\" in name:
        return "it has a backslash"
    if not name.isprintable():  # NUL, control characters, halves of surrogates
        return "it has characters that cannot be printed"
    if ".." in parts or "." in parts or "" in parts:
        return "each part between slashes must be a name of its own"
    if len(name.encode()) > _LONGEST_NAME or any(len(part.encode()) > _LONGEST_PART for part in parts):
        return f"it is longer than {_LONGEST_NAME} bytes, or than {_LONGEST_PART} between slashes"
    return ""
