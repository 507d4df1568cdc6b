"""Whether a saved result can be made again of what is there."""

from __future__ import annotations

from cutaway.core.errors import DamagedError, VersionError
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import BLOCK, DOCUMENT, read
from cutaway.store.verification.report import Findings


def check_result(archive: Archive, findings: Findings, *, is_live: bool | None) -> None:
    """Read the result; what a kill left of one is no damage."""
    if DOCUMENT not in archive.documents:
        if is_live is False:
            what = "the arrays of a result, and not the result" if BLOCK in archive.blocks else "nothing yet"
            findings.remark(archive.path, f"it was not saved to its end, and holds {what}: save it to another path")
        return
    try:
        read(archive)
    except VersionError as error:
        findings.remark(archive.path, str(error).rstrip("."))
    except DamagedError as error:
        findings.problem(archive.path, str(error).rstrip("."), "the result cannot be read")
