"""`cutaway verify`: reads every byte of an archive and reports damage."""

from __future__ import annotations

import argparse
import sys

from cutaway.cli.output import print_json, print_lines, printable, to_jsonable
from cutaway.cli.paths import find_archives
from cutaway.core.errors import CutawayError
from cutaway.store.verification.verify import Verification, verify


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="+", help="runs, traces, activations or results, or folders of them")
    parser.epilog = (
        "Exit code: 0 intact, 1 damaged, 2 nothing found. Nothing is changed or repaired.\n"
        "Leftovers of a killed process (an unfinished record, a .part file) are reported, but are not damage.\n\n"
        "examples:\n  cutaway verify runs/base\n  cutaway verify runs/ --json"
    )


def run(args: argparse.Namespace) -> int:
    reports: list[Verification] = []
    n_failed = 0
    for place in find_archives(args.path):
        try:
            reports.append(verify(place.path))
        except CutawayError as error:
            n_failed += 1
            sys.stderr.write(f"cutaway: {printable(f'{place.path}: {error}')}\n")
            continue
        if not args.json:
            print_lines(*reports[-1].sentences)
    if args.json:
        documents = [{"is_whole": bool(report), **to_jsonable(report), "cost": report.cost} for report in reports]
        print_json({"verifications": documents})
    if not all(reports):
        return 1
    return 2 if n_failed else 0
