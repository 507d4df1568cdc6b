"""Runs inside Ecco's environment and prints, as JSON, what explaining every written token with it costs.

Ecco explains while it generates: what a call with attribution takes more than one without is its cost.
"""

from __future__ import annotations

import json

from ecco import __version__
from ecco.lm import LM

from benchmarks.language.gpt2 import gpt2, prompt, tokenizer, written
from benchmarks.measure import one_thread
from benchmarks.peers.explainer import Explained, asked, measured

N_STEPS = 50
"""The only number of points on a path that it has."""
_CONFIG = {
    "type": "causal",
    "embedding": "transformer.wte.weight",
    "activations": [r"mlp\.c_proj"],
    "tokenizer_config": {"token_prefix": "", "partial_token_prefix": ""},
}


def main() -> None:
    options = asked(__doc__)
    one_thread()
    model, words = gpt2(), tokenizer()
    ids = written(model, words(prompt(), return_tensors="pt")["input_ids"], options.n_new)
    model.config.output_hidden_states = True  # as its from_pretrained sets it
    lm = LM(model, words, "gpt2", _CONFIG, verbose=False)

    def explaining(method: str) -> Explained:
        def work() -> list[list[float]]:
            found = lm.generate(prompt(), generate=options.n_new, do_sample=False, attribution=[method])
            return [row.tolist() for row in found.attribution[method]]

        return work

    def generating() -> None:
        lm.generate(prompt(), generate=options.n_new, do_sample=False)

    works = {"grad_x_input": explaining("grad_x_input")}
    if options.n_steps == N_STEPS:
        works["integrated_gradients"] = explaining("ig")
    found = measured(works, options, without=generating)
    print(json.dumps({"version": __version__, "ids": ids[0].tolist(), **found}))


if __name__ == "__main__":
    main()
