"""Threads, forks, several traces at once, exceptions, scale."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.call_count import count_lines
from tests.capture.test_transparency import assert_nothing_left
from tests.oracles import check_replay, same
from tests.zoo import ZOO, Fn
from torch import Tensor, nn

import cutaway


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_ops_in_threads_started_inside_the_block_are_captured() -> None:
    def forward(self: Fn, x: Tensor) -> Tensor:
        found: list[Tensor] = [x, x]

        def work(i: int) -> None:
            found[i] = self.part(x) * (i + 1)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with ThreadPoolExecutor(1) as pool:
            third = pool.submit(torch.tanh, x).result()
        return found[0] + found[1] + third

    trace = cutaway.trace(Fn(forward, part=nn.Linear(4, 4)), torch.ones(3, 4))
    assert sorted(op.function for op in trace) == ["add", "add", "linear", "linear", "mul", "mul", "tanh"]
    assert len(trace.modules["part"].calls) == 2
    assert all(call.parent is not None and call.parent.address == "." for call in trace.modules["part"].calls)
    assert trace.constants == ()
    check_replay(trace)


def test_a_thread_that_outlives_the_block_goes_on_unwatched() -> None:
    go, done = threading.Event(), []

    def late() -> None:
        go.wait(10)
        done.append(torch.ones(2) + 1)

    with cutaway.watch() as trace:
        thread = threading.Thread(target=late)
        thread.start()
        torch.zeros(2)
    n = len(trace)
    go.set()
    thread.join()
    assert len(trace) == n == 1
    assert done[0].tolist() == [2.0, 2.0]
    assert_nothing_left()


def test_other_threads_are_not_watched() -> None:
    stop, n = threading.Event(), [0]

    def busy() -> None:
        model = nn.Linear(2, 2)
        while not stop.is_set():
            model(torch.ones(1, 2))
            n[0] += 1

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        while not n[0]:
            time.sleep(0.001)
        traces = [cutaway.trace(small(), torch.ones(1, 4)) for _ in range(20)]
    finally:
        stop.set()
        thread.join()
    assert {len(trace) for trace in traces} == {3}


def test_two_traces_at_once_do_not_mix() -> None:
    barrier, found = threading.Barrier(2), {}

    def work(name: str) -> None:
        model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(20)))
        barrier.wait()
        found[name] = [cutaway.trace(model, torch.ones(1, 4)) for _ in range(10)]

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for traces in found.values():
        for trace in traces:
            assert [op.site for op in trace] == [f"{i}/linear" for i in range(20)]
            check_replay(trace)
    assert_nothing_left()


def test_a_trace_inside_a_trace_sees_its_part() -> None:
    inner: list[cutaway.Trace] = []
    model = small()

    def forward(self: Fn, x: Tensor) -> Tensor:
        inner.append(cutaway.trace(model, x * 2))
        return inner[0].returned + self.own(x)

    outer = cutaway.trace(Fn(forward, own=nn.Linear(4, 2)), torch.ones(1, 4))
    assert [op.function for op in inner[0]] == ["linear", "relu", "linear"]
    assert [op.function for op in outer] == ["mul", "linear", "relu", "linear", "linear", "add"]
    check_replay(outer)
    check_replay(inner[0])
    assert outer["relu_1"].source.text.startswith("inner.append(cutaway.trace(")
    assert outer["relu_1"].stack[0].file.endswith("functional.py")
    assert_nothing_left()


def test_an_opaque_region_is_opaque_for_every_trace_around_it() -> None:
    model, args, _ = ZOO["function_transforms"]()
    inner: list[cutaway.Trace] = []

    def forward(self: Fn, x: Tensor) -> Tensor:
        inner.append(cutaway.trace(model, x))
        return inner[0].returned[0] * 2

    outer = cutaway.trace(Fn(forward), *args)
    assert [op.function for op in inner[0] if op.is_opaque] == ["vmap", "grad"]
    assert [op.function for op in outer if op.is_opaque] == ["vmap", "grad"]
    assert outer["mul_1"].parents == (outer["vmap_1"],)


def test_a_forked_child_does_not_inherit_the_capture() -> None:
    def forward(self: Fn, x: Tensor) -> Tensor:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                watching = [type(mode).__name__ for mode in torch.overrides._get_current_function_mode_stack()]
                hooks = len(torch.nn.modules.module._global_forward_hooks)
                y = self.part(torch.ones(1, 4))
                code = 0 if y.shape == (1, 4) and "Watcher" not in watching and hooks == 0 else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        return self.part(x)

    trace = cutaway.trace(Fn(forward, part=nn.Linear(4, 4)), torch.ones(2, 4))
    assert [op.function for op in trace] == ["linear"]


def test_an_exception_passes_through_and_the_trace_so_far_is_kept() -> None:
    model, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(9, 2)), torch.ones(1, 4)
    with pytest.raises(RuntimeError, match="mat1 and mat2") as caught, cutaway.watch(model) as trace:
        model(x)
    assert not trace.is_complete
    assert trace.error is caught.value
    assert [op.function for op in trace] == ["linear", "relu"]
    assert trace.failed is not None
    assert trace.failed.startswith("linear(float32 [1, 8], float32 [2, 9], float32 [2])")
    assert "STOPPED" in repr(trace)
    assert not trace.modules["2"].calls[0].is_finished
    assert trace["1"].value.shape == (1, 8)


def test_trace_attaches_the_partial_trace_to_the_exception() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(9, 2))
    with pytest.raises(RuntimeError) as caught:
        cutaway.trace(model, torch.ones(1, 4))
    assert len(caught.value.cutaway_trace) == 1


def test_an_exception_that_the_model_handles_is_no_failure() -> None:
    def forward(self: Fn, x: Tensor) -> Tensor:
        try:
            x @ torch.ones(7, 7)
        except RuntimeError:
            x = x + 1
        return self.part(x)

    trace = cutaway.trace(Fn(forward, part=nn.Linear(4, 4)), torch.ones(2, 4))
    assert trace.is_complete
    assert trace.failed is None
    assert trace["part"].module.address == "part"


def test_modules_five_hundred_deep() -> None:
    import sys

    model: nn.Module = nn.Linear(2, 2)
    for _ in range(500):
        model = nn.Sequential(model)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        trace = cutaway.trace(model, torch.ones(1, 2))
    finally:
        sys.setrecursionlimit(limit)
    assert len(trace.calls) == 501
    assert trace.calls[-1].address == ".".join(["0"] * 500)
    assert len(repr(trace).splitlines()) < 30
    assert trace[".".join(["0"] * 500)].shape == (1, 2)


@pytest.mark.parametrize("save", ["**", None])
def test_work_is_linear_in_ops(save: str | None) -> None:
    def forward(self: Fn, x: Tensor) -> Tensor:
        for _ in range(self.steps):
            x = torch.tanh(x * 1.5) + 0.1
            x = x.view(-1).view(1, 4)
        return x

    def n_lines(steps: int) -> int:
        model, x = Fn(forward, steps=steps), torch.ones(1, 4)

        def run() -> None:
            with cutaway.watch(model, save=save) as trace:
                model(x)
            _ = trace[-1].label, trace.distances, trace.sites
            assert len(trace) == steps * 5

        return count_lines(run)

    n_lines(10)  # the first run classifies the functions
    assert n_lines(1_000) < 5.5 * n_lines(200)


def test_twenty_thousand_ops_with_a_buffer_written_at_each_step() -> None:
    def forward(self: Fn, x: Tensor) -> Tensor:
        out = torch.zeros(5_000)
        for t in range(5_000):
            x = torch.tanh(x * 1.5)
            out[t] = x.sum()
        return out

    trace = cutaway.trace(Fn(forward), torch.ones(2))
    assert len(trace) == 20_001
    assert trace["setitem_5000"].parents[0] == trace["setitem_4999"]


@pytest.mark.parametrize("keep", ["reference", "copy"])
def test_a_trace_is_freed_without_the_garbage_collector(keep: str) -> None:
    model = small()
    gc.collect()
    gc.disable()
    try:
        with cutaway.watch(model, keep=keep) as trace:
            model(torch.ones(1, 4))
        repr(trace)
        gone = weakref.ref(trace)
        value = weakref.ref(trace.tables.nodes.value[0])
        del trace
        assert gone() is None
        assert value() is None
    finally:
        gc.enable()


def test_compiled_models_are_traced_through_their_eager_source() -> None:
    torch._dynamo.reset()
    model = small()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    x = torch.ones(2, 4)
    trace = cutaway.trace(compiled, x)
    assert trace.is_compiled
    assert "traced as eager code" in repr(trace)
    assert [op.site for op in trace] == ["0/linear", "1/relu", "2/linear"]
    assert same(trace.returned, model(x))
    counter = torch._dynamo.testing.CompileCounter()
    again = torch.compile(model, backend=counter)
    again(x)
    assert counter.frame_count == 1, "compiling still works after a trace"


def test_compiled_parts_inside_a_model_are_traced_too() -> None:
    inner = torch.compile(nn.Linear(4, 4), backend="eager")
    trace = cutaway.trace(nn.Sequential(inner, nn.ReLU()), torch.ones(2, 4))
    assert [op.function for op in trace] == ["linear", "relu"]
    assert trace["0"].module.address == "0"
    assert trace.is_compiled


def test_higher_order_operators_are_one_opaque_node() -> None:
    model, args, _ = ZOO["cond"]()
    trace = cutaway.trace(model, *args)
    assert [op.function for op in trace] == ["sum", "gt", "cond", "mul"]
    assert trace["cond_1"].parents == (trace["gt_1"], trace.inputs[0])


def test_meta_tensors_give_a_trace_of_structure_alone() -> None:
    model, args, _ = ZOO["meta"]()
    trace = cutaway.trace(model, *args)
    assert [op.shape for op in trace] == [(3, 8), (3, 8), (3, 2)]
    assert trace["relu_1"].device == "meta"


def test_data_parallel_on_one_device_and_a_wrapped_model() -> None:
    model = small()
    trace = cutaway.trace(nn.DataParallel(model), torch.ones(2, 4))
    assert trace["module.1"].function == "relu"
