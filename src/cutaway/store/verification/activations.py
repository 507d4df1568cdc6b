"""Whether the windows of a collection follow each other to its end, and say what they should."""

from __future__ import annotations

from cutaway.core.errors import DamagedError
from cutaway.store.activations.sources import ArchiveSource
from cutaway.store.activations.windows import DOCUMENT, windows_of
from cutaway.store.reading.archive import Archive
from cutaway.store.verification.report import Findings, counted


def check_activations(archive: Archive, findings: Findings, *, is_live: bool | None) -> None:
    """Hold the windows of a collection against its description."""
    if DOCUMENT not in archive.documents and not archive.blocks:
        findings.remark(archive.path, "nothing was collected yet")
        return
    try:
        source = ArchiveSource(archive)
        for window in range(len(source.windows)):
            source.rows(window)
            source.words(window)
            for site in range(len(source.sites)):
                source.check(window, site)
        _ = source.problems
    except DamagedError as error:
        findings.problem(archive.path, str(error).rstrip("."), "these activations cannot be read as such")
        return
    known = {window.block.name for window in windows_of(archive)}
    behind = [name for name in archive.blocks if name not in known]
    if behind:
        findings.remark(archive.path, f"{counted(len(behind), 'window')} behind a gap: resuming collects them again")
    if not source.about.is_whole and is_live is False:
        done = counted(source.about.n_items, "item")
        findings.remark(archive.path, f"the collection did not come to its end: {done} are there; resume=True goes on")
