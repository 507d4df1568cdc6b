"""New values for an edit: a constant, a tensor, noise, a function, a value from another site or trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from cutaway.capture.interventions.token_positions import current_token_window
from cutaway.capture.tensors.conversion import as_tensor
from cutaway.core.errors import EditError, InputError, InputTypeError, UnitError
from cutaway.core.formatting import short, type_text
from cutaway.core.sites import Site
from cutaway.graph.op import Op
from cutaway.graph.trace import Trace


class Source(Protocol):
    """Provides a value for a site: a trace, a run, a set of activations."""

    def value_at(self, site: str, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Change:
    """How to compute the new value from the present one.

    `needs` are other sites whose present values it reads; `source` provides a value for each site.
    """

    make: Callable[..., Any]
    """Called with the value, and with the values of `needs`."""
    needs: tuple[Site, ...] = ()
    source: Any = None
    is_random: bool = False
    swaps: Any = None
    """A function to call instead of the one that computes the value."""
    takes_layout: bool = False
    """Whether `make` is called with the value and its `UnitLayout`."""
    label: str = "a computed value"
    """What the new value is, in words."""

    def __call__(self, value: Tensor, *others: Any) -> Tensor:
        return fit_to(self.make(value, *others), value)


def change_to(to: object) -> Change:
    """Parses `to=`."""
    if isinstance(to, Change):
        return to
    if isinstance(to, (bool, int, float, complex)):
        return Change(lambda value: _constant(value, to), label=repr(to))
    if isinstance(to, (Tensor, np.ndarray)):
        given = _as_tensor(to)
        return Change(lambda value: _align_tokens(given, value), label=f"a tensor {list(given.shape)}")
    if isinstance(to, Op):
        given = _as_tensor(to.value)
        return Change(lambda value: _align_tokens(given, value), label=f"the value of {to.label}")
    if isinstance(to, str):
        return Change(lambda value, other: other.clone(), needs=(Site.parse(to),), label=f"the value at {to!r}")
    if isinstance(to, Trace) or hasattr(to, "value_at"):
        label = f"its value in {type_text(to)}"
        return Change(lambda value, other: _align_tokens(_as_tensor(other), value), source=to, label=label)
    if callable(to):
        name = getattr(to, "__name__", type(to).__name__)
        return Change(lambda value: _call_on_copy(to, value), label=f"{name}(value)")
    raise InputTypeError(
        f"to={short(repr(to))}: use a number, a tensor, a function of the value, another site, an op or a trace."
    )


def _as_tensor(value: Any) -> Tensor:
    # Arrays read from disk are read-only, and torch warns about sharing such memory.
    return as_tensor(np.array(value) if isinstance(value, np.ndarray) else value)


def _constant(value: Tensor, number: complex) -> Tensor:
    is_real = not isinstance(number, complex)
    if value.is_complex() or (is_real and (value.is_floating_point() or number == number // 1)):  # type: ignore[operator]
        return torch.full_like(value, number)
    raise EditError(f"{number!r} cannot be represented in a value of dtype {str(value.dtype).removeprefix('torch.')}.")


def scale(factor: float) -> Change:
    """Multiplies the value by a factor.

    Args:
        factor: the number to multiply by.
    """
    return Change(lambda value: value * factor, label=f"scale({factor})")


def clamp(low: float | None = None, high: float | None = None) -> Change:
    """Clamps the value between two bounds.

    Args:
        low: the lower bound; None for none.
        high: the upper bound; None for none.
    """
    return Change(lambda value: value.clamp(low, high), label=f"clamp({low}, {high})")


def noise(std: float, *, relative: bool = False) -> Change:
    """Adds normal noise; with `relative`, `std` is a multiple of the value's standard deviation.

    Args:
        std: the standard deviation of the noise.
        relative: whether `std` is a multiple of the value's standard deviation.
    """

    def make(value: Tensor) -> Tensor:
        size = std * value.detach().float().std() if relative else std
        return value + torch.randn_like(value) * size

    return Change(make, is_random=True, label=f"noise({std}{', relative=True' if relative else ''})")


def swap(function: Callable[..., Any]) -> Change:
    """Calls another function with the same arguments, such as GELU instead of ReLU.

    Args:
        function: called with the arguments of the module or op in its place.
    """
    if not callable(function):
        raise InputTypeError(f"swap({function!r}): pass the function to call instead.")
    name = getattr(function, "__name__", type(function).__name__)
    return Change(lambda value: value, swaps=function, label=f"swap({name})")


def value_from(source: Any, site: Site) -> Any:
    """The value that a source has for a site; the pass is dropped if the source ran it once."""
    text = str(site)
    if not isinstance(source, Trace):
        return source.value_at(text)
    ops = source.match(text) or source.match(str(_without_pass(site)))
    if len(ops) != 1:
        what = "no value" if not ops else f"{len(ops)} values"
        raise EditError(f"the trace of {source.model_name} has {what} for {text!r}; exactly one is needed.")
    return ops[0].value


def _without_pass(site: Site) -> Site:
    return Site(site.address, site.op, site.ordinal, site.side, site.path)


def fit_to(given: Any, value: Tensor) -> Tensor:
    """Converts the new value to the dtype, device and shape of the old one."""
    if not isinstance(given, Tensor):
        array = np.asarray(given)
        if array.dtype.kind not in "biufc":
            raise EditError(f"the new value is {type_text(given)}: a function for to= must return a tensor.")
        given = as_tensor(array)
    new: Tensor = given
    if new.dtype != value.dtype or new.device != value.device:
        new = new.to(device=value.device, dtype=value.dtype)
    if new.shape != value.shape:
        try:
            # Expanded tensors share memory between elements, and an in-place op of the program would raise.
            new = new.expand(value.shape).clone()
        except RuntimeError:
            raise EditError(
                f"a value of shape {list(new.shape)} does not fit one of shape {list(value.shape)}: "
                "use the same shape, or one that broadcasts to it."
            ) from None
    return new


def _align_tokens(given: Tensor, value: Tensor) -> Tensor:
    """The given value; during generation, the part of it at the token positions of the current step."""
    now = current_token_window()
    new = given.to(value) if now is not None else given.clone()
    is_text = 1 < new.dim() <= value.dim() and new.shape[-1] == value.shape[-1] and new.shape[-2] > 1
    return new if now is None or not is_text else now.overlay(new, value)


def _call_on_copy(function: Callable[[Tensor], Any], value: Tensor) -> Any:
    """Calls a function on a copy, because it may modify its argument in place and return None."""
    # The original must stay intact: traces hold it by reference as the parent of the edit.
    copy = value.clone()
    result = function(copy)
    return copy if result is None else result


@contextmanager
def name_site_in_errors(verb: str, site: object) -> Iterator[None]:
    """Context manager: puts the site before the message of an error about a value that does not fit there."""
    try:
        yield
    except (EditError, UnitError) as error:
        raise type(error)(f"{verb} at {str(site)!r}: {error}") from error.__cause__


def parse_changes(at: object, to: object, example: str) -> list[tuple[Any, Change]]:
    """Parses `at=` and `to=`, or a mapping, to (target, change) pairs.

    Args:
        example: the call to write if `to=` is missing; `{at}` stands for the site.
    """
    if isinstance(at, Mapping):
        if to is not None:
            raise InputError(f"at= is a mapping from sites to new values: leave out to={short(repr(to))}.")
        return [(place, change_to(each)) for place, each in at.items()]
    if to is None:
        raise InputError(
            f"to= is missing for at={short(repr(at))}: write {example.format(at=short(repr(at)))}, or pass a mapping "
            "from sites to new values."
        )
    return [(at, change_to(to))]
