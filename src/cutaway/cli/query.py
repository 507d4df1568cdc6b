"""`cutaway query`: prints curves, values, scalars, notes and samples of runs."""

from __future__ import annotations

import argparse
import sys

from cutaway.cli.output import printable
from cutaway.cli.paths import add_steps, damage_of, holds_archives, runs_at
from cutaway.cli.query_records import print_notes, print_samples, print_scalars
from cutaway.cli.query_tensors import print_curves, print_sites, print_step, print_values
from cutaway.core.errors import InputError
from cutaway.store.format.records import VALUE

_MAX_DAMAGE = 10
_CURVE_OPTIONS = ("stat", "of", "kind", "iteration", "steps")
"""Options that select from curves: without a tensor they would be ignored."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="a run, or a folder of runs")
    parser.add_argument("sites", nargs="*", help="tensors (* and ** match any), or more runs; lists all if omitted")
    parser.add_argument(
        "--at", action="append", default=[], metavar="SITE", help="a tensor, even if a path has its name"
    )
    parser.add_argument("--stat", action="append", metavar="NAME", help="a statistic (default: all)")
    parser.add_argument("--of", help="value, grad, grad/<loss>, inner_grad, update… (default: value)")
    parser.add_argument("--kind", help="only steps of this kind")
    parser.add_argument("--iteration", type=int, metavar="N", help="only this iteration within steps; SITE:2 is pass 2")
    add_steps(parser)
    parser.add_argument("--rank", type=int, help="only what this rank wrote (default: the first rank)")
    parser.add_argument("--session", type=int, help="only what this session wrote, including steps run again later")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--scalar", action="append", metavar="NAME", help="a logged scalar; * matches any")
    asked.add_argument("--notes", nargs="?", const="", metavar="TEXT", help="all notes, or those that contain TEXT")
    asked.add_argument("--samples", metavar="TEXT", help="steps and samples that contain TEXT")
    asked.add_argument("--at-step", type=int, metavar="N", help="all statistics of one step; -1 is the last")
    parser.add_argument("--value", action="store_true", help="values of a tensor at --at-step (default: the last step)")
    parser.epilog = (
        "examples:\n"
        "  cutaway query runs/base                                   list what was recorded\n"
        "  cutaway query runs/base encoder.2 --stat std --kind long --steps 100:200\n"
        "  cutaway query runs/base 'encoder.*' --stat std --of grad  several tensors\n"
        "  cutaway query runs/ encoder.2 --stat std                  several runs\n"
        "  cutaway query runs/base encoder.2:2 --stat std            one of several passes per step\n"
        "  cutaway query runs/base --at-step 400                     all statistics of a step\n"
        "  cutaway query runs/base encoder.2 --at-step 400 --value   values of a tensor\n"
        "  cutaway query runs/ --scalar loss\n"
        "  cutaway query runs/base --notes overflow\n"
        "  cutaway query runs/base --samples 'a cat'"
    )


def run(args: argparse.Namespace) -> int:
    listing_options = [name for name in _CURVE_OPTIONS if getattr(args, name) is not None]
    args.of = args.of or VALUE
    paths = [args.path, *(given for given in args.sites if holds_archives(given))]
    sites = [given for given in args.sites if given not in paths[1:]] + args.at
    runs = runs_at(paths, rank=args.rank, session=args.session)
    if args.scalar:
        print_scalars(runs, args.scalar, steps=args.steps, is_json=args.json)
    elif args.notes is not None:
        print_notes(runs, args.notes, steps=args.steps, is_json=args.json)
    elif args.samples is not None:
        print_samples(runs, args.samples, args)
    elif args.value:
        if not sites:
            raise InputError("--value needs a tensor, as in `cutaway query runs/base encoder.2 --at-step 400 --value`.")
        print_values(runs, sites, args)
    elif args.at_step is not None:
        print_step(runs, sites, args)
    elif sites:
        print_curves(runs, sites, args)
    elif listing_options:
        option = listing_options[0]
        raise InputError(
            f"--{option} needs a tensor, as in `cutaway query {args.path} TENSOR --{option} …`. "
            f"`cutaway query {args.path}` lists the tensors."
        )
    else:
        print_sites(runs, args)
    # Last: damage is found by reading, so only now is all of it known.
    for message in damage_of(runs)[:_MAX_DAMAGE]:
        sys.stderr.write(f"cutaway: {printable(message)}\n")
    return 0
