"""Likely mistakes with a trace, and the message that each of them gets."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway import Trace
from cutaway.errors import InputError, InputTypeError, OpenTraceError, PathLimitError, PositionError, SiteError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.block = nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU())
        self.cell = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("unread", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.block(self.first(x)).mean((2, 3))
        for _ in range(3):
            x = self.cell(x)
        return self.head(x)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return cutaway.trace(Net(), torch.randn(2, 3, 8, 8))


NAMES = {
    "0": r"no site matches '0'.* For a position, use trace\[0\]\. Nearest: 'block\.0'",
    "-1": r"For a position, use trace\[-1\]",
    "conv2d": r"It is a function that ran 2 times: trace\.select\(function='conv2d'\)",
    "Linear": r"It is the class of 3 modules: trace\.select\(module_class='Linear'\)",
    "first.wieght": r"Nearest: 'first\.weight'",
    "blok.0": r"Nearest: 'block\.0'.* trace\.sites lists all",
    "HEAD": r"Nearest: 'head'",
    "head/linera": r"module 'head' executed 'linear'",
    "head:2": r"no site matches 'head:2'.*module 'head' ran once and offers 'head@in\.0', 'head'",
    "cell:4": r"module 'cell' ran 3 times \('cell:1' to 'cell:3'\)",
    "unused": r"module 'unused' \(Linear\) was never called.*trace\.uncalled_modules",
    "unused.weight": r"was never read.*trace\.unused_parameters",
    "head.weight:2": r"'head\.weight' is a parameter or buffer, without passes or sides",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_name_is_refused_with_near_matches_or_with_what_else_it_is(trace: Trace, name: str) -> None:
    with pytest.raises(SiteError, match=NAMES[name]):
        trace[name]


CALLS: dict[str, tuple[type[Exception], str, Callable[[Trace], Any]]] = {
    "a bool": (InputTypeError, r"by site, label, position or slice, got True", lambda t: t[True]),
    "a module": (InputTypeError, r"by site, label, position or slice, got Linear\(", lambda t: t[nn.Linear(1, 1)]),
    "two keys": (InputTypeError, r"got \('head', 0\)", lambda t: t["head", 0]),
    "far out": (PositionError, r"position 1000000 is out of range: this trace has 8 ops, at positions 0 to 7",
                lambda t: t[10**6]),
    "far out of ops": (PositionError, r"position 1000000 .*this selection has 8 ops", lambda t: t.ops[10**6]),
    "out of nothing": (PositionError, r"position 0 .*this selection has 0 ops\.", lambda t: t.select([])[0]),
    "far out of rolled": (PositionError, r"position -9 .*trace\.rolled has 6 ops", lambda t: t.rolled[-9]),
    "a site in ops": (InputTypeError, r"For a site or label, use selection\.where\('head'\)", lambda t: t.ops["head"]),
    "a site in rolled": (InputTypeError, r"use trace\['cell'\]\.rolled", lambda t: t.rolled["cell"]),
    "a module's name": (SiteError, r"no module has the address 'haed'\. Nearest: 'head'", lambda t: t.modules["haed"]),
    "a module's number": (InputTypeError, r"trace\.modules is indexed by address, got 0", lambda t: t.modules[0]),
    "a parameter": (SiteError, r"no parameter .*'head\.wieght'\. Nearest: 'head\.weight'",
                    lambda t: t.parameters["head.wieght"]),
    "an unused parameter": (SiteError, r"parameter 'unused\.bias' exists, but no op of this trace read it",
                            lambda t: t.parameters["unused.bias"]),
    "an unread buffer": (SiteError, r"buffer 'unread' exists", lambda t: t.buffers["unread"]),
    "kind of module": (InputError, r"kind must be 'op', .*got 'Conv'.* use module_class='\*Conv\*'",
                       lambda t: t.select(kind="Conv")),
    "kind of function": (InputError, r"use function='relu'", lambda t: t.select(kind="relu")),
    "misspelled kind": (InputError, r"Did you mean 'parameter'", lambda t: t.ops.where(kind="parameters")),
    "a function object": (InputTypeError, r"function must be a name or a pattern.*function='relu'",
                          lambda t: t.select(function=torch.relu)),
    "a class": (InputTypeError, r"Pass its name: module_class='Conv2d'", lambda t: t.select(module_class=nn.Conv2d)),
    "a position": (InputTypeError, r"3 selects no ops: .*For a position, use trace\[3\]", lambda t: t.select(3)),
    "a misspelled keyword": (TypeError, r"unexpected keyword argument 'functon'", lambda t: t.select(functon="relu")),
    "a number as pattern": (InputTypeError, r"a site, pattern or label is a string, got 3", lambda t: t.match(3)),
    "a trace in a set": (InputTypeError, r"selection & a Trace: only selections combine", lambda t: t.ops & t),
    "a list in a set": (InputTypeError, r"selection \| a list: only selections combine", lambda t: t.ops | [*t.ops]),
    "a negative limit": (InputError, r"most must be a number of paths.*got -1",
                         lambda t: t.paths("first", "head", most=-1)),
    "a limit of no paths": (PathLimitError, r"found 1 path, more than the limit of 0",
                            lambda t: [*t.paths("first", "head", most=0)]),
    "a measure": (InputError, r"unknown measure 'time': give 'seconds'", lambda t: t.critical_path("time")),
    "a trace as array": (InputTypeError, r"a trace is not one array: use np\.asarray\(trace\[site\]\)", np.asarray),
    "ops as array": (InputTypeError, r"a selection is not one array.*\[np\.asarray\(op\) for op in selection\]",
                     lambda t: np.asarray(t.ops)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_mistake_is_refused_with_what_to_do_instead(trace: Trace, name: str) -> None:
    error, match, call = CALLS[name]
    with pytest.raises(error, match=match) as caught:
        call(trace)
    assert len(str(caught.value).splitlines()) == 1


def test_numpy_integers_are_positions(trace: Trace) -> None:
    assert trace[np.int64(2)] == trace.ops[np.uint8(2)] == trace[2]


def test_a_parsed_site_is_looked_up_like_its_text(trace: Trace) -> None:
    site = trace["head"].full_site
    assert trace[site] == trace["head"] == trace.match(site)[0]
    assert site in trace


def test_an_op_is_in_its_trace_and_in_no_other(trace: Trace) -> None:
    assert trace["head"] in trace
    assert cutaway.trace(nn.Linear(2, 2), torch.ones(1, 2))[0] not in trace
    assert "head" in trace
    assert "hed" not in trace


def test_a_long_list_of_what_a_module_executed_is_cut() -> None:
    class Many(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for name in ("relu", "sin", "cos", "tan", "exp", "neg", "abs", "tanh", "sqrt", "square"):
                x = getattr(torch, name)(x)
            return x

    with pytest.raises(SiteError, match=r"'tanh' and 2 more\. Nearest: 'square'") as caught:
        cutaway.trace(Many(), torch.ones(2))["./sqare"]
    assert "'sqrt', 'square'" not in str(caught.value).partition("Nearest")[0]


READS = {
    "ops": lambda t: t.ops,
    "a site": lambda t: t["head"],
    "its length": len,
    "a membership": lambda t: "head" in t,
    "draw": lambda t: t.draw(),
    "save": lambda t: t.save("somewhere"),
    "retained": lambda t: t.retained,
}


@pytest.mark.parametrize("name", READS)
def test_a_trace_is_read_after_its_block(name: str) -> None:
    model = nn.Linear(2, 2)
    with cutaway.watch(model) as trace:
        model(torch.ones(1, 2))
        with pytest.raises(OpenTraceError, match="read it after its `with` block has ended"):
            READS[name](trace)
        assert "still being made" in repr(trace)


COPIES: dict[str, Callable[[Any], Any]] = {"pickle": pickle.dumps, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("part", ["trace", "op", "selection", "module", "passes", "paths"])
def test_pickling_says_how_to_save(trace: Trace, way: str, part: str) -> None:
    parts = {
        "trace": trace, "op": trace["head"], "selection": trace.ops, "module": trace.modules["head"],
        "passes": trace["cell"], "paths": trace.paths("first", "head"),
    }  # fmt: skip
    with pytest.raises(InputTypeError, match=r"trace\.save\(path\).*cutaway\.load\(path\)"):
        COPIES[way](parts[part])


def test_handing_a_trace_to_another_process_says_how_to_save(trace: Trace) -> None:
    process = multiprocessing.get_context("spawn").Process(target=print, args=(trace,))
    with pytest.raises(InputTypeError, match=r"trace\.save\(path\).*in another process"):
        process.start()
