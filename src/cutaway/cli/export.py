"""`cutaway export`: writes part of a run as files for other programs."""

from __future__ import annotations

import argparse
import sys
from typing import get_args

from cutaway.cli.output import print_json, print_lines, printable
from cutaway.cli.paths import add_steps
from cutaway.core.formatting import human_bytes, plural
from cutaway.store.exports.export import Format, What, export

_MAX_FILES = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="a run, or a saved trace (values only)")
    parser.add_argument("to", help="the output folder: new or empty")
    parser.add_argument("--format", required=True, choices=get_args(Format))
    parser.add_argument("--what", default="values", choices=get_args(What), help="what to export (default: values)")
    parser.add_argument("--at", default="**", metavar="SITE", help="tensors or scalars to export; * and ** match any")
    parser.add_argument("--of", default="value", help="value, grad, grad/<loss>, inner_grad, update… (default: value)")
    add_steps(parser)
    parser.epilog = (
        "Existing files are never overwritten. npy and safetensors store arrays; csv and parquet store tables.\n\n"
        "examples:\n"
        "  cutaway export runs/base out/ --format npy --at 'encoder.*' --steps 100:200\n"
        "  cutaway export runs/base grads/ --format safetensors --of grad\n"
        "  cutaway export runs/base table/ --format csv --what statistics"
    )


def run(args: argparse.Namespace) -> int:
    choice = {"at": args.at, "steps": args.steps, "of": args.of}
    written = export(args.path, args.to, format=args.format, what=args.what, **choice)
    for message in written.damage:
        sys.stderr.write(f"cutaway: skipped: {printable(message)}\n")
    if args.json:
        print_json(written)
        return 0
    is_arrays = args.format in ("npy", "safetensors")
    noun = "tensor" if is_arrays and args.what in ("values", "statistics") else "row"
    n_files = len(written.files)
    counts = f"{plural(written.n_items, noun)} in {plural(n_files, 'file')}"
    print_lines(f"{written.path}: {counts}, {human_bytes(written.n_bytes)}.")
    print_lines(*(f"  {name}" for name in written.files[:_MAX_FILES]))
    if n_files > _MAX_FILES:
        print_lines(f"  … and {n_files - _MAX_FILES:,} more")
    return 0
