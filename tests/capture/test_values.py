"""Values and parents in a trace are right: compared with hooks, and with a replay of every op."""

from __future__ import annotations

import pytest
import torch
from tests.oracles import ModuleOutputs, check_replay, same, tensors
from tests.zoo import RANDOM, ZOO, Fn
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import StaleValueError
from cutaway.core.pytree import escape

_UNHOOKABLE = {"scripted_parts"}  # torch takes no hooks on scripted modules
_OTHER_PATH_WITH_HOOKS = {"transformer_fast_path", "attention_fast_path"}
_INSIDE_OPAQUE = {"function_transforms", "jacobians", "scripted_parts"}
_AUTOCAST = {"mixed_dtypes"}


@pytest.mark.parametrize("name", [n for n in ZOO if n not in _UNHOOKABLE | _OTHER_PATH_WITH_HOOKS | _INSIDE_OPAQUE])
def test_module_outputs_equal_what_hooks_see(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    hooks = ModuleOutputs(model)
    torch.manual_seed(1)
    model(*args, **kwargs)
    hooks.remove()
    model, args, kwargs = ZOO[name]()
    torch.manual_seed(1)
    trace = cutaway.trace(model, *args, **kwargs)
    for address, expected in hooks.found.items():
        own = ".".join(escape(part) for part in address.split(".")) if address != "." else "."
        calls = trace.modules[own].calls
        assert len(calls) == len(expected), own
        for call, tensors_of_call in zip(calls, expected, strict=True):
            assert call.outputs.keys() == tensors_of_call.keys()
            for path, tensor in tensors_of_call.items():
                assert same(call.outputs[path].value, tensor), (own, path)


@pytest.mark.parametrize("name", [n for n in ZOO if n not in _AUTOCAST and n != "meta"])
def test_every_op_gives_its_value_again_from_its_parents(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    torch.manual_seed(1)
    trace = cutaway.trace(model, *args, **kwargs)
    proven = check_replay(trace)
    assert proven or name == "function_transforms"


@pytest.mark.parametrize("name", ZOO)
def test_outputs_are_the_ops_that_made_them(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    torch.manual_seed(1)
    trace = cutaway.trace(model, *args, **kwargs)
    returned = tensors(trace.returned)
    assert trace.output_paths == tuple(returned)
    for op, tensor in zip(trace.outputs, returned.values(), strict=True):
        assert same(op.value, tensor)


@pytest.mark.parametrize("name", sorted(set(ZOO) - RANDOM))
def test_metadata_alone_gives_the_same_graph(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    model(*args, **kwargs)  # torch keeps a few tensors from its first run
    model, args, kwargs = ZOO[name]()
    full = cutaway.trace(model, *args, **kwargs)
    model, args, kwargs = ZOO[name]()
    with cutaway.watch(model, save=None) as bare:
        model(*args, **kwargs)
    assert [op.label for op in bare.ops] == [op.label for op in full.ops]
    for a, b in zip(bare.ops, full.ops, strict=True):
        assert a.site == b.site
        assert [edge.argument for edge in a.edges] == [edge.argument for edge in b.edges]
        assert [parent.label for parent in a.parents] == [parent.label for parent in b.parents]
        assert (a.shape, a.dtype, a.flops) == (b.shape, b.dtype, b.flops)
    assert [op.label for op in bare.outputs] == [op.label for op in full.outputs]


def test_copies_and_references_hold_the_same_values() -> None:
    for name in ("chained_in_place", "in_place_through_views", "setitem", "buffers", "cnn_training", "custom_ops"):
        found = []
        for keep in ("reference", "copy"):
            model, args, kwargs = ZOO[name]()
            with cutaway.watch(model, keep=keep) as trace:
                model(*args, **kwargs)
            found.append([op.value for op in trace.ops])
        for reference, copy in zip(*found, strict=True):
            assert same(reference, copy), name


def test_a_value_overwritten_after_the_block_is_refused() -> None:
    trace = cutaway.trace(nn.Linear(4, 2), torch.ones(1, 4))
    trace.returned.data  # noqa: B018
    with torch.no_grad():
        trace.returned.add_(1)
    with pytest.raises(StaleValueError, match=r"linear_1_1.*overwritten.*keep='copy'"):
        _ = trace[0].value


def test_a_list_that_changes_after_the_call_does_not_change_the_graph() -> None:
    def forward(self: Fn, x: Tensor) -> Tensor:
        parts = [x, x * 2]
        first = torch.cat(parts)
        parts.append(x * 3)
        return torch.cat(parts)[:6] + first

    trace = cutaway.trace(Fn(forward), torch.ones(3, 2))
    assert [len(op.edges) for op in trace.ops if op.function == "cat"] == [2, 3]


def test_writes_through_one_view_do_not_touch_another() -> None:
    model, args, _ = ZOO["disjoint_views"]()
    trace = cutaway.trace(model, *args)
    assert not [op for op in trace.ops if op.is_alias_write]


def test_identity_functions_leave_the_value_with_its_producer() -> None:
    model, args, _ = ZOO["identities"]()
    trace = cutaway.trace(model, *args)
    assert [op.function for op in trace.ops if op.is_identity] == ["dropout", "contiguous", "to"]
    assert [edge.parent.label for edge in trace["add_1"].edges] == ["linear_1_1", "linear_1_1"]
    assert trace["drop"] == trace["linear"] == trace["linear_1"]


def test_batch_norm_says_which_buffers_it_writes() -> None:
    model, args, _ = ZOO["cnn_training"]()
    trace = cutaway.trace(model, *args)
    assert trace["1/batch_norm"].writes == ("1.running_mean", "1.running_var")
    assert trace["1/add"].writes == ("1.num_batches_tracked",)
    assert same(trace.buffers["1.running_mean"].value, torch.zeros(4))


def test_numbers_that_leave_torch_are_ops() -> None:
    model, args, _ = ZOO["scalars_steer"]()
    trace = cutaway.trace(model, *args)
    by_name = {op.function: op for op in trace.ops}
    assert by_name["bool"].value in (True, False)
    assert isinstance(by_name["item"].value, float)
    assert by_name["item"].parents[0].function == "max"
    assert isinstance(by_name["tolist"].value, list)
    assert by_name["float"].children == ()


def test_orphans_are_trimmed_unless_asked_for() -> None:
    model, args, _ = ZOO["orphans"]()
    assert [op.function for op in cutaway.trace(model, *args)] == ["relu"]
    with cutaway.watch(model, orphans=True) as trace:
        model(*args)
    assert [op.function for op in trace] == ["ones", "exp", "sum", "relu"]


def test_inputs_are_named_by_their_path() -> None:
    model, args, kwargs = ZOO["structured_inputs"]()
    trace = cutaway.trace(model, *args, **kwargs)
    expected = ("0.0", "0.1.k", "1.image", "1.mask", "2.a", "2.b.inner.0", "3", "scale", "z")
    assert trace.input_paths == expected
    assert trace[".@in.0.1.k"] == trace.inputs[1]
    assert all(op.kind == "input" for op in trace.inputs)


def test_composites_are_opened_and_kept_as_groups() -> None:
    model, args, _ = ZOO["attention"]()
    trace = cutaway.trace(model, *args)
    softmax = trace["mha/softmax"]
    assert softmax.groups[0] == "multi_head_attention_forward"
    assert "softmax" in softmax.groups[1:]


def test_modules_made_inside_the_forward_are_named_and_their_parameters_known() -> None:
    model, args, _ = ZOO["modules_made_in_forward"]()
    trace = cutaway.trace(model, *args)
    made = trace["<Linear>"]
    assert [parent.function for parent in made.parents] == ["input", "constant_", "zero_"]
    assert [parent.writes for parent in made.parents[1:]] == [("<Linear>.weight",), ("<Linear>.bias",)]


def test_opaque_regions_keep_their_inputs_and_outputs() -> None:
    model, args, _ = ZOO["scripted_parts"]()
    trace = cutaway.trace(model, *args)
    opaque = [op for op in trace.ops if op.is_opaque]
    assert [op.function for op in opaque] == ["Sequential", "scripted_function", "Linear"]
    assert trace["inner"].parents[0].label == "linear_1_1"
    assert {p.label for p in trace["inner"].parameters} == {"inner.0.weight", "inner.0.bias"}
    assert trace.unused_parameters == ()


def test_what_a_module_received_is_what_its_pre_hooks_made_of_it() -> None:
    model, args, _ = ZOO["hooks_that_replace"]()
    trace = cutaway.trace(model, *args)
    assert trace["2@in.0"] == trace["2"].parents[0] == trace["add_1"]


def test_code_that_cannot_be_opened_says_so() -> None:
    for name in ("cond", "quantized", "gradient_inside_forward", "function_transforms"):
        model, args, _ = ZOO[name]()
        assert [op for op in cutaway.trace(model, *args) if op.is_opaque], name


def test_containers_that_change_after_a_call_do_not_cut_the_graph() -> None:
    model, args, kwargs = ZOO["containers_changed_later"]()
    trace = cutaway.trace(model, *args, **kwargs)
    assert trace.constants == ()
    assert not [op for op in trace if op.is_identity or op.is_opaque]
    assert trace["relu_1"].parents == (trace["linear"],)
    assert trace.input_paths == ("0", "cache.0")
    assert list(trace.modules["inner"].calls[0].inputs) == ["0.0"]
    assert list(trace.modules["inner"].calls[0].outputs) == ["a"]


def test_what_is_kept_keeps_its_parents() -> None:
    def forward(self: Fn, x: Tensor) -> Tensor:
        if (x + torch.zeros(2).exp()).sum() > 1e9:
            x = x * 2
        return x.relu()

    trace = cutaway.trace(Fn(forward), torch.ones(3, 2))
    assert [op.function for op in trace] == ["zeros", "exp", "add", "sum", "gt", "bool", "relu"]


def test_transforms_are_opaque_and_know_the_parameters_they_read() -> None:
    model, args, _ = ZOO["function_transforms"]()
    trace = cutaway.trace(model, *args)
    assert {p.label for p in trace["vmap_1"].parents} == {"input_1", "a.weight", "a.bias"}
    model, args, _ = ZOO["jacobians"]()
    trace = cutaway.trace(model, *args)
    assert trace.outputs[0].distance_from_input is not None
    assert trace.unused_parameters == ()
