"""`cutaway verify`: reads every byte and says in sentences what it found."""

from __future__ import annotations

import argparse
import sys

from cutaway.cli.output import plain, printable, say, say_json
from cutaway.cli.paths import places
from cutaway.core.errors import CutawayError
from cutaway.store.verification.verify import Verification, verify


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="+", help="runs, traces, activations or results, or folders of them")
    parser.epilog = (
        "Exit code: 0 whole, 1 damaged, 2 nothing there. Nothing is changed or repaired.\n"
        "What a kill leaves behind (an unfinished record, a .part file) is no damage, and said so.\n\n"
        "examples:\n  cutaway verify runs/base\n  cutaway verify runs/ --json"
    )


def run(args: argparse.Namespace) -> int:
    found: list[Verification] = []
    n_failed = 0
    for place in places(args.path):
        try:
            found.append(verify(place.path))
        except CutawayError as error:
            n_failed += 1
            sys.stderr.write(f"cutaway: {printable(f'{place.path}: {error}')}\n")
            continue
        if not args.json:
            say(*found[-1].sentences)
    if args.json:
        say_json({"verifications": [{"is_whole": bool(one), **plain(one), "cost": one.cost} for one in found]})
    if not all(found):
        return 1
    return 2 if n_failed else 0
