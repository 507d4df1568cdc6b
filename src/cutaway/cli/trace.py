"""`cutaway trace`: builds a model, runs it once, writes a page, a drawing or the trace."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from cutaway.cli.output import print_json, print_lines, printable
from cutaway.core.errors import InputError, MissingExtraError
from cutaway.core.formatting import nearest_hint, type_text
from cutaway.graph.analysis.summary import summary
from cutaway.graph.trace import Trace
from cutaway.views.draw.draw import check_path

_HIGH = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", help="module:name or file.py:name of a model, or of a class or function that returns one"
    )
    parser.add_argument(
        "--input", action="append", type=_shape, default=[], metavar="SHAPE", help="a random tensor, as in 1,3,224,224"
    )
    parser.add_argument(
        "--dtype", action="append", default=[], help="dtype of the inputs: one for all, or one each (default: float32)"
    )
    parser.add_argument("--high", type=int, default=_HIGH, help=f"random integers are below this (default: {_HIGH})")
    parser.add_argument("--inputs", metavar="FUNCTION", help="module:function that returns the model's arguments")
    parser.add_argument("--seed", type=int, default=0, help="random seed of weights and inputs (default: 0)")
    parser.add_argument("--train", action="store_true", help="run in training mode and with gradients")
    parser.add_argument("--html", metavar="PATH", help="write an interactive page as one HTML file")
    parser.add_argument("--draw", metavar="PATH", help="write a drawing: .svg, .pdf, .png, .dot or .json")
    parser.add_argument("--depth", type=int, help="draw modules below this depth as one box")
    parser.add_argument("--rolled", action="store_true", help="draw repeated parts once")
    parser.add_argument("--direction", choices=("down", "right"), default="down")
    parser.add_argument("--color-by", metavar="MEASURE", help="color nodes by seconds, flops, bytes…")
    parser.add_argument("--focus", metavar="SITE", help="draw only the surroundings of this site")
    parser.add_argument("--save", metavar="FOLDER", help="save the trace with all values to a new folder")
    parser.add_argument("--validate", action="store_true", help="check the trace against replays and an untraced run")
    parser.epilog = (
        "You can name modules in the current folder. The model runs in eval mode, without gradients.\n"
        "Exit code: 0 success; 1 the model raised (the trace up to that op is still written), or --validate found\n"
        "a difference; 2 no such model, or wrong usage.\n\n"
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
        with _stdout_to_stderr():
            outcome = _run_model(args)
        trace = outcome.trace
        written = _write(trace, args)
        with _stdout_to_stderr():  # validation may run the model again
            # A partial trace is not validated: its error is already the result.
            validation = trace.validate() if args.validate and outcome.error is None else None
    if args.json:
        print_json(_document(trace, written) | ({"validation": validation} if validation is not None else {}))
    else:
        print_lines(*summary(trace).splitlines())
        print_lines(*(repr(validation).splitlines() if validation is not None else ()))
        print_lines(*(f"written: {path}" for path in written.values()))
    if outcome.error is not None:
        sys.stderr.write(f"cutaway: the model raised {printable(_error_text(outcome.error))}\n")
    return 1 if outcome.error is not None or (validation is not None and not validation) else 0


def _run_model(args: argparse.Namespace) -> _Outcome:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("cutaway trace needs torch: pip install torch") from error
    from cutaway.capture.api import trace as capture

    torch.manual_seed(args.seed)
    model = _model(args.model, args.seed)
    positional, named = _arguments(args)
    model.train(args.train)
    # no_grad by default: traces of large models then need no memory for the backward pass.
    with nullcontext() if args.train else torch.no_grad():
        try:
            return _Outcome(capture(model, *positional, **named), None)
        # SystemExit as well: a model that calls sys.exit() would end the command without a message.
        except (Exception, SystemExit) as error:
            partial = getattr(error, "cutaway_trace", None)
            if not isinstance(partial, Trace):
                hint = "" if positional or named else " Give its inputs with --input or --inputs."
                raise InputError(f"cannot run the model: {_error_text(error)}{hint}") from error
            return _Outcome(partial, error)


def _write(trace: Trace, args: argparse.Namespace) -> dict[str, str]:
    """Write the requested files; returns option → path."""
    if args.html:
        trace.to_html(args.html)
    if args.draw:
        more = {"direction": args.direction, "color_by": args.color_by, "focus": args.focus}
        trace.draw(args.draw, depth=args.depth, rolled=args.rolled, **more)
    if args.save:
        trace.save(args.save)
    return {name: getattr(args, name) for name in ("html", "draw", "save") if getattr(args, name)}


def _document(trace: Trace, written: dict[str, str]) -> dict[str, Any]:
    """The document that `--json` prints."""
    count = trace.n_parameters
    return {
        "model": trace.model_name,
        "n_ops": len(trace),
        "is_complete": trace.is_complete,
        "error": None if trace.error is None else _error_text(trace.error),
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


# The model and its inputs


def _model(name: str, seed: int) -> Any:
    import torch

    model = _import_object(name)
    if not isinstance(model, torch.nn.Module):
        if not callable(model):
            raise InputError(f"{name} is {type_text(model)}. Name a torch.nn.Module, or a function that returns one.")
        torch.manual_seed(seed)  # importing may have drawn random numbers
        model = _call(model, name)
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"{name} returned {type_text(model)}, not a torch.nn.Module.")
    return model


def _arguments(args: argparse.Namespace) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args.inputs:
        if args.input:
            raise InputError("--input and --inputs exclude each other: give one of them.")
        return _split_arguments(_call(_import_object(args.inputs), args.inputs))
    names = args.dtype or ["float32"]
    if len(names) not in (1, len(args.input)):
        raise InputError(f"got {len(names)} --dtype for {len(args.input)} --input. Give one for all, or one for each.")
    names = names * len(args.input) if len(names) == 1 else names
    return tuple(_tensor(shape, name, args.high) for shape, name in zip(args.input, names, strict=True)), {}


def _tensor(shape: tuple[int, ...], name: str, high: int) -> Any:
    import torch

    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        known = [other for other in dir(torch) if isinstance(getattr(torch, other), torch.dtype)]
        raise InputError(
            f"torch has no dtype {name!r}.{nearest_hint(name, known)} Use float32, int64, bool or another torch dtype."
        )
    try:
        if dtype.is_complex:
            return torch.randn(shape, dtype=dtype)
        if dtype.is_floating_point:
            return torch.randn(shape).to(dtype)
        return torch.randint(0, 2 if dtype == torch.bool else high, shape).to(dtype)
    except RuntimeError as error:
        raise InputError(f"cannot make a random {name} tensor of shape {list(shape)}: {_error_text(error)}") from error


def _split_arguments(returned: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split what the --inputs function returned (a tuple, a dict, both, or one value) into args and kwargs."""
    if isinstance(returned, dict):
        return (), returned
    if not isinstance(returned, (tuple, list)):
        return (returned,), {}
    if len(returned) == 2 and isinstance(returned[0], (tuple, list)) and isinstance(returned[1], dict):
        return tuple(returned[0]), returned[1]
    return tuple(returned), {}


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = (-1,)
    if min(shape) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a shape: write integers with commas, as in 1,3,224,224")
    return shape


# Imports by name


def _import_object(address: str) -> Any:
    """Import the object that `module:name` or `file.py:name` names."""
    where, _, name = address.rpartition(":")
    if not where or not name:
        raise InputError(f"{address!r} does not name a model. Write module:name or file.py:name.")
    target: Any = _import_file(where) if where.endswith(".py") else _import_module(where)
    for part in name.split("."):
        if not hasattr(target, part):
            near = nearest_hint(part, [other for other in dir(target) if not other.startswith("_")])
            raise InputError(f"{where} has no {part!r}.{near}")
        target = getattr(target, part)
    return target


def _import_module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(f"cannot import {name}: {_error_text(error)}") from error
        raise InputError(
            f"no module {name!r} in the current folder or installed. Check the name, or give a file: path/file.py:name."
        ) from error
    except (Exception, SystemExit) as error:
        raise InputError(f"cannot import {name}: {_error_text(error)}") from error


def _import_file(name: str) -> ModuleType:
    path = Path(name)
    if not path.is_file():
        files = [str(file) for file in path.parent.glob("*.py")]
        raise InputError(f"no file {name!r}.{nearest_hint(name, files)}")
    sys.path.insert(0, str(path.resolve().parent))  # as `python file.py` does
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    before = sys.modules.get(path.stem)
    # Before it runs, as `import` does: dataclasses look their module up in sys.modules.
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(f"cannot import {name}: {_error_text(error)}") from error
    finally:
        # A file named like a loaded module (`json.py`) must not replace it for other importers.
        if before is not None:
            sys.modules[path.stem] = before
    return module


def _call(function: Any, name: str) -> Any:
    if not callable(function):
        raise InputError(f"{name} is {type_text(function)}, which cannot be called.")
    try:
        return function()
    except (Exception, SystemExit) as error:
        is_missing = isinstance(error, TypeError) and "required" in str(error)
        repair = ". Name a function without arguments that returns it." if is_missing else ""
        raise InputError(f"{name}() raised {_error_text(error)}{repair}") from error


def _error_text(error: BaseException) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect what the model prints, including from C code and child processes, to stderr: stdout is ours."""
    sys.stdout.flush()
    try:
        saved_fd = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # file descriptor 1 or 2 is closed
        saved_fd = -1
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if saved_fd >= 0:
            os.dup2(saved_fd, 1)
            os.close(saved_fd)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    before = list(sys.path)
    sys.path.insert(0, os.fspath(folder))
    try:
        yield
    finally:
        sys.path[:] = before
