"""Runs inside inseq's environment and prints, as JSON, what explaining every written token with it costs.

It is handed the continuation, so that it generates nothing. Its paths start at the token for the unknown, whose
embedding is zero here.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import inseq
import numpy as np

from benchmarks.language.gpt2 import gpt2, prompt, tokenizer, written
from benchmarks.measure import one_thread
from benchmarks.peers.explainer import Explained, asked, measured


def main() -> None:
    options = asked(__doc__)
    one_thread()
    model, words = gpt2(), tokenizer()
    ids = written(model, words(prompt(), return_tensors="pt")["input_ids"], options.n_new)
    n_prompt = ids.shape[1] - options.n_new
    asks = {"input_texts": prompt(), "generated_texts": words.decode(ids[0]), "show_progress": False}

    def explaining(method: str, **how: Any) -> Explained:
        wrapped = inseq.load_model(model, method, tokenizer=words)

        def work() -> list[list[float]]:
            found = wrapped.attribute(**asks, attributed_fn="probability", **how).aggregate()[0]
            scores = np.asarray(found.target_attributions)  # (position, generated token)
            return [scores[: n_prompt + t, t].tolist() for t in range(options.n_new)]

        return work

    works = {
        "grad_x_input": explaining("input_x_gradient"),
        "integrated_gradients": explaining(
            "integrated_gradients", n_steps=options.n_steps, internal_batch_size=options.batch
        ),
    }
    print(json.dumps({"version": version("inseq"), "ids": ids[0].tolist(), **measured(works, options)}))


if __name__ == "__main__":
    main()
