"""The dependency graph, held against networkx for what is linked and against autograd for what carries gradients."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import msgpack
import networkx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import warm_python
from tests.call_count import count_lines
from tests.zoo import ZOO, Fn, Square
from torch import Tensor, nn
from torch.utils._pytree import tree_map

import cutaway
from cutaway import Trace
from cutaway.core.errors import DamagedError, InputError
from cutaway.core.events import TensorMeta
from cutaway.graph.dependencies.graph import Dependencies, Link, Node, RecordedSite, dependencies
from cutaway.graph.tables import CONSTANT, NEEDS_GRAD, OP, CallRow, Nodes, Tables

FUSED = {"lstm_cell_loop"}
"""Two results of one fused op, of which autograd computes one from the other."""
SECOND_ORDER = {"gradient_inside_forward", "checkpointed"}
"""A graph that autograd makes anew: during a backward pass, or for gradients of gradients."""
BLIND = {"custom_autograd_function", "structured_inputs", "disjoint_views", "out_argument", "memory_swapped"}
"""Here somebody has to say what requires a gradient: inputs that do not, or a function with its own backward."""


def rows_of(trace: Trace, share: float) -> dict[str, int]:
    """Site → row, of everything that goes in and out of modules, of parameters, buffers, and of some ops."""
    tables, found = trace.tables, dict[str, int]()
    for call in tables.calls[1:]:
        address = tables.modules[call.module].addresses[0] if call.module >= 0 else None
        for side, tensors in (("in", call.inputs), ("out", call.outputs)) if address else ():
            for path, row in tensors:
                found[f"{address}@{side}" + (f".{path}" if path else "") + f":{call.pass_}"] = row
    found.update({row.addresses[0]: row.node for row in tables.parameters if row.node >= 0})
    draw, written = random.Random(0), tables.nodes.writes
    ops = [op for op in trace.ops if not op.is_identity and not (op.is_inplace and op.node in written)]
    found.update({str(op.full_site): op.node for op in ops if draw.random() < share})
    return found


def pairs(graph: Dependencies, *, carrying: bool = False) -> set[tuple[str, str]]:
    return {(link.parent, link.child) for link in graph.links if link.carries_gradient or not carrying}


def nearest_by_networkx(parents: list[tuple[int, ...]], rows: set[int]) -> set[tuple[int, int]]:
    """Every recorded row is split into one that ends ways and one that begins them."""
    graph = networkx.DiGraph()
    graph.add_nodes_from(rows)
    graph.add_edges_from((("from", p) if p in rows else p, child) for child, above in enumerate(parents) for p in above)
    return {(a[1], row) for row in rows for a in networkx.ancestors(graph, row) if isinstance(a, tuple)}


def nearest_by_autograd(values: dict[int, Tensor]) -> set[tuple[int, int]]:
    """Walks the autograd graph from each tensor back to the next known ones."""
    known = {_place(value): row for row, value in values.items() if value.requires_grad}
    found = set()
    for row, value in values.items():
        stack, seen = list(value.grad_fn.next_functions) if value.grad_fn is not None else [], set()
        while stack:
            function, output = stack.pop()
            if function is None or (function, output) in seen:
                continue
            seen.add((function, output))
            leaf = getattr(function, "variable", None)
            place = (id(leaf), -1) if leaf is not None else (function, output)
            if place in known:
                found.add((known[place], row))
            else:
                stack += function.next_functions
    return found


def _place(tensor: Tensor) -> tuple[Any, int]:
    return (id(tensor), -1) if tensor.grad_fn is None else (tensor.grad_fn, tensor.output_nr)


def named(graph: Dependencies, sites: dict[str, int], links: set[tuple[int, int]]) -> set[tuple[str, str]]:
    owner = {site: node.name for node in graph.nodes for site in node.sites}
    name = {row: owner[site] for site, row in sites.items()}
    return {(name[parent], name[child]) for parent, child in links if name[parent] != name[child]}


@pytest.mark.parametrize("name", ZOO)
def test_every_link_is_a_way_over_unrecorded_ops_and_none_is_missing(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    with cutaway.watch(model, save=None) as trace:
        model(*args, **kwargs)
    for share in (0.0, 0.3):
        sites = rows_of(trace, share)
        graph = dependencies(trace, [RecordedSite(site) for site in sites])
        expected = nearest_by_networkx(trace.tables.nodes.parents, set(sites.values()))
        assert pairs(graph) == named(graph, sites, expected)
        assert len(graph.nodes) == len(set(sites.values()))


@pytest.mark.parametrize("name", sorted(ZOO.keys() - FUSED - SECOND_ORDER))
def test_links_carry_a_gradient_exactly_where_autograd_has_one(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    try:
        given_args, given_kwargs = tree_map(_requiring_grad, (args, kwargs))
        with cutaway.watch(model) as trace:
            model(*given_args, **given_kwargs)
    except RuntimeError:  # it overwrites its input, and a leaf that requires a gradient must not be
        model, args, kwargs = ZOO[name]()
        with cutaway.watch(model) as trace:
            model(*args, **kwargs)
    values = trace.tables.nodes.value
    sites = {site: row for site, row in rows_of(trace, 0.2).items() if _still_has_its_graph(trace, row)}
    known = {site: values[row].requires_grad if name in BLIND else None for site, row in sites.items()}
    graph = dependencies(trace, [RecordedSite(site, requires_grad=known[site]) for site in sites])
    expected = nearest_by_autograd({row: values[row] for row in sites.values()})
    assert pairs(graph, carrying=True) == named(graph, sites, expected)


def _requiring_grad(value: Any) -> Any:
    can = isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())
    return value.detach().requires_grad_() if can else value


def _still_has_its_graph(trace: Trace, row: int) -> bool:
    nodes = trace.tables.nodes
    value = nodes.value[row]
    if not isinstance(value, Tensor) or (nodes.flags[row] & NEEDS_GRAD and not value.requires_grad):
        return False
    return nodes.kind[row] != OP or value._version == nodes.version[row]


class Barriers(nn.Module):
    """Seven ways out of one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.frozen, self.table = nn.Linear(4, 4), nn.Linear(4, 4), nn.Embedding(4, 4)
        self.frozen.requires_grad_(False)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.stem(x)
        with torch.no_grad():
            off = h * 2
        return {
            "plain": h.sin(),
            "detached": h.detach() + 1,
            "data": h.data + 1,
            "off": off.cos(),
            "looked_up": self.table(h.argmax(-1)),
            "chosen": h[:, h.argmax(-1) % 4],
            "frozen": self.frozen(h) * self.scale,
            "compared": torch.where(h > 0, 1.0, 2.0),
            "like": torch.zeros_like(h) + self.table.weight.sum(),
        }


def test_detached_switched_off_and_integer_ways_are_linked_and_marked_as_torch_has_them() -> None:
    model, x = Barriers(), torch.randn(3, 4)
    with cutaway.watch(model, save=None) as trace:
        out = model(x)
        h = model.stem(x)
    outputs = {f".@out.{key}": value for key, value in out.items()}
    leaves = ["stem.weight", "table.weight", "frozen.weight", "scale"]
    graph = dependencies(trace, [RecordedSite(site) for site in ("stem:1", *leaves, *outputs)])
    below = {found.child: found.carries_gradient for found in graph.links if found.parent == "stem:1"}
    assert below == {
        ".@out.plain": True,
        ".@out.detached": False,
        ".@out.data": False,
        ".@out.off": False,
        ".@out.looked_up": False,
        ".@out.chosen": True,
        ".@out.frozen": True,
        ".@out.compared": False,
        ".@out.like": False,
    }
    assert h.requires_grad
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    checked = [found for found in graph.links if found.parent in tensors and found.child in outputs]
    assert len(checked) > 3
    for found in checked:
        assert found.carries_gradient == _has_gradient(outputs[found.child], tensors[found.parent]), found
    assert graph.children("scale") == (".@out.frozen",)


def _has_gradient(child: Tensor, parent: Tensor) -> bool:
    if not child.requires_grad or not parent.requires_grad:
        return False
    return torch.autograd.grad(child.sum(), parent, retain_graph=True, allow_unused=True)[0] is not None


def link(graph: Dependencies, parent: str, child: str) -> Link:
    return next(link for link in graph.links if (link.parent, link.child) == (parent, child))


def traced(function: Callable[..., Any], **modules: Any) -> Trace:
    """The function gets itself, an input, and a way to name tensors."""
    model, x = Fn(lambda self, x: function(self, x, trace.tensor), **modules), torch.randn(3, 4)
    with cutaway.watch(model, save=None) as trace:
        model(x)
    return trace


def test_a_tensor_detached_in_place_carries_nothing_from_then_on() -> None:
    def forward(self: Any, x: Tensor, name: Any) -> Any:
        h = self.a(x)
        name("before", h * 2)
        h.detach_()
        return h * 3

    graph = dependencies(
        traced(forward, a=nn.Linear(4, 4)), [RecordedSite("a"), RecordedSite("$before"), RecordedSite(".")]
    )
    assert link(graph, "a", "$before").carries_gradient
    assert not link(graph, "a", ".").carries_gradient


def test_what_is_written_through_data_is_linked_without_gradient_and_through_a_view_with_one() -> None:
    def forward(self: Any, x: Tensor, name: Any) -> Any:
        h, g = self.a(x), self.b(x)
        u, v = h * 2, h * 2
        u.data[:, 0].copy_(g[:, 0])
        v[:, 0].copy_(g[:, 0])
        name("u", u + 0)
        name("v", v + 0)
        return u + v

    trace = traced(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    graph = dependencies(trace, [RecordedSite(site) for site in ("a", "b", "$u", "$v")])
    marks = {(found.parent, found.child): found.carries_gradient for found in graph.links}
    assert marks == {("a", "$u"): True, ("b", "$u"): False, ("a", "$v"): True, ("b", "$v"): True}


def test_an_autograd_function_carries_where_its_result_is_known_to_require_a_gradient() -> None:
    def forward(self: Any, x: Tensor, name: Any) -> Any:
        squared = Square.apply(self.a(x))  # type: ignore[no-untyped-call]
        name("squared", squared)
        return squared + 1

    trace = traced(forward, a=nn.Linear(4, 4))
    graph = dependencies(trace, [RecordedSite("a"), RecordedSite("$squared", requires_grad=True), RecordedSite(".")])
    assert link(graph, "a", "$squared").carries_gradient
    assert link(graph, "$squared", ".").carries_gradient
    graph = dependencies(trace, [RecordedSite("a", requires_grad=False), RecordedSite("$squared", requires_grad=True)])
    assert not link(graph, "a", "$squared").carries_gradient


def test_thousands_of_unnamed_ops_in_a_row_are_contracted() -> None:
    def forward(self: Any, x: Tensor, name: Any) -> Any:
        for _ in range(3000):
            x = x + 1
        return self.b(x)

    graph = dependencies(traced(forward, b=nn.Linear(4, 4)), [RecordedSite(".@in.0"), RecordedSite("b")])
    assert graph.links == (Link(".@in.0", "b", carries_gradient=True),)


# optimizers


def sgd(parameters: list[Tensor]) -> None:
    torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False).step()


def sgd_together(parameters: list[Tensor]) -> None:
    nn.utils.clip_grad_norm_(parameters, 1.0)
    torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True).step()


def adamw(parameters: list[Tensor]) -> None:
    torch.optim.AdamW(parameters, lr=0.1, foreach=True).step()


def by_hand(parameters: list[Tensor]) -> None:
    for parameter in parameters:
        assert parameter.grad is not None
        parameter.data.add_(parameter.grad, alpha=-0.1)


def as_one_vector(parameters: list[Tensor]) -> None:
    vector = nn.utils.parameters_to_vector(parameters).detach()
    nn.utils.vector_to_parameters(vector - vector.norm() * 0.1, parameters)


@pytest.mark.parametrize("step", [sgd, sgd_together, adamw, by_hand, as_one_vector])
def test_an_optimizer_step_links_nothing_and_a_second_forward_reads_the_same_parameters(step: Any) -> None:
    pair = nn.ModuleDict({"make": nn.Linear(4, 4), "judge": nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))})
    noise, real = torch.randn(3, 4), torch.randn(3, 4)
    with cutaway.watch(pair, save=None) as trace:
        fake = pair["make"](noise)
        loss = pair["judge"](real).mean() - pair["judge"](fake.detach()).mean()
        trace.tensor("judged", loss)
        loss.backward()
        step(list(pair["judge"].parameters()))
        made = pair["judge"](fake).mean()
        trace.tensor("made", made)
        made.backward()
        step(list(pair["make"].parameters()))
    parameters = list(dict(pair.named_parameters()))
    calls = [f"{site}:{pass_}" for site in ("judge.0", "judge.2") for pass_ in (1, 2, 3)]
    graph = dependencies(trace, [RecordedSite(site) for site in ("make", *calls, *parameters, "$judged", "$made")])
    assert networkx.is_directed_acyclic_graph(networkx.DiGraph(pairs(graph)))
    assert {node.name for node in graph.nodes if node.role == "parameter"} == set(parameters)
    expected = {("make.weight", "make"), ("make.bias", "make"), ("make", "judge.0:2"), ("make", "judge.0:3")}
    for pass_, loss_name in ((1, "$judged"), (2, "$judged"), (3, "$made")):
        first, last = f"judge.0:{pass_}", f"judge.2:{pass_}"
        expected |= {("judge.0.weight", first), ("judge.0.bias", first), (first, last), (last, loss_name)}
        expected |= {("judge.2.weight", last), ("judge.2.bias", last)}
    assert pairs(graph) == expected
    assert {pair for pair in expected if not link(graph, *pair).carries_gradient} == {("make", "judge.0:2")}


def test_parameters_that_no_watched_model_owns_are_cut_all_the_same() -> None:
    stranger, model = nn.Linear(4, 4), nn.Linear(4, 4)
    with cutaway.watch(model, save=None) as trace:
        h = model(torch.randn(3, 4))
        stranger(h).sum().backward()
        sgd_together(list(stranger.parameters()))
        trace.tensor("after", stranger(torch.ones(1, 4)))
    assert dependencies(trace, [RecordedSite("."), RecordedSite("$after")]).links == ()


def test_buffers_that_a_forward_writes_make_no_loop() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    with cutaway.watch(model, save=None) as trace:
        model(torch.randn(3, 4))
        model.eval()(torch.randn(3, 4))
    graph = dependencies(trace, [RecordedSite(site) for site in ("0:1", "0:2", "1:1", "1:2", "1.running_mean")])
    assert networkx.is_directed_acyclic_graph(networkx.DiGraph(pairs(graph)))
    assert ("1.running_mean", "1:1") in pairs(graph)
    assert not link(graph, "1.running_mean", "1:2").carries_gradient
    assert not link(graph, "1:1", "1:2").carries_gradient  # through the running mean


# nodes


def small() -> Trace:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout().eval(), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))
    with cutaway.watch(model, save=None) as trace:
        trace.tensor("loss", model(torch.ones(3, 4)).mean())
    return trace


def test_sites_of_one_tensor_are_one_node() -> None:
    recorded = [
        RecordedSite("1"),
        RecordedSite("0"),
        RecordedSite("2"),
        RecordedSite("2.1", names=(".",)),
        RecordedSite("2.0/relu"),
    ]
    graph = dependencies(small(), recorded)
    assert [(node.name, node.sites) for node in graph.nodes] == [
        ("1", ("1", "0")),
        ("2.0/relu", ("2.0/relu",)),
        ("2", ("2", "2.1", ".")),
    ]
    assert pairs(graph) == {("1", "2.0/relu"), ("2.0/relu", "2")}
    assert dependencies(small(), [RecordedSite("2.1", names=(".",))]).nodes[0].group == "2.1"


def test_several_tensors_share_a_node_without_links_to_itself() -> None:
    recorded = [
        RecordedSite("0", node="body", part="first"),
        RecordedSite("2.0", node="body", part="second"),
        RecordedSite("2.1", role="value"),
        RecordedSite("2.0.nothing", node="body"),
    ]
    graph = dependencies(small(), recorded)
    assert graph.nodes[0] == Node("body", ("0", "2.0", "2.0.nothing"), "value", ("first", "second", ""), "0", 0)
    assert graph.links == (Link("body", "2.1", carries_gradient=True),)


def test_a_tensor_in_two_nodes_links_both() -> None:
    recorded = [RecordedSite("0", node="a"), RecordedSite("0", node="b"), RecordedSite("0"), RecordedSite("2")]
    graph = dependencies(small(), recorded)
    assert [node.name for node in graph.nodes] == ["a", "b", "2"]
    assert pairs(graph) == {("a", "2"), ("b", "2")}


def test_what_the_trace_does_not_know_is_a_node_without_links() -> None:
    odd = ["nowhere", "0:7", "2/softmax", "$unheard", "no site at all::", "0.*", "", ".@in.9", "2.1.weight:3"]
    graph = dependencies(small(), [RecordedSite(site) for site in [*odd, "0", "$loss"]])
    assert [node.name for node in graph.nodes] == ["0", "$loss", *sorted(odd)]
    assert pairs(graph) == {("0", "$loss")}


def test_roles_groups_and_order_come_from_the_trace() -> None:
    sites = ["$loss", "2", "2.1.weight", "2.0/relu", ".@in.0", "0"]
    graph = dependencies(small(), [RecordedSite(site, role="loss" if site == "$loss" else "") for site in sites])
    assert [(node.name, node.role, node.group, node.order) for node in graph.nodes] == [
        (".@in.0", "input", ".", 0),
        ("0", "value", "0", 1),
        ("2.0/relu", "value", "2.0", 2),
        ("2.1.weight", "parameter", "2.1", 3),
        ("2", "value", "2", 4),
        ("$loss", "loss", "", 5),
    ]


def test_tied_and_unused_parameters_answer_to_their_names() -> None:
    model = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4), "idle": nn.Linear(4, 4)})
    model["b"].weight = model["a"].weight
    with cutaway.watch(model, save=None) as trace:
        model["b"](model["a"](torch.ones(1, 4)))
    names = [
        RecordedSite("a.weight", names=("b.weight",)),
        RecordedSite("idle.weight"),
        RecordedSite("a"),
        RecordedSite("b"),
    ]
    graph = dependencies(trace, names)
    assert pairs(graph) == {("a.weight", "a"), ("a.weight", "b"), ("a", "b")}
    assert graph.nodes[-1].name == "idle.weight"
    assert graph.nodes[-1].group == "idle"


def test_manual_links_are_added_once_and_carry_no_gradient() -> None:
    recorded = [RecordedSite("0"), RecordedSite("2", names=("head",)), RecordedSite("$loss"), RecordedSite("$memory")]
    graph = dependencies(small(), recorded, manual=[("head", "$memory"), ("0", "2"), ("head", "$memory")])
    assert link(graph, "2", "$memory") == Link("2", "$memory", carries_gradient=False, is_manual=True)
    assert not link(graph, "0", "2").is_manual
    assert len(graph.links) == 3


def test_a_manual_link_that_closes_a_loop_is_refused_with_the_loop() -> None:
    recorded = [RecordedSite("0"), RecordedSite("2"), RecordedSite("$loss"), RecordedSite("$memory")]
    with pytest.raises(InputError, match=r"'\$loss' to '0' would close a loop: 0 → 2 → \$loss → 0\."):
        dependencies(small(), recorded, manual=[("$loss", "0")])
    with pytest.raises(InputError, match=r"would close a loop: \$memory → 0 → 2 → \$memory"):
        dependencies(small(), recorded, manual=[("$memory", "0"), ("2", "$memory")])
    with pytest.raises(InputError, match="would close a loop: 2 → 2"):
        dependencies(small(), recorded, manual=[("2", "2")])
    with pytest.raises(InputError, match=r"'\$los' is not recorded\. Nearest: '\$loss'"):
        dependencies(small(), recorded, manual=[("2", "$los")])


# the hash, and what is on disk

PROGRAM = """
import torch, cutaway
from torch import nn
from cutaway.graph.dependencies.graph import RecordedSite, dependencies

def hash_of(batch, width, *more):
    model = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Sequential(nn.Linear(width, 2)), *more)
    with cutaway.watch(model, save=None) as trace:
        loss = model(torch.randn(batch, 4)).mean()
        trace.tensor("loss", loss)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad)
    sites = {*dict(model.named_modules()), *dict(model.named_parameters()), "$loss", "$nowhere", "$nothing"} - {"", "2"}
    return dependencies(trace, [RecordedSite("2"), *map(RecordedSite, sites)]).hash

print(hash_of(3, 8), hash_of(5, 8), hash_of(3, 16), hash_of(3, 8, nn.Tanh()))
"""


def test_the_hash_is_the_same_in_every_process_and_for_every_batch_and_differs_between_architectures() -> None:
    # This process and another, each with its own salt of hashes.
    with redirect_stdout(StringIO()) as printed:
        exec(PROGRAM, {})
    first = printed.getvalue().split()
    assert first == warm_python.run(["-c", PROGRAM], skips_teardown=True, check=True).stdout.split()
    assert len(first) == 4
    assert len(set(first[:3])) == 1
    assert first[3] != first[0]


def test_the_hash_knows_gradients_names_and_what_is_hidden() -> None:
    a, b = Node("a", ("a",), "value"), Node("b", ("b",), "value", order=1)
    graphs = [
        Dependencies((a, b), (Link("a", "b", carries_gradient=True),)),
        Dependencies((a, b), (Link("a", "b", carries_gradient=False),)),
        Dependencies((a, b), ()),
        Dependencies((a, Node("b", ("b",), "value", order=1, is_hidden=True)), ()),
        Dependencies((a, Node("b", ("b", "\ud800"), "value", order=1)), ()),
    ]
    assert len({graph.hash for graph in graphs}) == len(graphs)
    assert Dependencies((a, b), ()).hash == graphs[2].hash


def test_the_plain_form_survives_msgpack_and_json() -> None:
    recorded = [
        RecordedSite("0", node="body", part="tokens"),
        RecordedSite("2.0", node="body"),
        RecordedSite("2"),
        RecordedSite("$x"),
    ]
    graph = dependencies(small(), recorded, manual=[("2", "$x")])
    for again in (json.loads(json.dumps(graph.plain())), msgpack.unpackb(msgpack.packb(graph.plain()))):
        read = Dependencies.read({**again, "later": 1})
        assert read == graph
        assert read.hash == graph.hash


def spoilt(change: Callable[[Any], Any]) -> Any:
    plain = dependencies(small(), [RecordedSite("0"), RecordedSite("2")]).plain()
    changed = change(plain)
    return plain if changed is None else changed


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: [],
        lambda plain: {"nodes": plain["nodes"]},
        lambda plain: plain["nodes"].append(plain["nodes"][0]),
        lambda plain: plain["nodes"][0].pop("name"),
        lambda plain: plain["nodes"][0].update(sites="0"),
        lambda plain: plain["nodes"][0].update(sites=[1]),
        lambda plain: plain["nodes"][0].update(parts=["a", "b"]),
        lambda plain: plain["nodes"][0].update(order=-1),
        lambda plain: plain["nodes"][0].update(order=True),
        lambda plain: plain["nodes"][0].update(order=1 << 70),
        lambda plain: plain["nodes"][0].update(is_hidden=1),
        lambda plain: plain["links"].append(plain["links"][0]),
        lambda plain: plain["links"][0].update(parent="2"),
        lambda plain: plain["links"][0].update(child="nobody"),
        lambda plain: plain["links"][0].update(carries_gradient=None),
        lambda plain: plain["links"].append(7),
    ],
)
def test_nonsense_is_damaged(change: Callable[[Any], Any]) -> None:
    with pytest.raises(DamagedError):
        Dependencies.read(spoilt(change))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["name", "sites", "role", "parts", "group", "order", "is_hidden", "parent", "child", "carries_gradient"]
ROWS = st.lists(st.dictionaries(st.sampled_from(KEYS), ANYTHING), max_size=3) | ANYTHING


@given(ANYTHING | st.fixed_dictionaries({"nodes": ROWS, "links": ROWS}))
@settings(max_examples=200, deadline=None)
def test_hostile_input_is_read_or_damaged_and_nothing_else(plain: Any) -> None:
    try:
        graph = Dependencies.read(plain)
    except DamagedError:
        return
    assert Dependencies.read(graph.plain()) == graph


# any graph, and its cost


def made_up(parents: list[tuple[int, ...]], chosen: list[int]) -> Trace:
    nodes = Nodes()
    for above in parents:
        event = (None, (), None, None, 0, 0, None, 0, 0, 0, None, True) if above else None
        row = nodes.add(OP if above else CONSTANT, "add" if above else CONSTANT, event, above, 0, "")
        nodes.meta[row] = TensorMeta((2,), "float32", "cpu")
    trace = Trace()
    outside = CallRow(-1, 0, 1, False, 0.0, None, 0)
    trace.fill(Tables(nodes, [outside], [], [], {}, named={str(row): row for row in chosen}), orphans=True)
    return trace


@given(st.integers(1, 60), st.floats(0, 1), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_any_graph_is_contracted_as_networkx_does_it(n_rows: int, share: float, draw: random.Random) -> None:
    parents = [tuple(draw.randrange(row) for _ in range(draw.randint(0, 3)) if row) for row in range(n_rows)]
    chosen = [row for row in range(n_rows) if draw.random() < share]
    graph = dependencies(made_up(parents, chosen), [RecordedSite(f"${row}") for row in chosen])
    expected = {(f"${parent}", f"${child}") for parent, child in nearest_by_networkx(parents, set(chosen))}
    assert pairs(graph) == pairs(graph, carrying=True) == expected


def test_twenty_thousand_ops_and_two_thousand_recorded_tensors_cost_little_an_op() -> None:
    parents: list[tuple[int, ...]] = [()]
    chosen, stream = [0], 0
    for _ in range(1999):  # each new source ends up in one stream, which is never recorded itself
        parents.append(())
        chosen.append(len(parents) - 1)
        last = chosen[-1]
        for _ in range(8):
            parents.append((last, stream))
            last = len(parents) - 1
        parents.append((stream, last))
        stream = len(parents) - 1
    chosen.append(stream)
    trace, recorded = made_up(parents, chosen), [RecordedSite(f"${row}") for row in chosen]
    assert len(parents) > 19_000
    assert count_lines(lambda: dependencies(trace, recorded)) < 60 * len(parents)
    assert len(dependencies(trace, recorded).links) == 2000
