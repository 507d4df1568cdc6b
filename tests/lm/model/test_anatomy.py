"""Every part of every architecture is found by what it does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.lm.tiny_lms import CLASSIFIERS, ENCODER_DECODER, HEADS, LAYERS, MASKED, TINY, UNITS, D, tiny, tokenizer
from tests.lm.unchanged_model import unchanged
from torch import nn

import cutaway
from cutaway.core.errors import InputError
from cutaway.lm.model.anatomy import anatomy
from cutaway.lm.model.forward_run import PromptRun, prompt_run
from cutaway.lm.model.unit_values import unit_values

IDS = [5, 6, 7, 100, 200, 300, 90, 6]
POST_NORM = {"bart", "bert", "roberta", "albert", "bert_classifier", "bert_tagger"}
DOWN = {"gpt2": "c_proj", "gpt_neox": "dense_4h_to_h", "phi": "fc2", "opt": "fc2", "bart": "fc2", "t5": "wo"}
NORMS = [
    *(("gpt2", "transformer.ln_f"), ("gpt_neox", "gpt_neox.final_layer_norm"), ("llama", "model.norm")),
    *(
        ("opt_projected", "model.decoder.final_layer_norm"),
        ("mamba", "backbone.norm_f"),
        ("bert", None),
        ("bart", None),
    ),
]


def read(name: str, model: Any = None) -> PromptRun:
    inputs = {"input_ids": torch.tensor([IDS])}
    if name in ENCODER_DECODER:
        inputs["decoder_input_ids"] = torch.tensor([[0, 9, 10, 11, 12]])
    kind: Any = "encoder-decoder" if name in ENCODER_DECODER else "masked" if name in MASKED else "causal"
    kind = "classifier" if name in CLASSIFIERS else kind
    rows = [0] if name in ("bert_classifier", "llama_classifier") else [1, 3]
    return prompt_run(tiny(name) if model is None else model, kind, inputs, rows, [1] * len(rows))


@pytest.mark.parametrize("name", TINY)
def test_blocks_come_in_order_and_carry_the_stream(name: str) -> None:
    found = read(name).anatomy
    assert len(found.stacks) == (2 if name in ENCODER_DECODER else 1)
    for stack in found.stacks:
        assert [block.index for block in stack.blocks] == list(range(LAYERS))
        assert stack.d == D
        assert stack.is_residual is (name not in POST_NORM)
    if name == "albert":
        assert [block.pass_ for block in found.blocks] == [1, 2, 3]
        assert len({block.address for block in found.blocks}) == 1
    else:
        assert len({block.address for block in found.blocks}) == LAYERS


@pytest.mark.parametrize("name", TINY)
def test_the_stream_is_what_the_model_calls_its_hidden_states(name: str) -> None:
    """All but the last: that one is given behind the final norm."""
    one = read(name)
    with torch.no_grad():
        output = one.call(output_hidden_states=True)
    pairs = {"decoder": getattr(output, "decoder_hidden_states", None) or getattr(output, "hidden_states", None)}
    if name in ENCODER_DECODER:
        pairs["encoder"] = output.encoder_hidden_states
    for role, states in pairs.items():
        hidden = one.hidden(role)
        assert len(states) == len(hidden) == LAYERS + 1
        begin = 1 if name == "mamba" else 0  # which gives none before its first block
        for own, theirs in zip(hidden[begin : begin + LAYERS], states[:-1], strict=True):
            torch.testing.assert_close(own, theirs[0])


@pytest.mark.parametrize("name", sorted(set(TINY) - POST_NORM))
def test_a_residual_stream_is_the_sum_of_what_was_added_to_it(name: str) -> None:
    one = read(name)
    for stack in one.anatomy.stacks:
        parts = [part.site for block in stack.blocks for part in block.contributions]
        values = one.values([*parts, *stack.stream])
        total = values[stack.stream[0]] + sum(values[part] for part in parts)
        torch.testing.assert_close(total, values[stack.stream[-1]], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", TINY)
def test_mid_points_are_the_stream_after_each_addition(name: str) -> None:
    one = read(name)
    for stack in one.anatomy.stacks:
        for block in stack.blocks:
            sites = [each.site for each in block.added] + [each.cheaper_site for each in block.added]
            parts = [part.site for part in block.contributions]
            values = one.values(list(dict.fromkeys([block.input, block.output, *sites, *parts])))
            for each in block.added:
                torch.testing.assert_close(values[each.site], values[each.cheaper_site], rtol=0, atol=0)
                if block.is_residual:
                    total = values[block.input] + sum(values[part] for part in parts[: each.n])
                    torch.testing.assert_close(total, values[each.site], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(set(TINY) - {"mamba"}))
def test_each_block_has_attention_and_a_feed_forward(name: str) -> None:
    found = read(name).anatomy
    for stack in found.stacks:
        for block in stack.blocks:
            is_double = name in ENCODER_DECODER and stack.role == "decoder"
            heads = [part.heads for part in block.of("attention")]
            assert [each.is_cross for each in heads if each] == ([False, True] if is_double else [False])
            assert all(each and (each.n_heads, each.head_dim) == (HEADS, D // HEADS) for each in heads)
            (mlp,) = block.of("mlp")
            assert mlp.units is not None
            assert mlp.units.width == (4 * D if name == "bloom" else UNITS)
            assert block.of("other") == ()
            if name in DOWN:
                assert mlp.units.site.split("@")[0].endswith(DOWN[name])
                assert f"{stack.blocks[0].address.split('.')[0]}." in mlp.units.site


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3", "t5", "bert", "albert"])
def test_what_enters_the_projections_gives_what_they_return(name: str) -> None:
    """The units times the weights of the down-projection are the feed-forward's output, and likewise the heads."""
    one = read(name)
    modules = dict(one.model.named_modules())
    block = one.anatomy.blocks[1]
    heads, units = block.of("attention")[0].heads, block.of("mlp")[0].units
    assert heads is not None and heads.mixed is not None and heads.out is not None  # noqa: PT018
    assert units is not None and units.down is not None  # noqa: PT018
    at = f":{block.pass_}" if name == "albert" else ""
    for taken, address, width in ((heads.mixed, heads.out, D), (units.site, units.down, UNITS)):
        values = one.values([taken, address + at])
        assert values[taken].shape[-1] == width
        with torch.no_grad():
            torch.testing.assert_close(modules[address](values[taken][None])[0], values[address + at])


def test_mamba_says_what_it_does_not_have() -> None:
    found = read("mamba").anatomy
    assert [part.kind for block in found.blocks for part in block.contributions] == ["other"] * LAYERS
    with pytest.raises(InputError, match="MambaForCausalLM has no attention: no softmax over positions"):
        found.heads()
    with pytest.raises(InputError, match=r"has no feed-forward neurons.* Give a site"):
        found.units()


@pytest.mark.parametrize(("name", "norm"), NORMS)
def test_the_final_norm_is_found_where_there_is_one(name: str, norm: str | None) -> None:
    assert read(name).anatomy.stack.final_norm == norm


@pytest.mark.parametrize("name", TINY)
def test_head_and_embedding_are_the_models_own(name: str) -> None:
    one = read(name)
    found, modules = one.anatomy, dict(one.model.named_modules())
    own = one.model.get_output_embeddings()
    if own is not None:
        assert modules[found.head] is own
    else:
        assert found.head in ("classifier", "score")
    for role in one.roles:
        site = found.part(role).embedding
        with torch.no_grad():
            expected = modules[site](one.ids(role)[None])[0]
        torch.testing.assert_close(one.embeddings()[role], expected)
        assert modules[site].weight.shape == one.model.get_input_embeddings().weight.shape


def test_experts_have_their_units_at_the_tokens_that_went_to_them() -> None:
    one = read("mixtral")
    block = one.anatomy.blocks[0]
    (mlp,) = block.of("mlp")
    assert mlp.units is not None
    assert (mlp.units.n_experts, mlp.units.width) == (4, UNITS)
    laid = unit_values(one)[0].reshape(len(IDS), 4, UNITS)
    assert ((laid != 0).any(-1).sum(-1) == 2).all(), "each token goes to two experts"
    experts = dict(one.model.named_modules())["model.layers.0.mlp.experts"]
    hidden = one.values(["model.layers.0.mlp@in.0"])
    with torch.no_grad():
        for position, chosen in enumerate(_routes(one)):
            for expert in chosen:
                x = hidden["model.layers.0.mlp@in.0"][position]
                gate, up = (experts.gate_up_proj[expert] @ x).chunk(2)
                torch.testing.assert_close(laid[position, expert], nn.functional.silu(gate) * up)


@pytest.mark.parametrize("how", ["eager", "batched_mm"])
def test_experts_that_run_one_by_one_are_still_a_feed_forward(how: str) -> None:
    model = TINY["mixtral"]()
    one = read("mixtral", model)
    assert one.anatomy.blocks[0].of("mlp")[0].units is not None
    model.set_experts_implementation(how)
    assert [part.kind for part in one.anatomy.blocks[0].contributions] == ["attention", "mlp"]
    with pytest.raises(InputError, match=r"its experts run one by one; model\.set_experts_implementation"):
        unit_values(one)


class Experts(nn.Module):
    """Two feed-forwards, each a module, for some of the tokens each, and one with a gate for all of them."""

    def __init__(self, *, is_shared: bool) -> None:
        super().__init__()
        self.mix = nn.MultiheadAttention(16, 2, batch_first=True)
        self.experts = nn.ModuleList(self.network() for _ in range(2))
        self.shared = self.network()
        self.gate = nn.Linear(16, 1)
        self.is_shared = is_shared

    def network(self) -> nn.Module:
        return nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mix(x, x, x, need_weights=False)[0]
        if self.is_shared:
            found: torch.Tensor = x + self.shared(x) * self.gate(x).sigmoid()
            return found
        rows = x.reshape(-1, 16)
        total = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            chosen = (torch.arange(len(rows)) % 2 == number).nonzero()[:, 0]
            total.index_add_(0, chosen, expert(rows[chosen]))
        return x + total.reshape(x.shape)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_gate_is_no_feed_forward_and_one_expert_not_all_of_them(is_shared: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.out = nn.Embedding(320, 16), nn.Linear(16, 320)
            self.body = nn.Sequential(*[Experts(is_shared=is_shared) for _ in range(3)])

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.out(self.body(self.embed(input_ids)))
            return found

    torch.manual_seed(0)
    found = anatomy(Model().eval(), {"input_ids": torch.tensor([IDS])})
    assert [part.kind for part in found.blocks[0].contributions] == ["attention", "mlp"]
    if is_shared:
        assert [(each.down, each.width) for each in found.units()] == [(f"body.{i}.shared.2", 24) for i in range(3)]
    else:
        with pytest.raises(InputError, match="its experts run one by one; transformers 5 can run them together"):
            found.units()


def _routes(one: PromptRun) -> list[list[int]]:
    found: list[Any] = []
    gate = dict(one.model.named_modules())["model.layers.0.mlp.gate"]
    handle = gate.register_forward_hook(lambda module, args, result: found.append(result[2]))
    with torch.no_grad():
        one.call()
    handle.remove()
    chosen: list[list[int]] = found[0].tolist()
    return chosen


@pytest.mark.parametrize("name", ["gpt2", "t5", "bert", "mixtral", "albert"])
def test_units_of_each_layer_come_in_layer_order(name: str) -> None:
    one = read(name)
    for role in one.roles:
        values = unit_values(one, role)
        assert [tuple(each.shape) for each in values] == [(len(one.ids(role)), values[0].shape[1])] * LAYERS
        alone = unit_values(one, role, layers=[2])
        assert torch.equal(alone[0], values[2])
        assert not torch.equal(values[0], values[1])
    with pytest.raises(InputError, match="layers has 3: there are 3 blocks"):
        unit_values(one, layers=[3])


def test_more_than_ten_layers_stay_in_order() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=320, n_embd=24, n_layer=12, n_head=3)).eval()
    found = read("gpt2", model).anatomy
    assert [block.address for block in found.blocks] == [f"transformer.h.{i}" for i in range(12)]


def test_one_block_alone_is_found_by_its_list() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=320, n_embd=24, n_layer=1, n_head=3)).eval()
    (block,) = read("gpt2", model).anatomy.blocks
    assert (block.address, block.is_residual) == ("transformer.h.0", True)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "t5"])
def test_eager_attention_is_found_too(name: str) -> None:
    model = TINY[name]()
    model.set_attn_implementation("eager")
    for stack in read(name, model).anatomy.stacks:
        for block in stack.blocks:
            for part in block.of("attention"):
                assert part.heads is not None
                assert not part.heads.is_fused
                assert part.heads.op.split("/")[1].startswith("softmax")
                assert (part.heads.n_heads, part.heads.head_dim) == (HEADS, D // HEADS)


def test_the_anatomy_is_found_again_when_attention_is_switched() -> None:
    model = TINY["llama"]()
    one = read("llama", model)
    assert one.anatomy is read("llama", model).anatomy
    assert one.anatomy.heads()[0][0].is_fused
    model.set_attn_implementation("eager")
    assert not one.anatomy.heads()[0][0].is_fused


def test_an_edited_model_is_no_measure_of_what_it_is_otherwise() -> None:
    model = TINY["gpt2"]()
    one = read("gpt2", model)
    with cutaway.edit(model, at="transformer.h.1.mlp", to=0):
        inside = one.anatomy
    assert len(inside.blocks) == LAYERS
    assert one.anatomy is not inside
    assert one.anatomy.stack.is_residual


class Written(nn.Module):
    """A model that is nobody's: blocks in a Sequential, a plain tensor as output."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(320, 16)
        self.body = nn.Sequential(*[Step() for _ in range(4)])
        self.out = nn.Linear(16, 320)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(self.body(self.embed(input_ids)))
        return found


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.MultiheadAttention(16, 2, batch_first=True)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mix(x, x, x, need_weights=False)[0]
        found: torch.Tensor = x + self.down(torch.relu(self.up(x)))
        return found


def test_a_model_that_nobody_knows_is_understood() -> None:
    torch.manual_seed(0)
    found = anatomy(Written().eval(), {"input_ids": torch.tensor([IDS])})
    assert [block.address for block in found.blocks] == [f"body.{i}" for i in range(4)]
    assert found.stack.is_residual
    assert [part.kind for part in found.blocks[0].contributions] == ["attention", "mlp"]
    assert found.units()[0].site == "body.0.down@in.0"
    assert found.head == "out"


def test_blocks_can_be_named_and_are_missed_with_a_sentence() -> None:
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.one, self.two = nn.Embedding(320, 16), Step(), Step()
            self.out = nn.Linear(16, 320)

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.out(self.two(self.one(self.embed(input_ids))))
            return found

    model = Flat().eval()
    inputs = {"input_ids": torch.tensor([IDS])}
    with pytest.raises(InputError, match=r"found no blocks in Flat.* Name them once: cutaway\.lm\.anatomy"):
        anatomy(model, inputs)
    found = anatomy(model, inputs, blocks="*o*")  # of "one", "two" and "out" the first two have a stream between them
    assert [block.address for block in found.blocks] == ["one", "two"]
    gen = cutaway.generate(model, tokenizer(), "the cat", text=" sat")  # and every question knows them now
    assert gen.lens().sites[-2:] == ("one", "two")
    assert gen.saliency().scores.shape == (1, len(gen.token_ids))
    assert anatomy(model, inputs) == found
    with pytest.raises(InputError, match="found no blocks"):
        anatomy(model, inputs, blocks="auto")


@pytest.mark.parametrize("name", ["gpt2", "t5", "albert"])
def test_nothing_of_the_model_is_changed(name: str) -> None:
    model = TINY[name]()
    one = read(name, model)
    with unchanged(model):
        one.anatomy.blocks  # noqa: B018
        unit_values(one)


class Adapted(nn.Module):
    """A product with weights and another of low rank beside it, as LoRA has them."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.down, self.up = nn.Linear(base.in_features, 4, bias=False), nn.Linear(4, base.out_features, bias=False)
        nn.init.normal_(self.up.weight, std=0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.base_layer(x) + 0.5 * self.up(self.down(x))
        return found


def test_an_adapter_is_part_of_what_it_adapts() -> None:
    model = TINY["llama"]()
    plain = anatomy(model)
    torch.manual_seed(0)
    for layer in model.model.layers:
        layer.self_attn.o_proj, layer.mlp.down_proj = Adapted(layer.self_attn.o_proj), Adapted(layer.mlp.down_proj)
    found = anatomy(model)
    assert found is not plain, "what was known of it is forgotten"
    assert found.table().drop(columns="n_heads").equals(plain.table().drop(columns="n_heads")), "sites are the same"
    gen = cutaway.generate(model, tokenizer(), "the cat sat", max_new_tokens=3)
    assert gen.factors(2).n_units == LAYERS * UNITS
    for by in ("component", "head", "neuron"):
        assert abs(gen.logit_attribution(by).gap).max() < 1e-5
    site = found.units()[1].site
    with cutaway.edit(model, at=site, to=0):
        without = cutaway.generate(model, tokenizer(), "the cat sat", text=gen.target_ids[:1])
    handle = model.model.layers[1].mlp.register_forward_hook(lambda _, __, out: torch.zeros_like(out))
    expected = cutaway.generate(model, tokenizer(), "the cat sat", text=gen.target_ids[:1])
    handle.remove()
    assert without.steps.logits.tolist() == pytest.approx(expected.steps.logits.tolist())


def test_a_model_that_got_more_layers_is_looked_at_again() -> None:
    model = TINY["llama"]()
    gen = cutaway.generate(model, tokenizer(), "the cat", max_new_tokens=2)
    assert len(gen.attention().weights) == LAYERS
    assert len(gen.lens().layers) == LAYERS + 1
    other = TINY["llama"]()
    for layer in other.model.layers:
        layer.self_attn.layer_idx += LAYERS
    model.model.layers.extend(other.model.layers)
    model.config.num_hidden_layers *= 2
    model.config.layer_types = None
    gen = cutaway.generate(model, tokenizer(), "the cat", text=" sat")
    assert len(gen.attention().weights) == 2 * LAYERS
    assert gen.factors(1).n_units == 2 * LAYERS * UNITS
    assert len(gen.lens().layers) == 2 * LAYERS + 1


@pytest.mark.parametrize("name", sorted(TINY))
def test_neurons_and_heads_are_the_units_that_a_trace_counts(name: str) -> None:
    model = tiny(name).eval()
    inputs = read(name).inputs
    with torch.no_grad():
        trace = cutaway.trace(model, **inputs)
    for stack in anatomy(model).stacks:
        for part in (part for block in stack.blocks for part in block.contributions):
            if part.units is not None:
                assert trace[part.units.site].unit_layout.n_units == part.units.width
            if part.heads is not None and part.heads.mixed is not None:
                n_units = trace[part.heads.mixed].unit_layout.n_units
                assert n_units == part.heads.n_heads * part.heads.head_dim
            assert trace[part.site].unit_layout.n_units == D
