"""`cutaway.json`: kind, id and format version of an archive."""

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
"""Increases when older readers can no longer read new files; new keys do not count."""

Kind = Literal["run", "trace", "activations", "result", "generation"]
_MAX_BYTES = 1 << 20

MIGRATIONS: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
"""Version → function that upgrades a record to the next version. Applied on reading; files are never rewritten."""


@dataclass(frozen=True, slots=True)
class Head:
    """The manifest of an archive."""

    kind: Kind
    id: str
    created: str
    version: int = FORMAT_VERSION
    asked: str = ""
    """The name that the program asked for, if it was taken and this folder was numbered instead."""
    job: str = ""
    """Identifies the job, by which its other ranks find the folder; "" if they learn its name otherwise."""

    @staticmethod
    def new(kind: Kind, *, asked: str = "", job: str = "") -> Head:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return Head(kind, uuid.uuid4().hex, created, asked=asked, job=job)

    def packed(self) -> bytes:
        fields = {
            "format": "cutaway",
            "version": self.version,
            "kind": self.kind,
            "id": self.id,
            "created": self.created,
        }
        fields |= {key: text for key, text in (("asked", self.asked), ("job", self.job)) if text}
        return (json.dumps({**fields, "checksum": _checksum(fields)}, indent=1) + "\n").encode()

    @staticmethod
    def read(data: bytes) -> Head:
        """Decode a manifest; `DamagedError` if it is invalid, `VersionError` if its version is newer."""
        try:
            fields = json.loads(data[:_MAX_BYTES])
            if not isinstance(fields, dict) or fields.get("format") != "cutaway":
                raise DamagedError("cutaway.json is not a Cutaway manifest")
            is_whole = fields.pop("checksum", None) == _checksum(fields)
        except DamagedError:
            raise
        except (ValueError, RecursionError) as error:
            raise DamagedError(f"cutaway.json is not JSON: {error}") from error
        if not is_whole:
            raise DamagedError("cutaway.json is damaged: its checksum is wrong")
        version = count(fields.get("version"), "version in cutaway.json")
        # Before the kind: a newer version may have kinds that are unknown here, and that is not damage.
        check_version(version)
        kind = text(fields.get("kind"), "kind in cutaway.json")
        if kind not in get_args(Kind):
            raise DamagedError(f"cutaway.json has the unknown kind {kind!r}; known: {', '.join(get_args(Kind))}")
        id_, created, asked, job = (
            text(fields.get(key, ""), f"{key} in cutaway.json") for key in ("id", "created", "asked", "job")
        )
        return Head(cast(Kind, kind), id_, created, version, asked, job)


def _checksum(fields: Mapping[str, Any]) -> int:
    return crc32(json.dumps(fields, sort_keys=True).encode())


def check_version(version: int) -> None:
    """Raise VersionError if this code cannot read that version."""
    if version > FORMAT_VERSION:
        raise VersionError(
            f"this archive has format version {version}; this version of Cutaway reads up to {FORMAT_VERSION}. "
            "Upgrade: pip install --upgrade cutaway."
        )
    if any(step not in MIGRATIONS for step in range(version, FORMAT_VERSION)):
        raise VersionError(f"this archive has format version {version}, which was never published.")


def migrate(record: dict[str, Any], version: int) -> dict[str, Any]:
    """Upgrade a record to the current version."""
    try:
        for step in range(version, FORMAT_VERSION):
            record = MIGRATIONS[step](record)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"cannot upgrade it from version {version}: {type(error).__name__} {error}") from error
    return record


def kind_text(kind: str) -> str:
    """The kind of an archive with its article.

    >>> kind_text("run"), kind_text("activations")
    ('a run', 'activations')
    """
    return kind if kind == "activations" else f"a {kind}"


def kind_of(fields: Mapping[str, Any]) -> Kind | None:
    """The kind in a session record, for archives that lost `cutaway.json`."""
    kind = fields.get("kind")
    return cast(Kind, kind) if kind in get_args(Kind) else None
