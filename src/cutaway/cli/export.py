"""`cutaway export`: a part of a run as files for other programs."""

from __future__ import annotations

import argparse
import sys
from typing import get_args

from cutaway.cli.output import printable, say, say_json
from cutaway.cli.paths import add_steps
from cutaway.core.formatting import human_bytes
from cutaway.store.exports.export import Format, What, export

_MOST_FILES = 10


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="a run, or a saved trace (its values)")
    parser.add_argument("to", help="the folder to write: a new one, or an empty one")
    parser.add_argument("--format", required=True, choices=get_args(Format))
    parser.add_argument("--what", default="values", choices=get_args(What), help="values if not given")
    parser.add_argument("--at", default="**", metavar="SITE", help="which tensors, or which scalars; * and ** work")
    parser.add_argument(
        "--of", default="value", help="value, grad, grad/<loss>, inner_grad, update…; value if not given"
    )
    add_steps(parser)
    parser.epilog = (
        "Nothing is overwritten. npy and safetensors keep arrays, csv and parquet tables.\n\n"
        "examples:\n"
        "  cutaway export runs/base out/ --format npy --at 'encoder.*' --steps 100:200\n"
        "  cutaway export runs/base grads/ --format safetensors --of grad\n"
        "  cutaway export runs/base table/ --format csv --what statistics"
    )


def run(args: argparse.Namespace) -> int:
    choice = {"at": args.at, "steps": args.steps, "of": args.of}
    found = export(args.path, args.to, format=args.format, what=args.what, **choice)
    for problem in found.problems:
        sys.stderr.write(f"cutaway: left out: {printable(problem)}\n")
    if args.json:
        say_json(found)
        return 0
    things = {"values": "tensors" if args.format in ("npy", "safetensors") else "rows", "statistics": "tensors"}
    what = things.get(args.what, "rows") if args.format in ("npy", "safetensors") else "rows"
    n_files = len(found.files)
    say(f"{found.path}: {found.n_items:,} {what} in {n_files:,} files, {human_bytes(found.n_bytes)}.")
    say(*(f"  {name}" for name in found.files[:_MOST_FILES]))
    if n_files > _MOST_FILES:
        say(f"  … and {n_files - _MOST_FILES:,} more")
    return 0
