"""The recorded model or models: names of their modules, parameters and buffers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from cutaway.capture.model.tree import module_addresses, modules_of, tensor_addresses
from cutaway.capture.patches.compiled_entry import can_watch
from cutaway.capture.units.module_units import is_sequence_first, output_sample_dim
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.core.pytree import escape
from cutaway.core.units.layout import UnitLayout
from cutaway.recording.hooks.module_calls import CallWrappers
from cutaway.recording.recorded_units import parameter_units
from cutaway.recording.statistics.stable_sites import StableSites

Models = nn.Module | Mapping[str, nn.Module] | Sequence[nn.Module]


@dataclass(frozen=True, slots=True)
class NamedParameter:
    """A parameter or buffer and its names."""

    tensor: Tensor
    names: tuple[str, ...]
    is_buffer: bool


class RecordedModels:
    """The models of a run. If there are several, addresses start with the name of the model.

    Args:
        is_eager: whether compiled modules run eagerly, so that their submodules are recorded, too.
    """

    def __init__(self, models: Models, *, is_eager: bool = False) -> None:
        self.root = _as_module(models)
        self._is_eager = is_eager
        self.modules: dict[int, tuple[nn.Module, tuple[str, ...]]] = {}
        self.parameters: list[NamedParameter] = []
        self.parameter_of: dict[int, NamedParameter] = {}
        """Tensor id → its parameter or buffer."""
        self.roots: dict[int, str] = {}
        """Model id → its address."""
        self.compiled: list[nn.Module] = []
        """Modules that run under torch.compile: their submodules are not recorded."""
        self.named: dict[str, nn.Module] = {}
        """Modules by address."""
        self.runs_compiled: bool | None = None
        """Whether compiled code runs in the steps, as traced steps have shown; None before the first."""
        self.has_run = False
        """Whether a module was called in a recorded step."""
        self.stable_sites = StableSites()
        """Outputs and gradients that are not overwritten within a step."""
        self.root_of: dict[int, str] = {}
        """Module or parameter id → the address of its model."""
        self.optimized: set[int] | None = None
        """Ids of the parameters that an optimizer has stepped; None before the first complete recorded step."""
        self.sequence_first = ""
        """The address of the first layer that takes time steps before samples; "" if there is none."""
        self.still: dict[int, tuple[int | None, int]] = {}
        """Ids of large frozen tensors that a step did not change → their version counter and memory then."""
        self._layouts: dict[str, UnitLayout | None] = {}
        self._contents: list[Any] = []
        self.n_changes = 0
        """How often modules or parameters have changed: what depends on them alone is computed once for each number."""
        self.refresh()

    def layout_of(self, parameter: NamedParameter) -> UnitLayout | None:
        """The output units of a parameter, if its owner is a layer of torch.nn."""
        name = parameter.names[0]
        if name not in self._layouts:
            if is_lazy(parameter.tensor):
                return None
            self._layouts[name] = parameter_units(self.named, name, parameter.tensor)
        return self._layouts[name]

    def first_address(self, address: str) -> str:
        """The address by which the calls of a module are counted, if it has several."""
        return self.modules.get(id(self.named[address]), (None, (address,)))[1][0]

    def refresh(self) -> None:
        """Update the names if modules or parameters have changed (adapters, growing networks)."""
        modules = modules_of(self.root)
        contents = _contents(modules)
        if contents == self._contents:
            return
        self._contents = contents
        self.n_changes += 1
        addresses = module_addresses(self.root)
        self.compiled = [] if self._is_eager else [module for module in modules if is_compiled(module)]
        inside = {id(inner) for module in self.compiled for inner in modules_of(module) if inner is not module}
        self.modules = {
            id(module): (module, addresses[id(module)])
            for module in modules
            if id(module) in addresses and id(module) not in inside and not isinstance(module, _Several)
            if not (self._is_eager and is_compile_wrapper(module))  # has the address of the module in it
        }
        self.roots = {
            id(module): addresses[id(module)][0]
            for module in (self.root._modules.values() if isinstance(self.root, _Several) else (self.root,))
            if module is not None
        }
        self.named = {name: module for module in modules for name in addresses.get(id(module), ())}
        self.parameters = _named_parameters(modules, tensor_addresses(self.root, addresses))
        self.parameter_of = {id(parameter.tensor): parameter for parameter in self.parameters}
        self.root_of = _roots_of(self.roots.values(), self.modules, self.parameters)
        self.still.clear()
        if self.optimized is not None:
            self.optimized.intersection_update(self.root_of)
        self.sequence_first = next((name for name, module in self.named.items() if is_sequence_first(module)), "")
        self._layouts.clear()

    @property
    def sample_dim(self) -> int | None:
        """The sample dimension of the inputs as far as it is known without a graph; None if it is not."""
        if not self.sequence_first:
            return 0
        only = self.root if len(self.roots) == 1 and id(self.root) in self.roots else None
        return None if only is None else output_sample_dim(only, "0", 3)

    @property
    def is_traceable(self) -> bool:
        """Whether steps may be traced: tracing would change how compiled code runs."""
        if self._is_eager:
            return True
        return not self.compiled and not self.runs_compiled and (can_watch() or not is_anything_compiled())

    @property
    def may_run_compiled(self) -> bool:
        """Whether compiled code may run in the steps."""
        return bool(self.compiled) or (is_anything_compiled() if self.runs_compiled is None else self.runs_compiled)

    @property
    def is_watched(self) -> bool:
        """Whether a traced step must end its trace before compiled code runs."""
        return not self._is_eager


def _roots_of(
    roots: Iterable[str], modules: Mapping[int, tuple[nn.Module, tuple[str, ...]]], parameters: list[NamedParameter]
) -> dict[int, str]:
    """Module or parameter id → the address of its model."""
    names = {id_: addresses[0] for id_, (_, addresses) in modules.items()}
    names.update((id(parameter.tensor), parameter.names[0]) for parameter in parameters)
    starts = {f"{root}.": root for root in roots}
    if len(starts) == 1:
        return dict.fromkeys(names, next(iter(starts.values())))
    return {
        id_: next((root for start, root in starts.items() if f"{name}.".startswith(start)), name)
        for id_, name in names.items()
    }


class _Several(nn.Module):
    """Holds several models by name; it never runs. Runs store this class name: do not rename it."""

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for name, model in models.items():
            # Not add_module, which rejects names with dots.
            self._modules[name] = model


def _contents(modules: list[nn.Module]) -> list[Any]:
    """What the names depend on: ids, names and compiled flags. Compared to detect changes."""
    contents: list[Any] = []
    add = contents.append
    for module in modules:
        add(id(module))
        add(is_compiled(module))
        for inside in (module._modules, module._parameters, module._buffers):
            if inside:
                # .keys(), because the ones of scripted modules are no dicts.
                contents.extend(inside.keys())
                contents.extend(map(id, inside.values()))
            add(None)
    return contents


def eager_model(root: nn.Module) -> nn.Module:
    """A model without the wrapper of `torch.compile`; its modules keep their addresses."""
    if isinstance(root, _Several):
        return _Several({name: eager_model(model) for name, model in root._modules.items() if model is not None})
    while is_compile_wrapper(root):
        root = root._orig_mod  # type: ignore[assignment]
    return root


def is_several(root: nn.Module) -> bool:
    """Whether several models are recorded."""
    return isinstance(root, _Several)


def is_compile_wrapper(module: nn.Module) -> bool:
    """Whether this is what `torch.compile(model)` returns."""
    return type(module).__name__ == "OptimizedModule"


def is_compiled(module: nn.Module) -> bool:
    """Whether a module runs under torch.compile."""
    attributes = module.__dict__
    call, forward = attributes.get("_compiled_call_impl"), attributes.get("forward")
    return (
        is_compile_wrapper(module)
        or (call is not None and _is_dynamo_wrapper(call))
        or (forward is not None and _is_dynamo_wrapper(forward))
    )


def _is_dynamo_wrapper(call: Any) -> bool:
    while isinstance(getattr(call, "calls", None), CallWrappers):  # the wrapper of another active recorder
        call = call.inner
    return call is not None and hasattr(call, "_torchdynamo_orig_callable")


def is_anything_compiled() -> bool:
    """Whether the process has compiled anything, for whatever use."""
    dynamo: Any = sys.modules.get("torch._dynamo.eval_frame")
    return any(backend is not None for backend in getattr(dynamo, "cached_backends", {}).values())


def _as_module(models: Models) -> nn.Module:
    if isinstance(models, nn.Module) and not isinstance(models, (nn.ModuleDict, nn.ModuleList)):
        return models
    named: dict[str, Any]
    if isinstance(models, (Mapping, nn.ModuleDict)):
        named = dict(models.items())
    elif isinstance(models, (Sequence, nn.ModuleList)) and not isinstance(models, str):
        named = {str(number): model for number, model in enumerate(models)}
    else:
        instead = _instead_of(models)
        raise InputTypeError(
            f"record() got {type_text(models)} as model: pass a torch.nn.Module, or a dict of modules by name.{instead}"
        )
    for name, model in named.items():
        if not isinstance(model, nn.Module):
            instead = _instead_of(model)
            raise InputTypeError(f"record() got {type_text(model)} as model {name!r}: pass a torch.nn.Module.{instead}")
    if not named:
        raise InputError("record() got an empty collection of models: pass at least one.")
    return _Several({escape(str(name)): model for name, model in named.items()})


def _instead_of(model: object) -> str:
    """What to pass instead of something that is often taken for a model."""
    if isinstance(model, type) and issubclass(model, nn.Module):
        return f" Create an instance first: {model.__name__}(…)."
    if isinstance(model, (Iterator, Tensor)):  # model.parameters(), dict(model.named_parameters())
        return " Pass the model itself instead of its parameters: they are recorded with it."
    if isinstance(model, Optimizer):
        return " Pass the model itself: what its optimizers read and change is recorded with it."
    return ""


def _named_parameters(modules: list[nn.Module], addresses: dict[int, tuple[str, ...]]) -> list[NamedParameter]:
    parameters: dict[int, NamedParameter] = {}
    for module in modules:
        for is_buffer, tensors in ((False, module._parameters), (True, module._buffers)):
            for tensor in tensors.values():
                if tensor is not None and id(tensor) not in parameters and id(tensor) in addresses:
                    names = tuple(dict.fromkeys(addresses[id(tensor)]))
                    parameters[id(tensor)] = NamedParameter(tensor, names, is_buffer)
    return list(parameters.values())
