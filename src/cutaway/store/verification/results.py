"""Checks that a saved result can be read."""

from __future__ import annotations

from cutaway.core.errors import DamagedError, VersionError
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import BLOCK, DOCUMENT, read
from cutaway.store.verification.report import Findings


def check_result(archive: Archive, findings: Findings, *, is_live: bool | None) -> None:
    """Read the result; leftovers of a killed process are not damage."""
    if DOCUMENT not in archive.documents:
        if is_live is False:
            what = "only its arrays were written" if BLOCK in archive.blocks else "nothing was written"
            findings.remark(archive.path, f"the result is incomplete ({what}); save it again, to another path")
        return
    try:
        read(archive)
    except VersionError as error:
        findings.remark(archive.path, str(error).rstrip("."))
    except DamagedError as error:
        findings.damaged(archive.path, str(error).rstrip("."), "the result cannot be read")
