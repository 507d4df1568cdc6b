"""Runs inside captum's environment and prints, as JSON, what explaining every written token with it costs.

captum explains one number of one forward: a loop over the prefixes is what its users write. `logits_to_keep`, which
spares the head of all rows but the last, is measured apart: few know it, and captum does not ask for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import captum
import torch
from captum.attr import InputXGradient, IntegratedGradients
from torch import Tensor

from benchmarks.language.gpt2 import gpt2, prompt, tokenizer, written
from benchmarks.measure import one_thread
from benchmarks.peers.explainer import Explained, asked, measured


def main() -> None:
    options = asked(__doc__)
    one_thread()
    model = gpt2()
    ids = written(model, tokenizer()(prompt(), return_tensors="pt")["input_ids"], options.n_new)
    n_prompt = ids.shape[1] - options.n_new

    def explained(attribute: Callable[[Tensor, Tensor], Tensor]) -> list[list[float]]:
        rows = []
        for t in range(n_prompt, ids.shape[1]):
            embedded = model.get_input_embeddings()(ids[:, :t]).detach()
            norms = attribute(embedded, ids[0, t]).norm(dim=-1)[0].detach()
            rows.append((norms / norms.sum()).tolist())
        return rows

    def probability(embedded: Tensor, **kept: int) -> Tensor:
        return torch.softmax(model(inputs_embeds=embedded, **kept).logits[:, -1], -1)

    def times_input(embedded: Tensor, target: Tensor, **kept: int) -> Tensor:
        return InputXGradient(partial(probability, **kept)).attribute(embedded.requires_grad_(), target=target)

    def integrated(embedded: Tensor, target: Tensor, **kept: int) -> Tensor:
        method = IntegratedGradients(partial(probability, **kept), multiply_by_inputs=True)
        return method.attribute(embedded, target=target, n_steps=options.n_steps, internal_batch_size=options.batch)

    works: dict[str, Explained] = {
        "grad_x_input": lambda: explained(times_input),
        "grad_x_input, one row": lambda: explained(partial(times_input, logits_to_keep=1)),
        "integrated_gradients": lambda: explained(integrated),
        "integrated_gradients, one row": lambda: explained(partial(integrated, logits_to_keep=1)),
    }
    print(json.dumps({"version": captum.__version__, "ids": ids[0].tolist(), **measured(works, options)}))


if __name__ == "__main__":
    main()
