"""The command line: `cutaway view · trace · ls · info · query · verify · export`, each imported when asked for.

export         `cutaway export`: a part of a run as files for other programs
info           `cutaway info`: everything about one archive at a glance
ls             `cutaway ls`: a table of the archives below a folder
output         How commands print: tables and sentences in which nothing recorded reaches the terminal raw, or one
               JSON document
paths          What the paths on a command line mean: archives, their state, and the options that several commands
               share
query          `cutaway query`: curves, values, scalars, notes and samples of one run or several
query_records  What was recorded beside tensors: scalars, notes, samples
query_tensors  What was recorded of tensors: which there are, curves over steps, all statistics of a step, values
trace          `cutaway trace`: builds a model, runs it once, and writes what was asked for: a page, a picture,
               the trace itself
verify         `cutaway verify`: reads every byte and says in sentences what it found
view           `cutaway view`: look at what was recorded, collected or saved, in a browser
wide_table     Several curves side by side: one row a step, one column a curve
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from cutaway import __version__
from cutaway.core.errors import CutawayError

COMMANDS: Final = {
    "view": "look at runs and saved traces in the browser, also while they are written",
    "trace": "build a model, run it once, and write its picture, its page or the trace itself",
    "ls": "list the runs and traces below a folder",
    "info": "everything about one run or trace at a glance",
    "query": "curves, values, scalars, notes and samples of runs",
    "verify": "read every byte and say what is damaged",
    "export": "write values, statistics, scalars, notes or samples as files for other programs",
}
"""Command → what it does. Each lies in a module of its name with `describe(parser)` and `run(args)`."""

_BROKEN_PIPE = 141
_INTERRUPTED = 130
_EPILOG = """examples:
  cutaway view runs/
  cutaway trace nets.py:Net --input 1,3,224,224 --html net.html
  cutaway ls runs/
  cutaway info runs/base
  cutaway query runs/base encoder.2 --stat std --kind long
  cutaway verify runs/base
  cutaway export runs/base out/ --what statistics --format csv

`cutaway COMMAND --help` says more. Every command prints JSON with --json.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0 well, 1 damage found or the model raised, 2 usage, or nothing there."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _silence()
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (CutawayError, OSError) as error:
        _complain(error)
        return 2


def _run(arguments: list[str]) -> int:
    wanted = next((argument for argument in arguments if not argument.startswith("-")), None)
    parser = argparse.ArgumentParser(
        prog="cutaway",
        description="See inside a neural network while it works: trace a model, look at what was recorded.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cutaway {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        about = f"{text[0].upper()}{text[1:]}."
        raw = argparse.RawDescriptionHelpFormatter
        command = commands.add_parser(name, help=text, description=about, formatter_class=raw, allow_abbrev=False)
        if name == wanted:
            import_module(f"cutaway.cli.{name}").describe(command)
            command.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    try:
        args = parser.parse_args(arguments)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 2
    code: int = import_module(f"cutaway.cli.{args.command}").run(args)
    return code


def _complain(error: BaseException) -> None:
    from cutaway.cli.output import printable

    said = f"{error.filename}: {error.strerror}" if _is_of_system(error) else str(error)  # type: ignore[attr-defined]
    sys.stderr.write(f"cutaway: {printable(said)}\n")


def _is_of_system(error: BaseException) -> bool:
    return isinstance(error, OSError) and not isinstance(error, CutawayError) and bool(error.filename)


def _silence() -> None:
    """Let nothing be written to a pipe that nobody reads any more, also not when Python ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
