"""File names inside an archive."""

from __future__ import annotations

import re
from typing import Final

HEAD: Final = "cutaway.json"
INDEX: Final = ".index"
PART: Final = ".part"
SEALED: Final = ".safetensors"
FLIGHT: Final = ".flight"
FLIGHT_SEGMENT: Final = 0
"""The segment number of statistics that are in the ring file of the flight recorder; other segments count from 1."""

_RANK = re.compile(r"rank-(0|[1-9][0-9]{0,8})")
_INDEX = re.compile(r"([0-9]{4,9})\.index")


def rank_folder(rank: int) -> str:
    """
    >>> rank_folder(3)
    'rank-3'
    """
    return f"rank-{rank}"


def rank_of(folder: str) -> int | None:
    """The rank of a folder; None if it is not a rank folder."""
    match = _RANK.fullmatch(folder)
    return int(match[1]) if match else None


def session_stem(folder: str, session: int) -> str:
    """
    >>> session_stem("rank-0", 2)
    'rank-0/0002'
    """
    return f"{folder}/{session:04d}"


def session_of(name: str) -> int | None:
    """The session of an index file; None if it is not an index file."""
    match = _INDEX.fullmatch(name)
    return int(match[1]) if match and name == f"{int(match[1]):04d}{INDEX}" else None


def values_stem(folder: str, session: int, segment: int) -> str:
    """
    >>> values_stem("rank-0", 2, 17)
    'rank-0/0002-v0017'
    """
    return f"{session_stem(folder, session)}-v{segment:04d}"


def flight_name(folder: str, session: int) -> str:
    """
    >>> flight_name("rank-0", 2)
    'rank-0/0002.flight'
    """
    return session_stem(folder, session) + FLIGHT


def statistics_stem(folder: str, session: int, segment: int) -> str:
    """
    >>> statistics_stem("rank-0", 2, 1)
    'rank-0/0002-s0001'
    """
    return f"{session_stem(folder, session)}-s{segment:04d}"
