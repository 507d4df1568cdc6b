"""Calls back with the values at sites while a model runs: module hooks, and a function mode for ops.

Without op sites there is no function mode: the cost is one hook per site and nothing elsewhere. The recorder does not
use this module: it must not add hooks (they disable the fused paths of `nn.TransformerEncoder` and make `torch.compile`
recompile), it must see the forwards that checkpointing reruns in the threads of the backward pass, and it must survive
its own errors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from cutaway.capture.arguments import tensors_in
from cutaway.capture.interventions.op_edit import OpEdits
from cutaway.capture.interventions.regions import Region
from cutaway.capture.interventions.targets import ModelIndex, Target, requested_sites
from cutaway.capture.outputs import tensors_returned
from cutaway.capture.patches.eager import force_eager
from cutaway.capture.patches.own_call import after_call, before_call
from cutaway.capture.sessions import in_hidden_run
from cutaway.core.errors import InputError, SiteError
from cutaway.core.sites import Site


@dataclass(frozen=True, slots=True)
class Observation:
    """One tensor that a running model received, returned or computed at a site."""

    site: Site
    """Fully specified: with the ordinal of an op, the path among several tensors, and the pass."""
    tensor: Tensor
    """The tensor that the model continues with, not a copy: clone what must outlive the callback."""
    module: nn.Module
    """The module that receives or returns it, or whose forward calls the op."""
    requested: tuple[Site, ...]
    """The observed sites that match it."""
    whole: Any
    """All inputs of the module (by position or name), its whole output, or the whole result of the op."""
    n_tensors: int
    """Number of tensors in `whole`."""


class Callback(Protocol):
    """The callback of `observe`.

    It is called once per tensor and pass, even if several sites match, in execution order, and only in the thread that
    entered the block. It sees values after hooks and edits have changed them. Traces do not record the torch functions
    that it calls. If it raises, the model's run ends with that exception; its return value is ignored.
    """

    def __call__(self, seen: Observation, /) -> object: ...


class observe:
    """Context manager that calls back with the values at sites while the model runs; it changes nothing.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    >>> with observe(model, ["0", "1/relu", "1@in.0"], lambda seen: print(seen.site, tuple(seen.tensor.shape))):
    ...     _ = model(torch.ones(2, 4))
    0@out:1 (2, 3)
    1@in.0:1 (2, 3)
    1/relu.1:1 (2, 3)

    You can enter it repeatedly while the model keeps its modules: sites are resolved once. Passes count from 1 in each
    block. `attached` also registers the hooks once, for many blocks in a row.

    Args:
        sites: sites and patterns of module outputs, inputs (`@in`) and ops, ops of a trace, a selection, or several of
            these. A site without a path matches all tensors there.
        callback: called with an `Observation` for each value.
    """

    def __init__(self, model: nn.Module, sites: object, callback: Callback) -> None:
        self.model: nn.Module = getattr(model, "_orig_mod", model)
        self.index = ModelIndex.of(self.model)
        self.callback = callback
        self._at_modules: dict[tuple[str, str], list[Site]] = {}
        """(address, side) → the sites there."""
        self._ops: list[Target] = []
        requested = requested_sites(sites, self.index)
        self.sites = tuple(each.site for each in requested)
        for each in requested:
            site = each.site
            addresses = self.index.modules_at(site)
            if each.units is not None:
                raise InputError(
                    f"'{site}#{each.units[0]}' is a single unit: observe the whole value at {str(site)!r}."
                )
            if not addresses:
                raise InputError(
                    f"{str(site)!r} is a parameter or buffer: only inputs, outputs and ops can be observed."
                )
            if site.op is not None:
                self._ops.append(Target(site, None, Region()))
                continue
            for address in addresses:
                self._at_modules.setdefault((address, site.side or "out"), []).append(site)
        self._known: dict[tuple[str, str], dict[tuple[str, int], tuple[Site, tuple[Site, ...]]]] = {}
        """(address, side) → (path, pass) → the full site, and the requested sites that match it."""
        self._reached: set[Site] = set()
        self._passes: dict[tuple[str, str], int] = {}
        self._thread = 0
        """The thread that entered the block; 0 outside."""
        self._is_attached = False
        self._stack = ExitStack()

    @property
    def missing_sites(self) -> tuple[Site, ...]:
        """The sites without any value in the last block."""
        return tuple(site for site in self.sites if site not in self._reached)

    def __enter__(self) -> observe:
        if self._thread:
            raise InputError("this observer is already active: create another one for a nested block.")
        self._thread = get_ident()
        self._passes.clear()
        self._reached.clear()
        with ExitStack() as stack:
            stack.callback(self._release)
            if not self._is_attached:
                stack.enter_context(self.attached())
            if self._ops:
                OpEdits(self._at_op, self._ops, self.index, is_observer=True).install(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Registers the module hooks; they do nothing until the observer itself is entered.

        Registering a hook takes longer than running a small layer, so loops register once.
        """
        with ExitStack() as stack:
            for (address, side), sites in self._at_modules.items():
                self._hook(address, side, sites, stack)
            if "torch._dynamo" in sys.modules:
                stack.enter_context(force_eager())
            self._is_attached = True
            stack.callback(self._detach)
            yield

    def _at_op(self, targets: list[Target], here: Site, value: Tensor, module: nn.Module, result: Any) -> None:
        """Called after an op has run."""
        n = 1 if isinstance(result, Tensor) else sum(1 for _ in tensors_returned(result))
        self._notify(Observation(here, value, module, tuple(target.site for target in targets), result, n))

    def _release(self) -> None:
        self._thread = 0

    def _detach(self) -> None:
        self._is_attached = False

    def _hook(self, address: str, side: str, sites: list[Site], stack: ExitStack) -> None:
        module = self.index.modules[address]
        if isinstance(module, torch.jit.ScriptModule):
            if all(site.is_pattern for site in sites):
                return
            raise InputError(
                f"{address!r} is a ScriptModule and takes no hooks: observe the modules before or after it."
            )
        key = address, side
        passes, known = self._passes, self._known.setdefault(key, {})

        def visit(called: nn.Module, tree: Any) -> None:
            # A copy of the module made inside the block has the hook, too.
            if called is not module or get_ident() != self._thread or in_hidden_run():
                return
            pass_ = passes[key] = passes.get(key, 0) + 1
            tensors = tensors_in(tree, module is self.model)
            for path, tensor in tensors:
                where = known.get((path, pass_))
                if where is None:
                    requested = tuple(site for site in sites if site.pass_ in (None, pass_) and site.covers_path(path))
                    where = known[path, pass_] = Site(address, None, None, side, path, pass_), requested
                if where[1]:
                    self._notify(Observation(where[0], tensor, module, where[1], tree, len(tensors)))

        if side == "in":

            def before(called: nn.Module, args: Any, kwargs: Any) -> None:
                visit(called, {**{str(i): value for i, value in enumerate(args)}, **kwargs})

            stack.callback(before_call(module, before, with_kwargs=True).remove)
        else:

            def after(called: nn.Module, args: Any, result: Any) -> None:
                visit(called, result)

            stack.callback(after_call(module, after).remove)

    def _notify(self, seen: Observation) -> None:
        self._reached.update(seen.requested)
        with torch._C.DisableTorchFunction():
            self.callback(seen)


def check_single(seen: Observation) -> None:
    """Raises if a site does not say which of several tensors of a module it means."""
    if seen.n_tensors > 1 and seen.site.op is None and any(not site.path for site in seen.requested):
        address, side = seen.site.address, seen.site.side or "out"
        paths = [path for path, _ in tensors_in(seen.whole, True)][:6]
        sites = ", ".join(repr(f"{address}@{side}.{path}") for path in paths)
        raise InputError(f"{address!r} has {seen.n_tensors} tensors there: choose one of {sites}.")


def no_value_error(site: Site) -> SiteError:
    """The error for a required site that had no value."""
    return SiteError(
        f"no value at {str(site)!r}: it did not run, or has no such tensor. cutaway.sites(model, example) lists all "
        "sites that run."
    )
