"""Identifies this machine, and tells whether a process is still running."""

from __future__ import annotations

import os
from contextlib import suppress


def identity() -> str:
    """Identifies machine, boot and container: within one identity, a process id is unambiguous.

    Without /proc, this is only the host name.
    """
    boot = namespace = ""
    with suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        # Two containers on one machine share the boot id but have process ids of their own.
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{os.uname().nodename}/{boot}/{namespace}"


def start_ticks(pid: int) -> int | None:
    """Start of a process, in ticks since boot; None if it cannot be determined."""
    status = _status(pid)
    return status[1] if status else None


def is_running(pid: int, since: int | None) -> bool:
    """Whether the process with this id and start time is still running.

    >>> is_running(os.getpid(), start_ticks(os.getpid()))
    True
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it belongs to another user, so it exists
    status = _status(pid)
    # No /proc (macOS): the process exists, and nothing tells whether it is the same one. Alive is the safe answer.
    if status is None:
        return True
    state, began = status
    # A zombie writes nothing, though its parent may keep it around for hours.
    return state not in "ZX" and (since is None or began == since)


def _status(pid: int) -> tuple[str, int] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The program name comes second, in parentheses, and may itself contain parentheses and spaces.
            after = file.read().rpartition(b")")[2].split()
        return after[0].decode("ascii"), int(after[19])
    except (OSError, ValueError, IndexError):
        return None
