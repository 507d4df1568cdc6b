"""The command line, `cutaway COMMAND`: one module per command, imported when you run that command.

export         `cutaway export`: writes part of a run as files for other programs
info           `cutaway info`: prints an overview of one archive
ls             `cutaway ls`: prints a table of the archives in a folder
output         Prints tables, sentences and JSON; escapes control characters from recorded text
paths          Finds the archives that command-line paths name; options that several commands share
query          `cutaway query`: prints curves, values, scalars, notes and samples of runs
query_records  Prints scalars, notes and samples
query_tensors  Prints the recorded tensors: their list, curves over steps, statistics of one step, values
trace          `cutaway trace`: builds a model, runs it once, writes a page, a drawing or the trace
verify         `cutaway verify`: reads every byte of an archive and reports damage
view           `cutaway view`: serves the viewer and opens it in a browser
wide_table     Formats several curves as one table: a row per step, a column per curve
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
from cutaway.core.formatting import hint

COMMANDS: Final = {
    "view": "open the viewer on runs, traces and results in the browser; needs pip install 'cutaway[view]'",
    "trace": "build a model, run it once, and write a page, a drawing or the trace itself",
    "ls": "list the runs, traces, activations and results in a folder",
    "info": "show an overview of one run, trace, activations or result",
    "query": "print curves, values, scalars, notes and samples of runs",
    "verify": "read every byte and report damage",
    "export": "write values, statistics, scalars, notes or samples as files for other programs",
}
"""Command → its help text. The module of the same name has `add_arguments(parser)` and `run(args)`."""

# 128 + 13 (SIGPIPE) and 128 + 2 (SIGINT): what a shell reports for a program that these signals ended.
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

Run `cutaway COMMAND --help` for the options of a command. Every command prints JSON with --json.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0 success, 1 damage found or the model raised, 2 wrong usage or nothing found."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(arguments)
        # Here and not at exit: short output meets a closed pipe only now, and the error must be caught below.
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _discard_stdout()
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (CutawayError, OSError) as error:
        _print_error(error)
        return 2


def _run(arguments: list[str]) -> int:
    wanted = next((argument for argument in arguments if not argument.startswith("-")), None)
    parser = argparse.ArgumentParser(
        prog="cutaway",
        description="See inside PyTorch networks: trace a model, inspect what you recorded.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cutaway {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        about = f"{text[0].upper()}{text[1:]}."
        raw = argparse.RawDescriptionHelpFormatter
        command = commands.add_parser(name, help=text, description=about, formatter_class=raw, allow_abbrev=False)
        # Only the wanted command is imported, so that `--help` and `--version` do not pay for NumPy.
        if name == wanted:
            import_module(f"cutaway.cli.{name}").add_arguments(command)
            command.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    try:
        if wanted is not None and wanted not in COMMANDS:
            parser.error(f"no command {wanted!r}.{hint(wanted, COMMANDS)} Commands: {', '.join(COMMANDS)}.")
        args, unparsed = parser.parse_known_args(arguments)
        _add_positionals(parser, args, unparsed)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 2
    code: int = import_module(f"cutaway.cli.{args.command}").run(args)
    return code


def _add_positionals(parser: argparse.ArgumentParser, args: argparse.Namespace, unparsed: list[str]) -> None:
    """Append positional arguments that stand after an option to the command's list of paths or sites.

    argparse fills such a list before the first option only, and subparsers cannot use `parse_intermixed_args`.
    """
    options = [argument for argument in unparsed if argument.startswith("-")]
    name = next((name for name in ("sites", "path", "paths") if isinstance(getattr(args, name, None), list)), None)
    if options or (unparsed and name is None):
        asked = (options or unparsed)[0]
        near = hint(asked, (f"--{name.replace('_', '-')}" for name in vars(args)))
        parser.error(f"unrecognized argument {asked!r}.{near} `cutaway {args.command} --help` lists the options.")
    if unparsed and name is not None:
        setattr(args, name, [*getattr(args, name), *unparsed])


def _print_error(error: BaseException) -> None:
    # Imported late: `output` loads NumPy.
    from cutaway.cli.output import printable

    message = f"{error.filename}: {error.strerror}" if _is_os_error(error) else str(error)  # type: ignore[attr-defined]
    sys.stderr.write(f"cutaway: {printable(message)}\n")


def _is_os_error(error: BaseException) -> bool:
    return isinstance(error, OSError) and not isinstance(error, CutawayError) and bool(error.filename)


def _discard_stdout() -> None:
    """Redirect stdout to the null device after a broken pipe, so that Python's flush at exit does not raise again."""
    try:
        null_fd = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_fd, sys.stdout.fileno())
        os.close(null_fd)
    except (OSError, ValueError):
        pass
