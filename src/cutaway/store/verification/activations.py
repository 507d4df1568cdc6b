"""Checks that the windows of a collection are complete and consistent."""

from __future__ import annotations

from cutaway.core.errors import DamagedError
from cutaway.core.formatting import plural
from cutaway.store.activations.sources import ArchiveSource
from cutaway.store.activations.windows import DOCUMENT, windows_of
from cutaway.store.reading.archive import Archive
from cutaway.store.verification.report import Findings


def check_activations(archive: Archive, findings: Findings, *, is_live: bool | None) -> None:
    """Check the windows of a collection against its description."""
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
        findings.damaged(archive.path, str(error).rstrip("."), "these activations cannot be read")
        return
    known = {window.block.name for window in windows_of(archive)}
    after_gap = [name for name in archive.blocks if name not in known]
    if after_gap:
        findings.remark(archive.path, f"{plural(len(after_gap), 'window')} after a gap; resuming collects them again")
    if not source.about.is_whole and is_live is False:
        done = plural(source.about.n_items, "item")
        findings.remark(archive.path, f"the collection is incomplete: {done} collected; continue with resume=True")
