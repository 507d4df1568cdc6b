"""torch's own databases of functions, modules and optimizers, and what Cutaway must not change about an entry.

`torch.testing._internal` has sample inputs for every public function and module, and settings for every optimizer.
torch tests itself with them, so that they cover arguments, layouts and dtypes that no model of ours uses. The module
needs the package `expecttest`, and torch takes seconds to build the databases: import it where it is needed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_map

import cutaway
from cutaway import Trace
from cutaway.graph.analysis.nonfinite import UNDEFINED
from tests.oracles import random_states, same, tensors

# Importing torch's test utilities replaces how scripts are called, in the whole process and for good.
torch._C.ScriptFunction.__call__ = common_utils.func_call  # type: ignore[method-assign]
torch._C.ScriptMethod.__call__ = common_utils.meth_call  # type: ignore[method-assign]
DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)
"""The first of these that a function supports is used."""
STEPS = 3


@dataclass(slots=True)
class Findings:
    """What was run of one entry, and what was wrong."""

    n_samples: int = 0
    n_skipped: int = 0
    """Samples that plain torch refuses."""
    n_ops: int = 0
    n_proven: int = 0
    n_opaque: int = 0
    n_undefined: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, sample: str, reason: str) -> None:
        self.wrong.append(f"{sample}: {reason}")


class Function(nn.Module):
    """A function as a model; `own` copies the arguments first, so that one that requires grad can be written to."""

    def __init__(self, function: Callable[..., Any], *, own: bool = False) -> None:
        super().__init__()
        self.function, self.own = function, own

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.own and isinstance(args[0], Tensor):
            args = (args[0].clone(), *args[1:])
        return self.function(*args, **kwargs)


@dataclass(slots=True)
class _Outcome:
    """What one forward and backward pass left behind, in comparable form."""

    returned: dict[str, Tensor]
    plain: list[Any]
    """Everything returned that is no tensor."""
    inputs: dict[str, Tensor]
    state: dict[str, Tensor]
    """Parameters and buffers."""
    grads: dict[str, Tensor]
    rng: Any
    error: str = ""

    PARTS: ClassVar = {
        "returned": "the result",
        "plain": "a result that is no tensor",
        "inputs": "an argument after the call",
        "state": "a parameter or buffer",
        "grads": "a gradient",
        "rng": "the random state",
    }


def op_names() -> list[str]:
    return [_op_name(op) for op in op_db]


def _op_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def check_op(name: str, *, most: int = 3) -> Findings:
    """Traces a function of `op_db` on its first samples, and its in-place form on the first."""
    op = next(op for op in op_db if _op_name(op) == name)
    findings = Findings()
    dtype = next((dtype for dtype in DTYPES if dtype in op.dtypes), None)
    if dtype is None:
        return findings
    wants_grad = (dtype.is_floating_point or dtype.is_complex) and op.supports_autograd
    torch.manual_seed(0)
    for i, sample in enumerate(islice(op.sample_inputs("cpu", dtype, requires_grad=wants_grad), most)):
        given = ((sample.input, *sample.args), sample.kwargs)
        _check_call(findings, f"sample {i}", lambda: Function(op.op), given, undefined=op.name in UNDEFINED)
        if i == 0 and op.inplace_variant is not None:
            for own in (False, True) if wants_grad else (False,):
                plain = given if own else tree_map(_without_grad, given)
                make = lambda own=own: Function(op.inplace_variant, own=own)  # noqa: E731
                _check_call(findings, "in place", make, plain, undefined=op.name in UNDEFINED)
    return findings


def module_names() -> list[str]:
    return [info.name for info in module_db]


def check_module(name: str, *, most: int = 4) -> Findings:
    """Traces a module of `module_db` in training and in eval mode, and watches it through a backward pass."""
    info = next(info for info in module_db if info.name == name)
    # torch draws the random samples of these two in double precision, whatever dtype one asks for.
    dtype = torch.float64 if "Fractional" in name else torch.float32
    findings = Findings()
    for training in (True, False):
        torch.manual_seed(0)
        samples = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for i, sample in enumerate(islice(samples, most)):
            built, called = sample.constructor_input, sample.forward_input
            if called is None:
                continue

            def make(built: Any = built, training: bool = training) -> nn.Module:
                torch.manual_seed(1)
                module: nn.Module = info.module_cls(*deepcopy(built.args), **deepcopy(built.kwargs))
                return module.train(training)

            label = f"sample {i}{'' if training else ' in eval mode'}"
            _check_call(findings, label, make, (tuple(called.args), dict(called.kwargs)), undefined=False)
    return findings


def optimizer_names() -> list[str]:
    return [info.optim_cls.__name__ for info in optim_db]


def check_optimizer(name: str, *, most: int | None = None) -> Findings:
    """Trains with the settings of an optimizer of `optim_db`, recorded and not; all must come out bit-identical."""
    info = next(info for info in optim_db if info.optim_cls.__name__ == name)
    findings = Findings()
    for setting in info.optim_inputs_func(device="cpu")[:most]:
        for impl in info.supported_impls or ("for loop",):
            # `fused` on the CPU exists for some; `capturable` is for CUDA graphs only.
            if impl == "fused" and "cpu" not in info.supports_fused_on:
                continue
            kwargs = dict(deepcopy(setting.kwargs))
            if impl in ("foreach", "fused"):
                kwargs[impl] = True
            if kwargs.get("fused") and kwargs.get("foreach"):
                continue
            findings.n_samples += 1
            label = f"{setting.desc} ({impl})"
            try:
                plain = _train(info, deepcopy(kwargs), record=False)
            except (RuntimeError, ValueError, TypeError):
                findings.n_skipped += 1
                continue
            try:
                recorded = _train(info, deepcopy(kwargs), record=True)
            except Exception as error:
                findings.add(label, f"recorded, it raised {_text(error)}")
                continue
            for part, (a, b) in {key: (plain[key], recorded[key]) for key in plain}.items():
                if not same(a, b):
                    findings.add(label, f"{part} differs")
                    break
    return findings


def _train(info: Any, kwargs: dict[str, Any], *, record: bool) -> dict[str, Tensor]:
    """Parameters and optimizer state after a few steps, by name."""
    torch.manual_seed(0)
    if info.only_supports_sparse_grads:
        model: nn.Module = nn.Embedding(7, 3, sparse=True)
        batches = [torch.randint(0, 7, (5,)) for _ in range(STEPS)]
    else:
        is_flat = info.optim_cls.__name__ == "Muon"  # takes matrices only
        model = nn.Sequential(nn.Linear(4, 5, bias=not is_flat), nn.Tanh(), nn.Linear(5, 2, bias=not is_flat))
        batches = [torch.randn(3, 4) for _ in range(STEPS)]
    optimizer = info.optim_cls(model.parameters(), **kwargs)

    def closure(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(batch).square().mean()
        loss.backward()
        return loss

    def step(batch: Tensor) -> None:
        if info.step_requires_closure:
            optimizer.step(lambda: closure(batch))
        else:
            closure(batch)
            optimizer.step()

    if not record:
        for batch in batches:
            step(batch)
    else:
        with tempfile.TemporaryDirectory() as folder, cutaway.record(f"{folder}/run", model, every=1) as run:
            for batch in batches:
                with run.step():
                    step(batch)
    weights = {f"weight {name}": value.detach() for name, value in model.named_parameters()}
    state = {f"state {path}": value for path, value in tensors(optimizer.state_dict()).items()}
    return weights | state | {"random state": torch.get_rng_state()}


def _check_call(findings: Findings, label: str, make: Callable[[], nn.Module], given: Any, *, undefined: bool) -> None:
    findings.n_samples += 1
    try:
        plain, again = (_run(make(), given, lambda model, args, kwargs: model(*args, **kwargs)) for _ in range(2))
    except Exception:
        findings.n_skipped += 1
        return
    random = {part for part in _Outcome.PARTS if list(_differing(plain, again, part))}
    trace: list[Trace] = []

    def traced(model: nn.Module, args: Any, kwargs: Any) -> Any:
        trace.append(cutaway.trace(model, *args, **kwargs))
        return trace[-1].returned

    try:
        _compare(findings, label, plain, _run(make(), given, traced), random, undefined=undefined)
        _compare(findings, f"{label}, watched", plain, _watched(make(), given), random, undefined=undefined)
        # Validated without a backward pass in between, as most traces are.
        _run(make(), given, traced, backward=False)
        _check_trace(findings, label, trace[-1], may_differ=undefined or "returned" in random)
    except Exception as error:
        findings.add(label, f"raised {_text(error)}")


def _check_trace(findings: Findings, label: str, trace: Trace, *, may_differ: bool) -> None:
    findings.n_ops += len(trace)
    if trace.unexplained:
        findings.add(label, f"unexplained {[op.label for op in trace.unexplained]}")
    repr(trace)
    report = trace.validate()
    covered = report.coverage
    findings.n_proven, findings.n_opaque = findings.n_proven + covered.proven, findings.n_opaque + covered.opaque
    findings.n_undefined += covered.undefined
    for failure in report.failures[:1]:
        findings.add(label, f"not valid: {failure.what} {failure}")
    for note in report.notes:
        # A lazy module has no weights before its first run, so that nothing can be put back: the note is right.
        is_due = may_differ or "changed the shape of a tensor" in note
        if "was not checked" in note or ("not compared" in note and not is_due):
            findings.add(label, f"note: {note}")


def _watched(model: nn.Module, given: Any) -> _Outcome:
    """The backward pass inside the block, so that the hooks for gradients run."""
    with cutaway.watch(model):
        return _run(model, given, lambda model, args, kwargs: model(*args, **kwargs))


def _run(model: nn.Module, given: Any, call: Callable[..., Any], *, backward: bool = True) -> _Outcome:
    args, kwargs = _copied(given)
    leaves = {f"argument {path}": tensor for path, tensor in tensors((args, kwargs)).items()}
    torch.manual_seed(0)
    returned = call(model, args, kwargs)
    rng = random_states()
    found = tensors(returned)
    state = dict([*model.named_parameters(), *model.named_buffers()])
    kept = {path: tensor.detach().clone() for path, tensor in found.items()}
    inputs = {path: tensor.detach().clone() for path, tensor in leaves.items()}
    grads: dict[str, Tensor] = {}
    error = ""
    roots = [tensor for tensor in found.values() if tensor.requires_grad] if backward else []
    if roots:
        torch.manual_seed(3)
        try:
            torch.autograd.backward(roots, [_cotangent(root) for root in roots])
        except Exception as raised:
            error = _text(raised)
        grads = {path: tensor.grad for path, tensor in (leaves | state).items() if _grad(tensor) is not None}
    plain = [item for item in _flat(returned) if not isinstance(item, Tensor)]
    return _Outcome(kept, plain, inputs, {n: v.detach() for n, v in state.items()}, grads, rng, error)


def _compare(
    findings: Findings, label: str, plain: _Outcome, other: _Outcome, random: set[str], *, undefined: bool
) -> None:
    if plain.error != other.error:
        findings.add(label, f"backward raised {other.error or 'nothing'!r}, plainly {plain.error or 'nothing'!r}")
    for part, noun in _Outcome.PARTS.items():
        if part in random or (undefined and part in ("returned", "grads", "inputs")):
            continue
        for name in _differing(plain, other, part):
            findings.add(label, f"{noun} differs: {name}")
            break


def _differing(a: _Outcome, b: _Outcome, part: str) -> Iterator[str]:
    mine, others = getattr(a, part), getattr(b, part)
    if not isinstance(mine, dict):
        if repr(mine) != repr(others):
            yield part
        return
    yield from sorted(mine.keys() ^ others.keys())
    yield from (name for name in mine.keys() & others.keys() if not same(mine[name], others[name]))


def _cotangent(root: Tensor) -> Tensor | None:
    if root.layout is not torch.strided or root.is_nested:
        return torch.ones_like(root.detach())
    return torch.randn_like(root.detach())


def _copied(given: Any) -> Any:
    """Fresh leaves with the same values; one tensor that is given twice stays one."""
    copies: dict[int, Any] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) not in copies:
            copies[id(value)] = _fresh(value)
        return copies[id(value)]

    return tree_map(copy, given)


def _fresh(value: Tensor) -> Tensor:
    if value.layout is not torch.strided or value.is_nested:
        return value.detach().clone().requires_grad_(value.requires_grad)
    # `clone` would make an expanded or transposed tensor contiguous, and the strides are what a sample is about.
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype) if _is_dense(value) else value.clone()
    with torch.no_grad():
        copy = copy.detach().copy_(value.detach()) if _is_dense(value) else copy.detach()
    return copy.requires_grad_(value.requires_grad)


def _is_dense(value: Tensor) -> bool:
    return bool(value.numel()) and not value.is_conj() and not value.is_neg() and all(value.stride())


def _without_grad(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _grad(tensor: Tensor) -> Tensor | None:
    return tensor.grad if tensor.is_leaf else None


def _flat(returned: Any) -> list[Any]:
    return torch.utils._pytree.tree_flatten(returned)[0]


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
