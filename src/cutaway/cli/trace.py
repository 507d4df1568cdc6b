"""`cutaway trace`: builds a model, runs it once, and writes what was asked for: a page, a picture, the trace itself."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from cutaway.cli.output import printable, say, say_json
from cutaway.core.errors import InputError, MissingExtraError
from cutaway.graph.analysis.summary import summary
from cutaway.graph.trace import Trace
from cutaway.views.draw.draw import check_path

_HIGH = 10


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="module:factory or file.py:factory; what gives the model, or the model itself")
    parser.add_argument(
        "--input", action="append", type=_shape, default=[], metavar="SHAPE", help="1,3,224,224: a random tensor"
    )
    parser.add_argument(
        "--dtype", action="append", default=[], help="of the inputs: one for all, or one for each; float32 if not given"
    )
    parser.add_argument("--high", type=int, default=_HIGH, help=f"whole numbers are below this; {_HIGH} if not given")
    parser.add_argument("--inputs", metavar="FUNCTION", help="module:function that gives the arguments")
    parser.add_argument("--seed", type=int, default=0, help="for weights and inputs; 0 if not given")
    parser.add_argument("--train", action="store_true", help="in training mode and with gradients")
    parser.add_argument("--html", metavar="PATH", help="write the interactive picture as one file")
    parser.add_argument("--draw", metavar="PATH", help="write a picture: .svg, .pdf, .png, .dot or .json")
    parser.add_argument("--depth", type=int, help="of that picture: modules so far below the model are one box")
    parser.add_argument("--rolled", action="store_true", help="draw what repeats once")
    parser.add_argument("--direction", choices=("down", "right"), default="down")
    parser.add_argument("--color-by", metavar="MEASURE", help="seconds, flops, bytes…")
    parser.add_argument("--focus", metavar="SITE", help="what the picture is about")
    parser.add_argument("--save", metavar="FOLDER", help="write the trace, with all values, into a new folder")
    parser.add_argument("--validate", action="store_true", help="prove that the trace holds what happened")
    parser.epilog = (
        "The current folder can be imported from. The model runs in evaluation mode, without gradients.\n"
        "Exit code: 0 well; 1 the model raised (the trace up to there is still written), or --validate found a\n"
        "difference; 2 there is no such model.\n\n"
        "examples:\n"
        "  cutaway trace torchvision.models:resnet18 --input 1,3,224,224 --html net.html\n"
        "  cutaway trace nets.py:Net --input 8,16 --draw net.svg --depth 1\n"
        "  cutaway trace nets:GPT --input 1,12 --dtype int64 --high 50257 --draw net.pdf --rolled\n"
        "  cutaway trace nets:make --inputs nets:example --save net.trace --validate"
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    trace: Trace
    error: BaseException | None


def run(args: argparse.Namespace) -> int:
    if args.draw:
        check_path(args.draw)
    with _importable(Path.cwd()):
        with _only_ours_printed():
            outcome = _traced(args)
        trace = outcome.trace
        written = _write(trace, args)
        with _only_ours_printed():  # to prove a trace may mean to run the model again
            # A trace that broke off has nothing more to prove: the model raised.
            validation = trace.validate() if args.validate and outcome.error is None else None
    if args.json:
        say_json(_document(trace, written) | ({"validation": validation} if validation is not None else {}))
    else:
        say(*summary(trace).splitlines())
        say(*(repr(validation).splitlines() if validation is not None else ()))
        say(*(f"written: {path}" for path in written.values()))
    if outcome.error is not None:
        sys.stderr.write(f"cutaway: the model raised {printable(_said(outcome.error))}\n")
    return 1 if outcome.error is not None or (validation is not None and not validation) else 0


def _traced(args: argparse.Namespace) -> _Outcome:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("cutaway trace needs torch: pip install torch") from error
    from cutaway.capture.api import trace as capture

    torch.manual_seed(args.seed)
    model = _model(args.model, args.seed)
    positional, named = _arguments(args)
    model.train(args.train)
    with nullcontext() if args.train else torch.no_grad():
        try:
            return _Outcome(capture(model, *positional, **named), None)
        except (Exception, SystemExit) as error:
            partial = getattr(error, "cutaway_trace", None)
            if not isinstance(partial, Trace):
                hint = "" if positional or named else " Say what it gets with --input or --inputs."
                raise InputError(f"the model could not be run: {_said(error)}{hint}") from error
            return _Outcome(partial, error)


def _write(trace: Trace, args: argparse.Namespace) -> dict[str, str]:
    """Write what was asked for; what → where."""
    if args.html:
        trace.to_html(args.html)
    if args.draw:
        more = {"direction": args.direction, "color_by": args.color_by, "focus": args.focus}
        trace.draw(args.draw, depth=args.depth, rolled=args.rolled, **more)
    if args.save:
        trace.save(args.save)
    return {name: getattr(args, name) for name in ("html", "draw", "save") if getattr(args, name)}


def _document(trace: Trace, written: dict[str, str]) -> dict[str, Any]:
    """What `--json` prints."""
    count = trace.n_parameters
    return {
        "model": trace.model_name,
        "n_ops": len(trace),
        "is_complete": trace.is_complete,
        "error": None if trace.error is None else _said(trace.error),
        "failed": trace.failed,
        "seconds": trace.seconds,
        "bytes": trace.bytes,
        "flops": trace.flops,
        "n_parameters": {"trainable": count.trainable, "frozen": count.frozen, "bytes": count.bytes},
        "inputs": [{"path": path, "shape": op.shape} for path, op in zip(trace.input_paths, trace.inputs, strict=True)],
        "outputs": [
            {"path": path, "label": op.label, "shape": op.shape}
            for path, op in zip(trace.output_paths, trace.outputs, strict=True)
        ],
        "written": written,
    }


# the model and its inputs


def _model(place: str, seed: int) -> Any:
    import torch

    found = _found(place)
    if not isinstance(found, torch.nn.Module):
        if not callable(found):
            raise InputError(f"{place} is a {type(found).__name__}: give a torch.nn.Module, or what makes one.")
        torch.manual_seed(seed)  # whatever was drawn while importing
        found = _called(found, place)
    if not isinstance(found, torch.nn.Module):
        raise InputError(f"{place} gave a {type(found).__name__} and no torch.nn.Module.")
    return found


def _arguments(args: argparse.Namespace) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args.inputs:
        if args.input:
            raise InputError("--input and --inputs both say what the model gets: give one of them.")
        return _spread(_called(_found(args.inputs), args.inputs))
    names = args.dtype or ["float32"]
    if len(names) not in (1, len(args.input)):
        raise InputError(f"there are {len(names)} --dtype for {len(args.input)} --input: give one, or one for each.")
    names = names * len(args.input) if len(names) == 1 else names
    return tuple(_tensor(shape, name, args.high) for shape, name in zip(args.input, names, strict=True)), {}


def _tensor(shape: tuple[int, ...], name: str, high: int) -> Any:
    import torch

    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise InputError(f"torch has no dtype {name!r}; it has float32, int64, bool and others.")
    try:
        if dtype.is_complex:
            return torch.randn(shape, dtype=dtype)
        if dtype.is_floating_point:
            return torch.randn(shape).to(dtype)
        return torch.randint(0, 2 if dtype == torch.bool else high, shape).to(dtype)
    except RuntimeError as error:
        raise InputError(f"no random tensor of {name} and shape {list(shape)} can be made: {_said(error)}") from error


def _spread(found: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a function gave, as arguments: a tuple, a dict of keywords, both, or a single one."""
    if isinstance(found, dict):
        return (), found
    if not isinstance(found, (tuple, list)):
        return (found,), {}
    if len(found) == 2 and isinstance(found[0], (tuple, list)) and isinstance(found[1], dict):
        return tuple(found[0]), found[1]
    return tuple(found), {}


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = (-1,)
    if min(shape) < 0:
        raise argparse.ArgumentTypeError(f"a shape is whole numbers with commas, as in 1,3,224,224; not {text!r}")
    return shape


# finding things by name


def _found(place: str) -> Any:
    """What `module:name` or `file.py:name` names."""
    where, _, name = place.rpartition(":")
    if not where or not name:
        raise InputError(f"{place!r} names no model: give module:factory or file.py:factory.")
    module = _from_file(where) if where.endswith(".py") else _from_path(where)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, [other for other in dir(found) if not other.startswith("_")], 3)
            nearest = f" Nearest: {', '.join(map(repr, near))}." if near else ""
            raise InputError(f"there is no {part!r} in {where}.{nearest}")
        found = getattr(found, part)
    return found


def _from_path(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(f"{name} could not be imported: {_said(error)}") from error
        raise InputError(f"there is no module {name!r}, neither in the current folder nor installed.") from error
    except (Exception, SystemExit) as error:
        raise InputError(f"{name} could not be imported: {_said(error)}") from error


def _from_file(name: str) -> ModuleType:
    path = Path(name)
    if not path.is_file():
        raise InputError(f"there is no file {name!r}.")
    sys.path.insert(0, str(path.resolve().parent))  # as if Python had been started with it
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(f"{name} could not be imported: {_said(error)}") from error
    finally:
        if before is not None:
            sys.modules[path.stem] = before
    return module


def _called(function: Any, place: str) -> Any:
    if not callable(function):
        raise InputError(f"{place} is a {type(function).__name__} and cannot be called.")
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise InputError(f"{place}() raised {_said(error)}") from error


def _said(error: BaseException) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


@contextmanager
def _only_ours_printed() -> Iterator[None]:
    """What the model prints is not what this command prints: it goes to stderr, from C and from children, too."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # there is no such file: nothing can reach it
        kept = -1
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    before = list(sys.path)
    sys.path.insert(0, os.fspath(folder))
    try:
        yield
    finally:
        sys.path[:] = before
