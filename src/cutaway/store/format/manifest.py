"""`cutaway.json`: what a folder is, and in which version of the format."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast, get_args
from zlib import crc32

from cutaway.core.errors import DamagedError, VersionError
from cutaway.store.format.fields import count, text

FORMAT_VERSION: Final = 1
"""Raised when a reader of the version before could no longer read what is written; new keys do not raise it."""

Kind = Literal["run", "trace", "activations", "result", "generation"]
_MOST_BYTES = 1 << 20

MIGRATIONS: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
"""Version → how a record of that version is written in the next one. Applied on reading; files are never rewritten."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a folder is."""

    kind: Kind
    id: str
    created: str
    version: int = FORMAT_VERSION

    @staticmethod
    def new(kind: Kind) -> Head:
        return Head(kind, uuid.uuid4().hex, datetime.now(UTC).isoformat(timespec="seconds"))

    def packed(self) -> bytes:
        fields = {
            "format": "cutaway",
            "version": self.version,
            "kind": self.kind,
            "id": self.id,
            "created": self.created,
        }
        return (json.dumps({**fields, "checksum": _checksum(fields)}, indent=1) + "\n").encode()

    @staticmethod
    def read(data: bytes) -> Head:
        """Take a head apart; `DamagedError` if it is none, `VersionError` if it is of a newer version."""
        try:
            fields = json.loads(data[:_MOST_BYTES])
            if not isinstance(fields, dict) or fields.get("format") != "cutaway":
                raise DamagedError("cutaway.json does not say that this is a folder of Cutaway's")
            is_whole = fields.pop("checksum", None) == _checksum(fields)
        except DamagedError:
            raise
        except (ValueError, RecursionError) as error:
            raise DamagedError(f"cutaway.json is no JSON: {error}") from error
        if not is_whole:
            raise DamagedError("cutaway.json is not what was written: its checksum does not hold")
        version = count(fields.get("version"), "version in cutaway.json")
        check_version(version)
        kind = text(fields.get("kind"), "kind in cutaway.json")
        if kind not in get_args(Kind):
            raise DamagedError(f"cutaway.json says this is a {kind!r}; known are {', '.join(get_args(Kind))}")
        id_, created = (text(fields.get(key, ""), f"{key} in cutaway.json") for key in ("id", "created"))
        return Head(cast(Kind, kind), id_, created, version)


def _checksum(fields: Mapping[str, Any]) -> int:
    return crc32(json.dumps(fields, sort_keys=True).encode())


def check_version(version: int) -> None:
    """Raise if this code cannot read that version."""
    if version > FORMAT_VERSION:
        raise VersionError(
            f"this was written in version {version} of the format, and this Cutaway reads up to {FORMAT_VERSION}: "
            "pip install --upgrade cutaway."
        )
    if any(step not in MIGRATIONS for step in range(version, FORMAT_VERSION)):
        raise VersionError(f"this was written in version {version} of the format, which was never published.")


def migrated(record: dict[str, Any], version: int) -> dict[str, Any]:
    """A record as the present version would have written it."""
    try:
        for step in range(version, FORMAT_VERSION):
            record = MIGRATIONS[step](record)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"it cannot be read as one of version {version}: {type(error).__name__} {error}") from error
    return record


def kind_of(fields: Mapping[str, Any]) -> Kind | None:
    """The kind that a session record names, where `cutaway.json` is lost."""
    kind = fields.get("kind")
    return cast(Kind, kind) if kind in get_args(Kind) else None
