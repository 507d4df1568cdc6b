"""Which ops are passes of one op: the rules of the paper, the hard cases, and properties over many models."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.call_count import count_lines
from tests.zoo import ZOO, Fn
from torch import Tensor, nn

import cutaway
from cutaway import Op, Trace
from cutaway.graph.analysis.recurrence import recurrent_nodes


def traced(function: Callable[..., Any], *args: Any, **modules: Any) -> Trace:
    torch.manual_seed(0)
    return cutaway.trace(Fn(function, **modules), *(args or (torch.linspace(-1, 1, 4),)))


def rolled(trace: Trace) -> dict[str, int]:
    """Short label of each op that ran several times → number of its passes."""
    return {op.label.rpartition("_")[0]: op.n_passes for op in trace.rolled if op.n_passes > 1}


def linear() -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(4, 4)


# the figures of the paper


def figure_4a(self: Any, x: Tensor) -> Tensor:
    x = torch.cos(x)
    x = self.fc(x)
    x = x + 1
    x = torch.sin(x)
    x = torch.cos(x)
    x = self.fc(x)
    return x + 1


def figure_4b(self: Any, x: Tensor) -> Tensor:
    x = torch.cos(x)
    x = torch.relu(x)
    x = x * 2
    x = torch.cos(x)
    x = torch.relu(x)
    x = x * 2
    x = torch.tan(x)
    x = torch.cos(x)
    x = torch.relu(x)
    return x * 2


def test_figure_4a_the_same_parameters_and_what_surrounds_them() -> None:
    trace = traced(figure_4a, fc=linear())
    assert rolled(trace) == {"cos_1": 2, "linear_1": 2, "add_1": 2}
    assert [op.label for op in trace.rolled] == ["cos_1_1", "linear_1_2", "add_1_3", "sin_1_4"]
    cos = trace["cos_1"].rolled
    assert {op.label: passes for op, passes in cos.parents_by_pass.items()} == {"input_1": (1,), "sin_1_4": (2,)}


def test_figure_4b_only_repeats_that_touch() -> None:
    trace = traced(figure_4b)
    assert rolled(trace) == {"cos_1": 2, "relu_1": 2, "mul_1": 2}
    assert [op.n_passes for op in trace.ops][6:] == [1, 1, 1, 1]


# rule 1


def test_one_layer_used_in_parallel_is_one_op_with_two_passes() -> None:
    trace = traced(lambda self, x: self.fc(x).relu() * self.fc(x + 1).relu(), fc=linear())
    assert rolled(trace) == {"linear_1": 2, "relu_1": 2}


def test_one_layer_may_be_used_with_other_shapes_and_far_apart() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.fc(x)
        x = self.other(x.exp().sin()).unsqueeze(0)
        return self.fc(x)

    trace = traced(forward, fc=linear(), other=nn.Linear(4, 4))
    assert [op.shape for op in trace["fc"].passes] == [(4,), (1, 4)]
    assert trace["other"].n_passes == 1


def test_a_module_at_other_depths_is_one_op() -> None:
    shared = linear()
    inner = Fn(lambda self, x: self.deep(x).relu(), deep=shared)

    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.inner(self.top(x))
        for _ in range(2):
            x = self.top(x).tanh()
        return x

    trace = traced(forward, top=shared, inner=inner)
    assert trace["linear_1"].n_passes == 4
    assert [op.position for op in trace["linear_1"].passes] == [0, 1, 3, 5]


def test_tied_weights_in_different_functions_are_different_ops() -> None:
    embed, head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
    head.weight = embed.weight
    trace = traced(lambda self, i: self.head(self.embed(i)), torch.tensor([1, 2]), embed=embed, head=head)
    assert rolled(trace) == {}


def test_parts_of_one_parameter_are_different_ops() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        q = F.linear(x, self.w[:4])
        k = F.linear(x, self.w[4:8])
        return (q * k.exp()) @ F.linear(x, self.w[8:])

    assert rolled(traced(forward, w=nn.Parameter(torch.randn(12, 4)))) == {}


def test_a_layer_whose_weight_was_overwritten_between_is_still_one_op() -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with cutaway.watch(model) as trace:
        for _ in range(3):
            model(torch.ones(2, 4)).relu().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert [trace[label].n_passes for label in ("linear_1", "relu_1", "sum_1")] == [3, 3, 3]


# rule 2


def test_roles_before_and_after_a_layer_stay_apart() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.relu(self.fc(torch.relu(x)))
        return x

    assert rolled(traced(forward, fc=linear())) == {"relu_1": 3, "linear_1": 3, "relu_2": 3}


def test_a_ragged_turn_does_not_merge_two_roles() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for i in range(5):
            if i != 2:
                x = torch.relu(x)
            x = torch.relu(self.fc(x))
        return x

    trace = traced(forward, fc=linear())
    assert rolled(trace) == {"relu_1": 4, "linear_1": 5, "relu_2": 5}
    assert [op.position for op in trace["relu_1"].passes] == [0, 3, 8, 11]


def test_the_same_function_before_a_loop_is_another_op() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        x = torch.tanh(x)
        for _ in range(5):
            x = torch.tanh(self.fc(x))
        return x

    trace = traced(forward, fc=linear())
    assert trace["tanh_1"].n_passes == 1
    assert trace["tanh_2"].n_passes == 5


def test_growth_goes_on_until_the_surroundings_differ() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        a = (self.fc(x).relu() + 1).sin().cos()
        b = (self.fc(x.exp()).relu() + 1).sin().tan()
        return a * b

    assert rolled(traced(forward, fc=linear())) == {"linear_1": 2, "relu_1": 2, "add_1": 2, "sin_1": 2}


def test_growth_crosses_module_borders() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        a = self.act(self.fc(x)) * 2
        b = self.act(self.fc(x.exp())) * 2
        return a + b

    assert rolled(traced(forward, fc=linear(), act=nn.Tanh())) == {"linear_1": 2, "tanh_1": 2, "mul_1": 2}


def test_numbers_that_change_from_step_to_step_do_not_part_a_loop() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for sigma in (1.0, 0.7, 0.3, 0.1):
            noise = self.fc(x)
            x = (x - sigma * noise) / (1 + sigma)
        return x

    assert rolled(traced(forward, fc=linear())) == {"linear_1": 4, "mul_1": 4, "sub_1": 4, "div_1": 4}


def test_alternating_arms_are_ops_of_their_own_and_what_follows_both_is_one() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for i in range(6):
            x = self.fc(x)
            x = torch.relu(x) if i % 2 else torch.tanh(x)
            x = x * 2 + 1
        return x

    trace = traced(forward, fc=linear())
    assert rolled(trace) == {"linear_1": 6, "tanh_1": 3, "mul_1": 6, "add_1": 6, "relu_1": 3}


def test_accumulators_and_diamonds_keep_their_roles() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        total, product = x, x
        for _ in range(4):
            y = self.fc(x)
            left, right = y + 1, y + 1
            x = left * right
            total = total + x
            product = product * x
        return total + product

    trace = traced(forward, fc=linear())
    assert rolled(trace) == {"linear_1": 4, "add_1": 4, "add_2": 4, "mul_1": 4, "add_3": 4, "mul_2": 4}
    assert trace.outputs[0].n_passes == 1


def test_shared_layers_roll_up_and_layers_of_their_own_do_not() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x

    own = traced(forward, layers=nn.ModuleList(nn.Linear(4, 4) for _ in range(4)))
    assert rolled(own) == {}
    shared = linear()
    same = traced(forward, layers=nn.ModuleList([shared] * 4))
    assert rolled(same) == {"linear_1": 4, "relu_1": 4, "add_1": 4}


def test_each_of_several_layers_in_an_inner_loop_keeps_its_own_surroundings() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for _ in range(3):
            for layer in self.layers:
                x = torch.relu(layer(x))
        return x

    trace = traced(forward, layers=nn.ModuleList(nn.Linear(4, 4) for _ in range(4)))
    assert rolled(trace) == {f"{kind}_{i}": 3 for kind in ("linear", "relu") for i in range(1, 5)}


def test_one_layer_that_comes_twice_in_a_stack_lends_its_surroundings_to_no_other() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for layer in (self.a, self.b, self.a):
            x = torch.relu(layer(x))
        return x

    trace = traced(forward, a=linear(), b=nn.Linear(4, 4))
    assert rolled(trace) == {"linear_1": 2, "relu_1": 2}
    assert trace["relu_2"].n_passes == 1


def test_stochastic_depth_groups_what_ran() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for keep in (True, False, True, True, False):
            if keep:
                x = x + self.fc(x)
            x = x.tanh()
        return x

    trace = traced(forward, fc=linear())
    assert rolled(trace) == {"linear_1": 3, "add_1": 3, "tanh_1": 5}


# rule 3


def test_a_loop_without_parameters_is_found_and_a_chain_of_one_function_is_none() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.tanh(x + 1)
        return x.sin().sin().sin()

    assert rolled(traced(forward)) == {"add_1": 3, "tanh_1": 3}


def test_a_loop_of_one_turn_is_no_loop() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for _ in range(1):
            x = torch.tanh(x + 1)
        return x

    assert rolled(traced(forward)) == {}


def test_repeats_with_something_else_between_are_not_one() -> None:
    def block(x: Tensor) -> Tensor:
        return torch.relu(torch.cos(x)) * 2

    trace = traced(lambda self, x: block(torch.exp(block(torch.tan(block(x))))))
    assert len(trace) == 11
    assert rolled(trace) == {}


def test_the_same_lines_for_three_tensors_are_not_a_loop() -> None:
    """The heads of attention: nothing goes from one to the next."""

    def forward(self: Any, x: Tensor) -> Tensor:
        q, k, v = x.split(4, -1)
        k = k.view(2, 3, 2, 2).transpose(1, 2)
        v = v.view(2, 3, 2, 2).transpose(1, 2)
        q = q.view(2, 3, 2, 2).transpose(1, 2)
        return q @ k.mT @ v

    assert rolled(traced(forward, torch.ones(2, 3, 12))) == {}


def test_sequences_of_equal_functions_that_hang_together_otherwise_are_not_a_loop() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        a = x.sin()
        b = a.cos()
        c = a + b
        d = c.sin()
        e = c.cos()  # the first time, of the sine
        return d + e

    assert rolled(traced(forward)) == {}


def test_an_index_that_varies_by_step_is_no_other_op() -> None:
    trace = traced(lambda self, x: torch.stack([x[t].exp() * 2 for t in range(5)]), torch.ones(5, 3))
    assert rolled(trace) == {"getitem_1": 5, "exp_1": 5, "mul_1": 5}


def test_a_dimension_that_varies_between_lines_is_another_op() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        x = x.softmax(0).exp()
        return x.softmax(1).exp()

    assert rolled(traced(forward, torch.ones(3, 3))) == {}


def test_nested_loops_count_all_turns_of_the_inner_one() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for _ in range(4):
            for _ in range(3):
                x = (x * 2).sin()
            x = x.cos()
        return x

    assert rolled(traced(forward)) == {"mul_1": 12, "sin_1": 12, "cos_1": 4}


def test_nested_loops_with_parameters_in_either() -> None:
    def inner(self: Any, x: Tensor) -> Tensor:
        for _ in range(3):
            for _ in range(4):
                x = torch.relu(self.fc(x))
            x = x - x.mean()
        return x

    def outer(self: Any, x: Tensor) -> Tensor:
        for _ in range(4):
            y = self.fc(x)
            for _ in range(3):
                x = x * 2 + y
        return x

    assert rolled(traced(inner, fc=linear())) == {"linear_1": 12, "relu_1": 12, "mean_1": 3, "sub_1": 3}
    assert rolled(traced(outer, fc=linear())) == {"linear_1": 4, "mul_1": 12, "add_1": 12}


def test_interleaved_loops_are_two() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        a = b = x
        for _ in range(3):
            a = torch.tanh(self.f(a))
            b = torch.tanh(self.g(b))
        return a * b

    trace = traced(forward, f=linear(), g=nn.Linear(4, 4))
    assert rolled(trace) == {"linear_1": 3, "tanh_1": 3, "linear_2": 3, "tanh_2": 3}
    assert [op.loop_pass for op in trace.ops] == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 1]


def test_what_hangs_on_no_parameter_belongs_to_the_loop_all_the_same() -> None:
    def forward(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        clock = x
        for _ in range(4):
            x = self.fc(x)
            clock = clock.cos()
        return x, clock

    assert rolled(traced(forward, fc=linear())) == {"linear_1": 4, "cos_1": 4}


# conditions


def test_the_condition_of_a_while_belongs_to_the_loop_its_first_evaluation_included() -> None:
    def plain(self: Any, x: Tensor) -> Tensor:
        while x.norm() > 1:
            x = x * 0.5
        return x

    def layered(self: Any, x: Tensor) -> Tensor:
        x = self.first(x)
        while x.norm() > 0.5:
            x = torch.tanh(self.fc(x)) * 0.5
        return x

    trace = traced(plain, torch.full((4,), 20.0))
    assert rolled(trace) == {"linalg_vector_norm_1": 7, "gt_1": 7, "bool_1": 7, "mul_1": 6}
    trace = traced(layered, torch.full((4,), 5.0), fc=linear(), first=nn.Linear(4, 4))
    n = trace["fc"].n_passes
    assert n > 1
    assert rolled(trace) == {
        "linalg_vector_norm_1": n + 1, "gt_1": n + 1, "bool_1": n + 1, "linear_2": n, "tanh_1": n, "mul_1": n
    }  # fmt: skip
    assert trace["first"].n_passes == 1


def test_an_early_exit_keeps_the_unfinished_turn_in_the_loop() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for _ in range(10):
            x = x + 1
            if x.sum() > 14:
                break
            x = torch.relu(self.fc(x)) + x
        return x

    trace = traced(forward, fc=linear())
    n = trace["linear_1"].n_passes
    assert 1 < n < 10
    assert [trace[label].n_passes for label in ("add_1", "sum_1", "gt_1", "bool_1")] == [n + 1] * 4


def test_conditions_of_an_if_in_a_loop_roll_up_with_different_arms() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for i in range(4):
            x = self.a(x) if x.sum() > i else self.b(x)
        return x

    trace = traced(forward, torch.full((4,), 9.0), a=linear(), b=nn.Linear(4, 4))
    assert [trace[label].n_passes for label in ("sum_1", "gt_1", "bool_1")] == [4, 4, 4]


# recurrent networks


def lstm_loop(self: Any, x: Tensor) -> Tensor:
    h = c = torch.zeros(2, 5)
    outputs = []
    for t in range(x.shape[0]):
        h, c = self.cell(x[t], (h, c))
        outputs.append(h)
    return torch.stack(outputs)


def test_a_hundred_steps_of_an_lstm_cell_roll_up_to_a_handful() -> None:
    trace = traced(lstm_loop, torch.randn(100, 2, 4), cell=nn.LSTMCell(4, 5))
    assert len(trace) == 302
    assert len(trace.rolled) <= 8
    assert rolled(trace) == {"getitem_1": 100, "lstm_cell_1": 100, "lstm_cell_2": 100}
    stack = trace.ops[-1]
    assert [parent.loop_pass for parent in stack.parents] == list(range(1, 101))


def test_steps_that_are_dealt_out_of_one_tensor_are_passes() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        h = c = torch.zeros(2, 5)
        for step in x:
            h, c = self.cell(step, (h, c))
        return h

    trace = traced(forward, torch.randn(100, 2, 4), cell=nn.LSTMCell(4, 5))
    assert rolled(trace) == {"unbind_1": 100, "lstm_cell_1": 100, "lstm_cell_2": 100}
    assert torch.equal(trace["./unbind"].values, trace.inputs[0].value)


def test_parts_of_one_tensor_in_different_roles_are_different_ops() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for _ in range(3):
            i, f = self.fc(x).chunk(2)
            x = torch.cat([i.sigmoid(), f.tanh()])
        a, b = x.chunk(2)
        return a.sin() + b.cos()

    trace = traced(forward, fc=linear())
    assert [op.n_passes for op in trace.ops if op.function == "chunk"] == [3] * 6 + [1, 1]


def test_a_hand_written_lstm_keeps_its_gates_apart() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        h = c = torch.zeros(2, 5)
        for t in range(x.shape[0]):
            i, f, g, o = (self.of_x(x[t]) + self.of_h(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h

    trace = traced(forward, torch.randn(6, 2, 4), of_x=nn.Linear(4, 20), of_h=nn.Linear(5, 20))
    assert len(trace.rolled) == 1 + (len(trace) - 1) // 6
    assert {op.n_passes for op in trace.rolled} == {1, 6}
    for op in trace.ops[1:]:
        assert [other.position for other in op.passes] == list(range((op.position - 1) % 17 + 1, 1 + 6 * 17, 17))


def test_writing_out_turn_by_turn_is_the_same_loop() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        out = torch.zeros(4, 3)
        for t in range(4):
            out[t] = x[t] * 2 + 1
        return out

    trace = traced(forward, torch.ones(4, 3))
    assert {op.function for op in trace.rolled if op.n_passes == 4} >= {"getitem", "mul", "add"}
    assert len(trace.rolled) <= 7


# language models


def test_generated_tokens_are_passes_though_the_cache_grows() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=8, vocab_size=20, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    n = 8
    with cutaway.watch(model) as trace:
        model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=n, min_new_tokens=n, do_sample=False, pad_token_id=0)
    for block in range(2):
        for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            assert trace[f"transformer.h.{block}.{part}"].n_passes == n
    assert trace["lm_head"].n_passes == n
    inside = [op for op in trace.rolled if op.module is not None]
    assert sum(op.n_passes >= n - 1 for op in inside) > 0.85 * len(inside)
    shapes = {op.shape for op in trace.match("transformer.h.0.attn/cat")}
    assert len(shapes) > 1  # the cache
    assert len(trace.rolled) < 0.2 * len(trace)


def test_a_transformer_with_weights_of_its_own_in_each_block_has_no_passes() -> None:
    transformers = pytest.importorskip("transformers")
    size = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}
    ids = torch.tensor([[1, 2, 3]])
    bert = transformers.BertModel(transformers.BertConfig(num_hidden_layers=12, **size)).eval()
    assert rolled(cutaway.trace(bert, ids)) == {}
    albert = transformers.AlbertModel(transformers.AlbertConfig(num_hidden_layers=4, embedding_size=4, **size)).eval()
    trace = cutaway.trace(albert, ids)
    inside = [op for op in trace.ops if op.module is not None and "albert_layers" in op.module.address]
    assert inside
    assert {op.n_passes for op in inside} == {4}


# properties


def check_partition(trace: Trace) -> None:
    """Groups part the ops, each of one function and output, in order, and none of one."""
    groups = recurrent_nodes(trace.tables, trace.op_nodes)
    nodes = [node for group in groups for node in group]
    assert len(nodes) == len(set(nodes))
    assert set(nodes) <= set(trace.op_nodes)
    for group in groups:
        ops = [Op(trace, node) for node in group]
        assert len(ops) > 1
        assert list(group) == sorted(group)
        assert len({(op.function, op.output_path) for op in ops}) == 1
        assert [op.loop_pass for op in ops] == list(range(1, len(ops) + 1))
        assert all(op.passes == tuple(ops) for op in ops)
        assert len({op.parameters for op in ops if op.function not in ("getitem", "select")}) <= 1
    assert sum(op.n_passes for op in trace.rolled) == len(trace)


@pytest.mark.parametrize("name", ZOO)
def test_in_every_model_the_passes_part_the_ops(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    check_partition(cutaway.trace(model, *args, **kwargs))


@pytest.mark.parametrize("name", ["mlp", "cnn", "residual_stack", "lstm", "multiple_outputs", "tied_weights"])
def test_models_without_repeats_have_none(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    assert rolled(cutaway.trace(model, *args, **kwargs)) == {}


_FILES = count()


def random_body(rng: random.Random, *, layers: bool) -> list[str]:
    def line() -> str:
        to, a, b, chance = rng.choice("abc"), rng.choice("abc"), rng.choice("abc"), rng.random()
        if layers and chance < 0.3:
            return f"{to} = self.fc{rng.randrange(2)}({a})"
        if chance < 0.6:
            return f"{to} = torch.{rng.choice(['sin', 'cos', 'tanh', 'relu'])}({a})"
        return f"{to} = {a} {rng.choice('+-*')} {b}" if chance < 0.85 else f"{to} = {a} * {rng.choice([2, 3])}"

    return [line() for _ in range(rng.randint(2, 7))]


def run_body(body: list[str], n: int, *, unrolled: bool) -> Trace:
    turns = "\n".join(f"    {line}" for line in body * n)
    loop = f"    for _ in range({n}):\n" + "\n".join(f"        {line}" for line in body)
    source = f"def forward(self, a, b, c):\n{turns if unrolled else loop}\n    return a, b, c\n"
    names: dict[str, Any] = {"torch": torch}
    exec(compile(source, f"<body {next(_FILES)}>", "exec"), names)
    return traced(names["forward"], *(torch.randn(4) for _ in "abc"), fc0=linear(), fc1=nn.Linear(4, 4))


def is_a_loop(body: list[str]) -> bool:
    """Whether turns of this body go on from each other, and it is not one function or a shorter body over and over."""
    first_reads, written = set(), set[str]()
    for line in body:
        to, _, expression = line.partition(" = ")
        first_reads |= {
            v for v in "abc" if f"({v})" in expression or f"{v} " in expression or expression.endswith(f" {v}")
        }
        first_reads -= written
        written.add(to)
    kinds = [line.partition(" = ")[2].replace("a", "v").replace("b", "v").replace("c", "v") for line in body]
    shorter = any(kinds == kinds[p:] + kinds[:p] for p in range(1, len(kinds)))
    return bool(first_reads & written) and not shorter


@pytest.mark.parametrize("unrolled", [False, True], ids=["loop", "written out"])
@pytest.mark.parametrize("layers", [False, True], ids=["plain", "layers"])
@pytest.mark.parametrize("seed", range(40))
def test_n_turns_of_any_body_give_each_of_its_ops_n_passes(seed: int, layers: bool, unrolled: bool) -> None:
    rng = random.Random(1000 * seed + 10 * layers)
    body = random_body(rng, layers=layers)
    while not is_a_loop(body):
        body = random_body(rng, layers=layers)
    n = rng.randint(2, 6)
    trace = run_body(body, n, unrolled=unrolled)
    assert len(trace) == len(body) * n
    check_partition(trace)
    for op in trace.ops:
        turns = range(op.position % len(body), len(trace), len(body))
        passes = [other.position for other in op.passes]
        assert set(turns) <= set(passes), f"{op.label} of {body}"
        # More only by the first rule and what grows from it: one layer used at several places of the body.
        if not any(body.count(line) > 1 or line.partition("(")[0][4:] == other.partition("(")[0][4:]
                   for i, line in enumerate(body) for other in body[:i] if "self" in line):  # fmt: skip
            assert passes == list(turns), f"{op.label} of {body}"


@pytest.mark.parametrize("seed", range(10))
def test_a_loop_counts_the_same_whatever_ran_before_and_after_it(seed: int) -> None:
    rng = random.Random(seed)
    before, after = rng.randint(0, 3), rng.randint(0, 3)

    def forward(self: Any, x: Tensor) -> Tensor:
        for layer in self.before:
            x = torch.sigmoid(layer(x))
        for _ in range(4):
            x = torch.relu(self.fc(x)) + x
        for layer in self.after:
            x = torch.sigmoid(layer(x))
        return x

    stacks = {
        "before": nn.ModuleList(nn.Linear(4, 4) for _ in range(before)),
        "after": nn.ModuleList(nn.Linear(4, 4) for _ in range(after)),
    }
    trace = traced(forward, fc=linear(), **stacks)
    assert rolled(trace) == {f"linear_{before + 1}": 4, "relu_1": 4, "add_1": 4}


# speed


def lines_an_op(trace: Trace) -> float:
    nodes = trace.op_nodes
    return count_lines(lambda: recurrent_nodes(trace.tables, nodes)) / len(trace)


def test_two_thousand_steps_are_a_few_ops() -> None:
    trace = traced(lstm_loop, torch.randn(2_000, 2, 4), cell=nn.LSTMCell(4, 5))
    assert len(trace) == 6_002
    assert len(trace.rolled) == 5


@pytest.mark.parametrize("kind", ["loop", "stack", "chain", "random"])
def test_the_work_is_linear_in_the_ops(kind: str) -> None:
    def forward(self: Any, x: Tensor, n: int) -> Tensor:
        draw, made = random.Random(0), [x]
        functions = (torch.sin, torch.cos, torch.tanh, torch.relu)
        for i in range(n):
            if kind == "random":  # no order at all, all of it in one loop
                for _ in range(3):
                    made.append(draw.choice(functions)(draw.choice(made[-8:])))
                x = draw.choice(made[-8:]) + draw.choice(made[-8:])
                made.append(x)
                continue
            if kind == "loop":
                x = torch.relu(self.fc(x)) + x * 0.5
            elif kind == "stack":
                x = torch.relu(x @ self.weights[i]) + x * 0.5
            else:
                x = x.sin().sin().sin().sin()
        return x

    weights = nn.ParameterList(nn.Parameter(torch.zeros(4, 4)) for _ in range(1_500))
    short, long = (traced(forward, torch.ones(4), n, fc=linear(), weights=weights) for n in (300, 1_500))
    assert lines_an_op(long) < 1.5 * lines_an_op(short)
