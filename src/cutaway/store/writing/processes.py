"""Which machine this is, and whether a process of it still runs."""

from __future__ import annotations

import os
from contextlib import suppress


def identity() -> str:
    """What tells apart machines, their starts, and containers: within one identity a process number means one process.

    Where there is no /proc, this is the name of the machine alone.
    """
    boot = namespace = ""
    with suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{os.uname().nodename}/{boot}/{namespace}"


def started(pid: int) -> int | None:
    """When a process began, in ticks since the machine did; None where that cannot be seen."""
    found = _status(pid)
    return found[1] if found else None


def is_running(pid: int, since: int | None) -> bool:
    """Whether the process that had this number, and began then, still runs.

    >>> is_running(os.getpid(), started(os.getpid()))
    True
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # somebody else's, so it is there
    found = _status(pid)
    if found is None:
        return True
    state, began = found
    return state not in "ZX" and (since is None or began == since)


def _status(pid: int) -> tuple[str, int] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program comes second, in brackets, and may itself have brackets and spaces.
            after = file.read().rpartition(b")")[2].split()
        return after[0].decode("ascii"), int(after[19])
    except (OSError, ValueError, IndexError):
        return None
