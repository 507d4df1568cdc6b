"""Pictures and pages as files: all of one or nothing."""

from __future__ import annotations

import os
from pathlib import Path
from threading import get_ident


def write(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Put a content at a path, beside it first: there never is half a file. Gives where it lies.

    What is no plain file, such as `/dev/stdout` or a pipe, is written to and not put aside. Characters that UTF-8
    lacks (halves of pairs, from names that could not be decoded) become question marks.
    """
    target = Path(path)
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _replace(Path(os.path.realpath(target)), data)  # a link stays one
    except OSError as error:
        if error.filename is None:
            raise
        # The name of the file beside it would tell nobody anything.
        raise type(error)(error.errno, error.strerror, os.fspath(target)) from None
    return target


def _replace(target: Path, data: bytes) -> None:
    beside = target.with_name(f".{os.getpid()}-{get_ident()}.part")
    try:
        beside.write_bytes(data)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
