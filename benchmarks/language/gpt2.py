"""A language model of GPT-2-small's size with seeded weights, its tokenizer and prompt: alike under any transformers.

Nothing is fetched: the weights are drawn here, parameter by parameter, because releases of transformers draw
differently. Every word is one token, so that a peer that decodes and tokenizes again finds the same ids.
"""

from __future__ import annotations

from typing import Any

import torch

N_VOCABULARY = 50257
N_PROMPT = 32
N_NEW = 20
BLANK = 0
"""The one special token. Its embedding is zero, so that peers which start a path at it start at zero."""


def gpt2(n_layers: int = 12, n_vocabulary: int = N_VOCABULARY) -> Any:
    """GPT-2 small, or a shallower one."""
    from transformers import GPT2Config, GPT2LMHeadModel

    special = {"bos_token_id": BLANK, "eos_token_id": BLANK, "pad_token_id": BLANK}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=n_vocabulary, n_layer=n_layers, **special)).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.ndim == 1:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
            else:
                parameter.normal_(0.0, 0.05, generator=draw)
        model.get_input_embeddings().weight[BLANK] = 0
    return model


def tokenizer(n_vocabulary: int = N_VOCABULARY) -> Any:
    """Words w1, w2, …, split at spaces."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    blank = "<blank>"
    words = {blank: BLANK, **{f"w{i}": i for i in range(1, n_vocabulary)}}
    made = Tokenizer(WordLevel(words, unk_token=blank))
    made.pre_tokenizer = WhitespaceSplit()
    names = dict.fromkeys(("unk_token", "bos_token", "eos_token", "pad_token"), blank)
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def prompt(n: int = N_PROMPT, n_vocabulary: int = N_VOCABULARY) -> str:
    draw = torch.Generator().manual_seed(1)
    return " ".join(f"w{i}" for i in torch.randint(1, n_vocabulary, (n,), generator=draw).tolist())


def written(model: Any, ids: torch.Tensor, n_new: int = N_NEW) -> torch.Tensor:
    """The ids with the greedy continuation, of a model without options of its own."""
    with torch.no_grad():
        for _ in range(n_new):
            ids = torch.cat([ids, model(ids).logits[:, -1].argmax(-1, keepdim=True)], -1)
    return ids
