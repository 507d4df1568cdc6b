"""Atomic file writes: write to a temporary file, then rename."""

from __future__ import annotations

import os
from pathlib import Path
from threading import get_ident


def write(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Writes a file atomically and returns its path: readers never see half a file.

    Special files such as `/dev/stdout` and pipes are written to directly. Characters that UTF-8 cannot encode (lone
    surrogates, from names that could not be decoded) become question marks.
    """
    target = Path(path)
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _replace(Path(os.path.realpath(target)), data)  # keeps a symbolic link
    except OSError as error:
        if error.filename is None:
            raise
        # Report the path that was asked for, not that of the temporary file.
        raise type(error)(error.errno, error.strerror, os.fspath(target)) from None
    return target


def _replace(target: Path, data: bytes) -> None:
    # Two threads may write the same file at once.
    temporary = target.with_name(f".{os.getpid()}-{get_ident()}.part")
    try:
        temporary.write_bytes(data)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
