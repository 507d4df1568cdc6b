"""Units and samples of every test model against the numbers themselves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from benchmarks.sweep.families import FAMILIES
from benchmarks.sweep.small import Small
from tests.graph.analysis.locality import outcomes
from tests.zoo import RANDOM, ZOO
from torch import Tensor

import cutaway
from cutaway.core.errors import UnitError
from cutaway.graph.trace import Trace

FINE = {"the same unit", "one other unit", "none", "as many as the sizes say"}


def _case(family: str, name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    case = FAMILIES[family]().make(name)
    return case.model, case.args, case.kwargs


def _trace(family: str, name: str) -> Trace:
    model, args, kwargs = ZOO[name]() if family == "zoo" else _case(family, name)
    torch.manual_seed(0)
    return cutaway.trace(model, *args, **kwargs)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_a_changed_unit_or_weight_row_changes_the_units_that_the_answer_names(name: str) -> None:
    _check(outcomes(_trace("zoo", name)))


BY_CONVENTION = {
    "recurrent_vision/blt": {"avg_pool3d"},  # a local response norm averages over neighboring channels
    "vision/capsules": {"sum", "mul", "div"},  # the length of a capsule is a sum over a part of the units
}
"""Small models with functions that compute across units and keep them, as a softmax does."""


@pytest.mark.parametrize("name", Small().names())
def test_units_of_small_architectures(name: str) -> None:
    counts = outcomes(_trace("small", name))
    for function in BY_CONVENTION.get(name, ()):
        assert counts.pop(("unit", f"others: {function}"))
    _check(counts)


LARGE = [
    ("timm", "resnet10t"),
    ("timm", "swin_tiny_patch4_window7_224"),
    ("timm", "mixer_s16_224"),
    ("timm", "gmlp_ti16_224"),
    ("transformers", "gpt2"),
    ("transformers", "llama"),
    ("transformers", "cohere"),
    ("transformers", "mixtral"),
    ("transformers", "glm4"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), LARGE)
def test_units_of_published_architectures(family: str, name: str) -> None:
    pytest.importorskip("transformers")
    architectures = FAMILIES[family]()
    if name not in architectures.names():
        pytest.skip(f"{family} has no {name} here")
    try:
        trace = _trace(family, name)
    except ImportError as error:
        pytest.skip(str(error))
    _check(outcomes(trace))


# samples


def _changed_samples(trace: Trace, other: Trace) -> Counter[str]:
    """How the values of two runs differ that had the same inputs but for sample 1."""
    counts: Counter[str] = Counter()
    for op, twin in zip(trace.ops, other.ops, strict=True):
        value, changed = op.value, twin.value
        layout = op.unit_layout
        if not isinstance(value, Tensor) or value.shape != changed.shape or value.layout != torch.strided:
            continue
        if type(value) is not Tensor or value.is_meta or value.is_quantized or len(layout.samples) != 1:
            continue
        if not value.numel() or not op.parents:  # nothing, or memory as it was found
            continue
        moved = ~torch.isclose(value, changed, rtol=1e-5, atol=1e-6, equal_nan=True)
        moved = moved.reshape(layout.sizes).movedim(layout.samples[0], 0)
        moved = moved.reshape(len(moved), -1)
        where = {int(sample) for sample in moved.any(1).nonzero()}
        counts["nowhere" if not where else "in sample 1" if where == {1} else f"elsewhere: {op.label}"] += 1
    return counts


NOT_BY_SAMPLE = {
    "cnn_training",  # batch statistics
    "buffers",  # batch statistics by hand
    "data_attribute",  # adds the sum of all
    "graph_convolution",  # messages between the nodes of one graph
    "in_place_on_the_input",
    "odd_module_names",  # other weights each time
    "quantized",  # dynamic quantization reads the range of the whole batch
    "same_tensor_twice",  # the batch comes twice in a longer one
    "scalars_steer",  # reads a number back into Python
    "setitem",  # writes rows over others
    "sparse",
}
"""Zoo models whose samples depend on each other, though no dimension of them is computed across and kept."""


@pytest.mark.parametrize("name", sorted(set(ZOO) - RANDOM - NOT_BY_SAMPLE))
def test_a_changed_sample_changes_that_sample_alone(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    trace = cutaway.trace(model, *args, **kwargs)
    model, args, kwargs = ZOO[name]()
    given = dict(zip(trace.input_paths, trace.inputs, strict=True))
    if not _change_sample(args, kwargs, given):
        pytest.skip("no input with two samples")
    other = cutaway.trace(model, *args, **kwargs)
    if [op.function for op in trace.ops] != [op.function for op in other.ops]:
        pytest.skip("takes another path through its code")
    counts = _changed_samples(trace, other)
    assert not [key for key in counts if key.startswith("elsewhere")], counts


def _change_sample(args: Any, kwargs: Any, given: Any) -> bool:
    changed = False
    for path, value in {**{str(i): each for i, each in enumerate(args)}, **kwargs}.items():
        if isinstance(value, Tensor) and path in given and value.is_floating_point():
            layout = given[path].unit_layout
            if len(layout.samples) == 1 and layout.sizes[layout.samples[0]] > 1:
                with torch.no_grad():
                    value.select(layout.samples[0], 1).add_(0.5)
                changed = True
    return changed


@pytest.mark.parametrize("name", sorted(set(ZOO) - RANDOM))
def test_one_more_sample_lets_only_the_samples_grow(name: str) -> None:
    """Also from one sample to two: the layouts of a small run hold for a larger one."""
    model, args, kwargs = ZOO[name]()
    trace = cutaway.trace(model, *args, **kwargs)
    for n, m in ((1, 2), (2, 3)):
        try:
            small, large = (_with_samples(name, trace, count) for count in (n, m))
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
            continue  # the batch size is written into the model
        if small is None or large is None or len(small.ops) != len(large.ops):
            continue
        for op, twin in zip(small.ops, large.ops, strict=True):
            layout = op.unit_layout
            if len(layout.samples) != 1 or not layout.is_known or twin.shape is None or layout.source == "consumers":
                continue
            try:
                assert layout.for_shape(twin.shape, n_samples=m) == twin.unit_layout, (op, layout)
            except UnitError:  # it says so, where it cannot tell
                assert name == "sparse", op


def _with_samples(name: str, trace: Trace, n: int) -> Trace | None:
    """A trace of the same model with another number of samples; None where its inputs have none."""
    model, args, kwargs = ZOO[name]()
    given = dict(zip(trace.input_paths, trace.inputs, strict=True))
    counts = 0

    def resized(path: str, value: Any) -> Any:
        nonlocal counts
        if not isinstance(value, Tensor) or path not in given or len(given[path].unit_layout.samples) != 1:
            return value
        dim = given[path].unit_layout.samples[0]
        counts += 1
        return torch.cat([value] * n, dim).narrow(dim, 0, n).clone()

    new_args = tuple(resized(str(i), value) for i, value in enumerate(args))
    new_kwargs = {key: resized(key, value) for key, value in kwargs.items()}
    return cutaway.trace(model, *new_args, **new_kwargs) if counts else None


def _check(counts: Counter[tuple[str, str]]) -> None:
    wrong = {key: n for key, n in counts.items() if key[1] not in FINE}
    assert not wrong, wrong
    assert not counts["weight", "one other unit"], counts
    assert not counts["weight", "as many as the sizes say"], counts
