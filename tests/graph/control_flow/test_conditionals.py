"""Tensors that decide: which, what they gave, which way the program went."""

from __future__ import annotations

import functools
import linecache
from itertools import count
from typing import Any

import pytest
import torch
from tests.call_count import count_calls
from tests.graph.programs import Program
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway import Trace

_files = count()


def compiled(body: str, *, source: bool = True) -> Any:
    """A function `run(self, x)` from the lines of its body, in a notebook cell or without any source."""
    text = "def run(self, x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    file = f"<ipython-input-{next(_files)}-cell>"
    if source:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"torch": torch, "F": nn.functional}
    exec(compile(text, file, "exec"), space)
    return space["run"]


def traced(body: str, x: Tensor | None = None, *, source: bool = True, **modules: nn.Module) -> Trace:
    run = compiled(body, source=source)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))
            self.count = 0
            for name, module in modules.items():
                setattr(self, name, module)

        forward = run

    return cutaway.trace(Model(), torch.tensor([1.0, 2.0, 3.0]) if x is None else x)


def told(trace: Trace) -> list[tuple[str, bool | None, str | None]]:
    return [(c.kind, c.value, c.arm) for c in trace.conditionals]


# against what really ran


@pytest.mark.parametrize("seed", range(0, 80, 4))
def test_arms_agree_with_the_lines_that_python_runs(seed: int) -> None:
    for program in map(Program, range(seed, seed + 4)):
        run = program.compile(source=True)
        for x in (torch.tensor([-2.0, 0.5]), torch.tensor([3.0, 1.0])):
            with cutaway.watch() as trace:
                run(x, True, lambda *_: 1.0)
            # The first operand of each test is made by `amax`, and no other is.
            first = [c for c in trace.conditionals if any(op.function == "amax" for op in c.branch)]
            really = program.really_taken(run, x)
            assert [c.source.line for c in first] == [line for line, _ in really]
            for conditional, (_, arm) in zip(first, really, strict=True):
                # What a plain `flag` decides in an arm without ops cannot be told, and is not guessed.
                may_miss = any(word in (conditional.test or "") for word in ("flag", "k"))
                assert conditional.arm == arm or (conditional.arm is None and may_miss)
                if conditional.op.function == "bool":
                    assert conditional.value is conditional.op.value


@pytest.mark.parametrize("seed", range(0, 80, 4))
def test_every_op_knows_the_arms_it_ran_in(seed: int) -> None:
    for program in map(Program, range(seed, seed + 4)):
        run, x = program.compile(source=True), torch.tensor([0.5, 1.0])
        with cutaway.watch() as trace:
            run(x, True, lambda *_: 1.0)
        for op in trace.ops:
            assert op.source is not None
            arms = {(c.source.line, arm) for c, arm in op.arms if c.kind in ("if", "elif", "while")}
            assert arms == program.around[op.source.line]
        ran_in = {c: [op for op in trace.ops if c in [around for around, _ in op.arms]] for c in trace.conditionals}
        for conditional, ops in ran_in.items():
            # `a and b` asks two tensors: an op lists the last one for the branch of both.
            same = [other for c, other in ran_in.items() if c.source.line == conditional.source.line]
            assert list(conditional.ops_in_arm) in (same if not ops else [ops])


@pytest.mark.parametrize("seed", range(20))
def test_without_source_the_jumps_are_known_all_the_same(seed: int) -> None:
    program = Program(seed)
    x = torch.tensor([-2.0, 0.5])
    traces = []
    for source in (True, False):
        run = program.compile(source=source)
        with cutaway.watch() as trace:
            run(x, True, lambda *_: 1.0)
        traces.append(trace)
    with_source, without = (list(trace.conditionals) for trace in traces)
    assert [(c.op.label, c.value, c.source.line) for c in with_source] == [
        (c.op.label, c.value, c.source.line) for c in without
    ]
    for conditional in without:
        assert (conditional.kind, conditional.test, conditional.arm_lines) == ("jump", None, None)
        assert conditional.arm == (None if conditional.value is None else str(conditional.value).lower())


# what decides

SEEN = {
    "if": ("if x.sum() > 0:\n    x = x + 1\nreturn x", [("if", True, "then")]),
    "if without truth": ("if x.sum() < 0:\n    x = x + 1\nreturn x", [("if", False, "else")]),
    "elif": (
        "if x.sum() < 0:\n    x = x + 1\nelif x.sum() > 5:\n    x = x + 2\nelse:\n    x = x + 3\nreturn x",
        [("if", False, "elif"), ("elif", True, "then")],
    ),
    "if in else": (
        "if x.sum() < 0:\n    x = x + 1\nelse:\n    if x.sum() < 5:\n        x = x + 2\nreturn x",
        [("if", False, "else"), ("if", False, "else")],
    ),
    "nested": (
        "if x.sum() > 0:\n    if x.mean() > 9:\n        x = x + 1\n    else:\n        x = x + 2\nreturn x",
        [("if", True, "then"), ("if", False, "else")],
    ),
    "a test on several lines": (
        "if (\n    x.sum() > 0\n    and x.mean()\n    > 9\n):\n    x = x + 1\nreturn x",
        [("if", True, "else"), ("if", False, "else")],
    ),
    "walrus": ("if (total := x.sum()) > 0:\n    x = x + total\nreturn x", [("if", True, "then")]),
    "walrus of a number": ("if (n := x.sum().item()) > 9:\n    x = x + n\nreturn x", [("if", False, "else")]),
    "not": ("if not x.sum() > 0:\n    x = x + 1\nreturn x", [("if", True, "else")]),
    "and, cut short": ("if x.sum() < 0 and x.mean() > 0:\n    x = x + 1\nreturn x", [("if", False, "else")]),
    "or, cut short": ("if x.sum() > 0 or x.mean() > 0:\n    x = x + 1\nreturn x", [("if", True, "then")]),
    "or of and": (
        "if x.sum() < 0 or not x.mean() > 9 and x.max() > 2:\n    x = x + 1\nreturn x",
        [("if", False, "then"), ("if", False, "then"), ("if", True, "then")],
    ),
    "chained": ("if 0 < x.sum() < 5:\n    x = x + 1\nreturn x", [("if", True, "else"), ("if", False, "else")]),
    "chained numbers": ("n = x.sum().item()\nif 0 < n < 5:\n    x = x + 1\nreturn x", [("if", False, "else")]),
    "ternary": ("return x + 1 if x.sum() > 9 else x + 2", [("ternary", False, "else")]),
    "two ternaries on a line": (
        "return (x + 1 if x.sum() > 9 else x + 2) + (x + 3 if x.sum() > 0 else x + 4)",
        [("ternary", False, "else"), ("ternary", True, "then")],
    ),
    "nested ternaries": (
        "return x + 1 if x.sum() > 9 else (x + 2 if x.mean() > 9 else x + 3)",
        [("ternary", False, "else"), ("ternary", False, "else")],
    ),
    "ternary in a test": (
        "if (x.sum() > 0 if x.mean() > 9 else x.max() > 9):\n    x = x + 1\nreturn x",
        [("ternary", False, "else"), ("if", False, "else")],
    ),
    "ternary in an arm": (
        "if x.sum() > 0:\n    x = x + 1 if x.mean() > 9 else x + 2\nreturn x",
        [("if", True, "then"), ("ternary", False, "else")],
    ),
    "while": (
        "while x.sum() < 10:\n    x = x + 1\nreturn x",
        [("while", True, "body")] * 2 + [("while", False, "end")],
    ),
    "while with an early exit": (
        "while x.sum() < 99:\n    x = x + 1\n    if x.max() > 4:\n        break\nreturn x",
        [("while", True, "body"), ("if", False, "else"), ("while", True, "body"), ("if", True, "then")],
    ),
    "while by a number": (
        "n = x.sum().item()\nwhile n < 10:\n    x = x + 1\n    n = x.sum().item()\nreturn x",
        [("while", True, "body")] * 2 + [("while", False, "end")],
    ),
    "assert": ("assert x.sum() > 0, 'negative'\nreturn x + 1", [("assert", True, "passed")]),
    "filter": (
        "return torch.stack([v * 2 for v in x if v > 1.5])",
        [("filter", False, "dropped"), ("filter", True, "kept"), ("filter", True, "kept")],
    ),
    "guard of a match": (
        "match x.ndim:\n    case 1 if x.sum() > 9:\n        x = x + 1\n    case 1 if x.sum() > 0:\n"
        "        x = x + 2\nreturn x",
        [("case", False, "next"), ("case", True, "then")],
    ),
    "and outside a test": ("ok = x.sum() > 0 and x.mean() > 9\nreturn x + 1", [("and", True, "right")]),
    "or outside a test": ("y = x.sum() > 0 or x * 3\nreturn x + y", [("or", True, "left")]),
    "bool": ("if bool(x.sum() > 0):\n    x = x + 1\nreturn x", [("if", True, "then")]),
    "bool, tested later": (
        "ok = bool(x.sum() > 0)\ny = x + 1\nif ok:\n    y = y + 1\nreturn y",
        [("if", True, "then")],
    ),
    "item": ("if x.sum().item() > 3:\n    x = x + 1\nreturn x", [("if", True, "then")]),
    "float": ("if float(x.sum()) > 30:\n    x = x + 1\nreturn x", [("if", False, "else")]),
    "int": ("if int(x.sum()) % 2 == 0:\n    x = x + 1\nreturn x", [("if", True, "then")]),
    "tolist": ("if x.tolist()[2] == 3.0:\n    x = x + 1\nreturn x", [("if", True, "then")]),
    "numpy": ("if x.detach().numpy()[0] > 3:\n    x = x + 1\nreturn x", [("if", False, "else")]),
    "equal": ("if torch.equal(x, x * 2):\n    x = x + 1\nreturn x", [("if", False, "else")]),
    "contains": ("if 2.0 in x:\n    x = x + 1\nreturn x", [("if", True, "then")]),
    "all": ("if all(v > 0 for v in x):\n    x = x + 1\nreturn x", [("if", True, "then")]),
    "any": ("if any(v > 9 for v in x):\n    x = x + 1\nreturn x", [("if", False, "else")]),
    "two numbers": (
        "a, b = x.sum().item(), x.mean().item()\nif a < b:\n    x = x + 1\nreturn x",
        [("if", False, "else"), ("if", False, "else")],
    ),
    "one number, two tests": (
        "n = x.sum().item()\nif n > 3:\n    x = x + 1\ny = x * 2 if n > 9 else x * 3\nreturn y",
        [("if", True, "then"), ("ternary", False, "else")],
    ),
    "a number and a flag, by what ran": (
        "n = x.sum().item()\nif n > 3 and self.training:\n    x = x + 1\nelse:\n    x = x + 2\nreturn x",
        [("if", True, "then")],
    ),
    "a number and a flag, nothing ran": (
        "n = x.sum().item()\nif n > 3 and self.count:\n    pass\nreturn x + 1",
        [("if", True, None)],
    ),
    "compared with what is not known": (
        "n = x.sum().item()\nif n > self.count:\n    x = x + 1\nreturn x",
        [("if", None, "then")],
    ),
    "arms that use a parameter only": (
        "if x.sum() > 0:\n    y = self.w\nelse:\n    y = None\nreturn x + y",
        [("if", True, "then")],
    ),
    "an empty arm": ("if x.sum() > 0: pass\nelse: x = x + 1\nreturn x + 2", [("if", True, "then")]),
    "alternating arms": (
        "for i in range(4):\n    if x.sum() > 9:\n        x = x - 2\n    else:\n        x = x + 2\nreturn x",
        [("if", False, "else"), ("if", True, "then")] * 2,
    ),
    "an arm first taken in the second pass": (
        "for i in range(2):\n    if x.sum() > 8:\n        x = x * 3\n    x = x + 1\nreturn x",
        [("if", False, "else"), ("if", True, "then")],
    ),
    "no input in it": ("if torch.ones(1) > 0:\n    x = x + 1\nreturn x", [("if", True, "then")]),
    "inside a try": (
        "try:\n    raise ValueError\nexcept ValueError:\n    if x.sum() > 0:\n        x = x + 1\nreturn x",
        [("if", True, "then")],
    ),
}


@pytest.mark.parametrize("case", SEEN)
def test_what_a_tensor_decides_is_seen(case: str) -> None:
    body, expected = SEEN[case]
    assert told(traced(body)) == expected


QUIET = [
    "print(x, end='')\nreturn x + 1",
    "return x[int(x[0].item())] + 1",
    "for i in range(int(x.sum())):\n    if i == 3: x = x + 1\nreturn x",
    "return x * float(x.sum())",
    "if (x * float(x.sum())).shape[0] > 2: x = x + 1\nreturn x",
    "if x.shape[0] > 2 and x.dim() == 1 and len(x) and x.numel(): x = x + 1\nreturn x",
    "if self.training: x = x + 1\nreturn x",
    "if x is None or self.w is x: return x\nreturn x + 1",
    "assert isinstance(x, torch.Tensor) and x.is_floating_point()\nreturn x + 1",
    "return torch.where(x > 1, x, -x)",
    "ok = bool(x.sum() > 0)\nreturn x + 1",
    "n = x.sum().item()\nif self.count:\n    if n > 3: x = x + 1\nreturn x",
    "self.count = x.sum().item()\nreturn x + 1",
    "n = x.sum().item()\nif n is not None: x = x + 1\nreturn x",
    "a = x.detach().numpy()\nif a.shape[0] > 2: x = x + 1\nreturn x",
    "text = f'{x.sum().item():.1f}'\nreturn x + len(text)",
]


@pytest.mark.parametrize("body", QUIET)
def test_what_decides_nothing_is_no_conditional(body: str) -> None:
    trace = traced(body)
    assert told(trace) == []
    assert not any(op.is_condition or op.is_branch or op.arms for op in trace.ops)


def test_a_factor_is_not_marked_beside_the_tensor_that_decides() -> None:
    trace = traced("n = float(x.mean())\nif (x * n).sum() > 3:\n    x = x + 1\nreturn x")
    assert [c.op.function for c in trace.conditionals] == ["bool"]


# where


def test_a_conditional_tells_test_line_and_arm() -> None:
    trace = traced("y = x * 2\nif (y.sum() > 0\n        and y.mean() > 0):\n    y = y + 1\n    y = y + 2\nreturn y")
    for conditional in trace.conditionals:
        assert conditional.test == "y.sum() > 0 and y.mean() > 0"
        assert (conditional.source.line, conditional.source.function) == (3, "run")
        assert conditional.arm_lines == (5, 6)
        assert [op.label for op in conditional.ops_in_arm] == ["add_1_8", "add_2_9"]
        assert conditional.is_users
    test = "if y.sum() > 0 and y.mean() > 0: bool_1_4 gave True, bool_2_7 gave True, took 'then'"
    assert repr(trace.conditionals).startswith(test)


@pytest.mark.parametrize(
    "first", ["if a and b:", "if not a or b:", "if a:\n  if b:", "while a and b and x.sum() < 50:"]
)
def test_a_branch_is_listed_once_however_many_tensors_its_test_asks(first: str) -> None:
    inside = "\n    x = x * 2"
    trace = traced(f"a, b = x.sum() > 0, x.mean() > 0\n{first}{inside}\nreturn x", x=torch.ones(3))
    products = [op for op in trace.ops if op.function == "mul"]
    n_tests = 2 if first.startswith("if a:") else 1
    for op in products:
        assert len(op.arms) == n_tests
        assert len({test for test, _ in op.arms}) == n_tests
    # A loop asks once more than it turns.
    n_lines = len(products) + 1 if "while" in first else n_tests
    assert len(repr(trace.conditionals).splitlines()) == n_lines
    assert len(trace.conditionals) == sum(op.function == "bool" for op in trace.ops)


def test_modules_called_in_an_arm_ran_in_it() -> None:
    trace = traced(
        "if x.sum() > 0:\n    x = self.inner(x)\nreturn F.softmax(x, 0) if x.mean() < 9 else x",
        inner=nn.Sequential(nn.Linear(3, 3), nn.ReLU()),
    )
    assert [(c.kind, [op.function for op in c.ops_in_arm]) for c in trace.conditionals] == [
        ("if", ["linear", "relu"]),
        ("ternary", ["softmax"]),
    ]


def test_a_test_inside_a_module_called_in_an_arm_knows_both() -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if x.mean() > 0 else x * 3

    trace = traced("if x.sum() > 0:\n    x = self.inner(x)\nreturn x", inner=Inner())
    outer, inner = trace.conditionals
    assert trace["mul_1"].arms == ((outer, "then"), (inner, "then"))


def test_functions_of_one_name_are_told_apart() -> None:
    def choose(x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x + 2

    first = choose

    def choose(x: Tensor) -> Tensor:  # type: ignore[no-redef]
        return x * 2 if x.sum() > 9 else x * 3

    with cutaway.watch() as trace:
        choose(first(torch.ones(2)))
    assert [(c.test, c.arm) for c in trace.conditionals] == [("x.sum() > 0", "then"), ("x.sum() > 9", "else")]
    assert [[op.function for op in c.ops_in_arm] for c in trace.conditionals] == [["add"], ["mul"]]


def test_a_decorated_forward_keeps_its_arms() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any) -> Any:
            return function(*args)

        return wrapped

    class Model(nn.Module):
        @logged
        @torch.no_grad()
        def forward(self, x: Tensor) -> Tensor:
            if x.sum() > 0:
                return x + 1
            return x - 1

    conditional = cutaway.trace(Model(), torch.ones(2)).conditionals[0]
    assert (conditional.arm, conditional.source.text) == ("then", "if x.sum() > 0:")


def test_code_that_is_not_the_source_gets_no_arms() -> None:
    run = compiled("if x.sum() > 0:\n    x = x + 1\nreturn x")
    other = "def run(self, x):\n    y = x\n    if y:\n        pass\n"
    linecache.cache[run.__code__.co_filename] = (1, None, other.splitlines(keepends=True), "")
    with cutaway.watch() as trace:
        run(None, torch.ones(2))
    assert told(trace) == [("jump", True, "true")]


def test_tests_inside_torch_are_not_the_users() -> None:
    with cutaway.watch() as trace:
        torch.distributions.Normal(torch.zeros(2), torch.ones(2), validate_args=True)
        torch.ones(2)
    assert len(trace.conditionals) > 0
    assert not any(conditional.is_users for conditional in trace.conditionals)


# the branch


def test_the_branch_begins_where_it_leaves_the_path_to_the_output() -> None:
    trace = traced("x = x * 2\nif torch.mean(x - 5) > 3:\n    return x + 1\nreturn x + 2")
    (conditional,) = trace.conditionals
    assert [op.function for op in conditional.branch] == ["sub", "mean", "gt", "bool"]
    assert conditional.start.function == "sub"
    assert [op.function for op in trace.ops if op.is_branch] == ["sub", "mean", "gt", "bool"]
    assert [op.function for op in trace.ops if op.is_condition] == ["bool"]
    assert conditional.op.conditionals == (conditional,)


def test_what_also_leads_to_the_output_is_not_of_the_branch() -> None:
    trace = traced("total = x.sum()\nif total > 3:\n    return x / total\nreturn x")
    assert [op.function for op in trace.conditionals[0].branch] == ["gt", "bool"]


def test_branches_hold_exactly_what_leads_to_decisions_and_to_no_output() -> None:
    networkx = pytest.importorskip("networkx")
    for seed in range(20):
        run = Program(seed).compile(source=True)
        trace = cutaway.trace(_Wrapped(run), torch.tensor([0.5, 1.0]))
        graph = trace.to_networkx()
        above = {op.label for op in trace.outputs}
        above |= {name for label in above if label in graph for name in networkx.ancestors(graph, label)}
        for conditional in trace.conditionals:
            label = conditional.op.label
            expected = {label, *(name for name in networkx.ancestors(graph, label) if name not in above)}
            assert {op.label for op in conditional.branch} == expected - {op.label for op in trace.inputs}


class _Wrapped(nn.Module):
    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: Tensor) -> Any:
        return self.run(x, True, lambda *_: 1.0)


# what it costs, and when it works


def test_a_test_that_may_not_have_been_reached_counts_if_something_ran_in_an_arm() -> None:
    trace = traced("n = x.sum().item()\nif self.training:\n    if n > 3:\n        x = x + 1\nreturn x")
    assert told(trace) == [("if", None, "then")]


def test_long_chains_of_arithmetic_are_followed_without_choking() -> None:
    trace = traced("n = x.sum().item()\n" + "n = n + 1\n" * 2000 + "if n > 3:\n    x = x + 1\nreturn x")
    assert told(trace) == [("if", None, "then")]


@pytest.mark.parametrize("name", ZOO)
def test_every_model_of_the_zoo_can_be_asked(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    trace = cutaway.trace(model, *args, **kwargs)
    for conditional in trace.conditionals:
        assert conditional.op.is_condition
        assert conditional.branch[-1] == conditional.op
    for op in trace.ops:
        assert op.is_branch == any(op in conditional.branch for conditional in trace.conditionals)


def test_metadata_alone_is_enough() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1 if x.sum().item() > 0 else x

    model = Model()
    with cutaway.watch(model, save=None) as trace:
        model(torch.ones(2))
    assert told(trace) == [("ternary", True, "then")]


def test_a_trace_that_ended_in_a_failed_assert_tells_so() -> None:
    run = compiled("assert x.sum() > 99, str(x.sum() * 2)\nreturn x")
    x = torch.ones(2)
    with pytest.raises(AssertionError), cutaway.watch() as trace:
        run(None, x)
    assert told(trace) == [("assert", False, "failed")]
    assert [op.function for op in trace.conditionals[0].ops_in_arm] == ["sum", "mul"]


def test_long_loops_cost_little_an_op() -> None:
    body = "n = 0.0\nwhile n < {n}:\n    x = x + 1\n    n = x.max().item()\n    if x.min() > 1e9: break\nreturn x"
    short, long = (traced(body.replace("{n}", str(n)), torch.zeros(2)) for n in (500, 4000))
    n_calls = count_calls(lambda: short.conditionals)
    assert count_calls(lambda: long.conditionals) < 9 * n_calls, "eight times as long, and no more work for each op"
    assert len(long.conditionals) == 2 * 4000
    assert long[-1].arms == ()
