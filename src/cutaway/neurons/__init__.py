"""Neurons: which units carry a concept, what they fire on, and how sure one can be.

    ranking = cutaway.neurons.rank(acts, labels)          # or method="linear", "gaussian", "iou", …
    with cutaway.edit(model, at=ranking.top(20), to=0):
        ...

Nothing is imported until it is used.
"""

from typing import TYPE_CHECKING, Any

from cutaway.core import late

if TYPE_CHECKING:
    from cutaway.neurons.ablating import ablate as ablate
    from cutaway.neurons.annotating import annotate as annotate
    from cutaway.neurons.annotating import balance as balance
    from cutaway.neurons.annotating import filter as filter
    from cutaway.neurons.attributing import attribute as attribute
    from cutaway.neurons.clustering import clusters as clusters
    from cutaway.neurons.comparing import average_overlap as average_overlap
    from cutaway.neurons.comparing import compare as compare
    from cutaway.neurons.comparing import neuron_vote as neuron_vote
    from cutaway.neurons.comparing import stability as stability
    from cutaway.neurons.comparing import vote as vote
    from cutaway.neurons.controls import control_labels as control_labels
    from cutaway.neurons.corpora import read_conll as read_conll
    from cutaway.neurons.corpora import read_conllu as read_conllu
    from cutaway.neurons.corpora import read_dataset as read_dataset
    from cutaway.neurons.corpora import read_lines as read_lines
    from cutaway.neurons.corpora import read_tsv as read_tsv
    from cutaway.neurons.evaluating import evaluate as evaluate
    from cutaway.neurons.evaluating import layers as layers
    from cutaway.neurons.pages import coloured as coloured
    from cutaway.neurons.pages import page as page
    from cutaway.neurons.ranking import rank as rank
    from cutaway.neurons.reporting import report as report
    from cutaway.neurons.spreading import Span as Span
    from cutaway.neurons.spreading import sentence_labels as sentence_labels
    from cutaway.neurons.spreading import span_labels as span_labels
    from cutaway.neurons.spreading import token_labels as token_labels
    from cutaway.neurons.words import histograms as histograms
    from cutaway.neurons.words import top_contexts as top_contexts
    from cutaway.neurons.words import top_words as top_words

_PLACES = {
    "ablate": "ablating",
    "attribute": "attributing",
    **dict.fromkeys(("annotate", "balance", "filter"), "annotating"),
    "clusters": "clustering",
    **dict.fromkeys(("average_overlap", "compare", "neuron_vote", "stability", "vote"), "comparing"),
    "control_labels": "controls",
    **dict.fromkeys(("read_conll", "read_conllu", "read_dataset", "read_lines", "read_tsv"), "corpora"),
    **dict.fromkeys(("evaluate", "layers"), "evaluating"),
    **dict.fromkeys(("coloured", "page"), "pages"),
    "rank": "ranking",
    "report": "reporting",
    **dict.fromkeys(("Span", "sentence_labels", "span_labels", "token_labels"), "spreading"),
    **dict.fromkeys(("histograms", "top_contexts", "top_words"), "words"),
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(late.imported(f"cutaway.neurons.{_PLACES[name]}", f"cutaway.neurons.{name}"), name)
    raise AttributeError(f"module 'cutaway.neurons' has no attribute {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
