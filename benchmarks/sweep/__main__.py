"""`python -m benchmarks.sweep --only '^bert' --limit 3`: trace, check, print, and write `.build/sweep.{json,md}`."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from benchmarks.peers.environments import ROOT
from benchmarks.sweep import gallery, table
from benchmarks.sweep.checks import Verdict
from benchmarks.sweep.families import FAMILIES
from benchmarks.sweep.pool import SECONDS, verdicts

PAGE = ROOT / "docs" / "sweep.md"


def main(arguments: list[str] | None = None) -> list[Verdict]:
    options = _options(arguments)
    os.environ["HF_HUB_OFFLINE"] = "1"
    if options.read:
        found = table.joined(table.read(folder) for folder in options.read)
    else:
        found = [verdict for family in options.family for verdict in _swept(family, options)]
        table.write(found, options.to)
    if options.gallery:
        print(f"gallery: {gallery.write(found, options.gallery)}")
    print(table.text(found))
    if options.docs:
        PAGE.write_text(table.page(found))
    return found


def _swept(family: str, options: argparse.Namespace) -> list[Verdict]:
    names = [name for name in FAMILIES[family]().names() if re.search(options.only, name)][: options.limit]
    if options.gallery:
        os.environ[gallery.FOLDER] = str(options.gallery / family)  # for the workers
    found = []
    for i, verdict in enumerate(verdicts(family, names, workers=options.workers, seconds=options.seconds), 1):
        verdict.family = family
        found.append(verdict)
        line = f"[{i}/{len(names)}] {family} {verdict.name}: {verdict.outcome} {verdict.reason[:150]}"
        print(line, file=sys.stderr, flush=True)
    return found


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description="Trace every architecture at hand.")
    parser.add_argument("--only", default="", metavar="REGEX", help="architectures whose name matches")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N of each family")
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit for each architecture")
    parser.add_argument("--to", type=Path, default=ROOT / ".build", metavar="FOLDER", help="where to write the results")
    parser.add_argument("--gallery", type=Path, metavar="FOLDER", help="draw each, with a page to search them")
    parser.add_argument("--read", type=Path, nargs="+", metavar="FOLDER", help="join earlier results; run nothing")
    parser.add_argument("--docs", action="store_true", help="write the page of the documentation too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
