"""Neurons: which units carry a concept, what they fire on, and how sure one can be.

    ranking = cutaway.neurons.rank(acts, labels)          # or method="linear", "gaussian", "iou", …
    with cutaway.edit(model, at=ranking.top(20), to=0):
        ...

Nothing is imported until it is used.

    causal/       Causal tests in the live model: ablation and attribution
    evaluation/   Tests how well chosen units predict the labels: cross-validation, controls, permutation tests
    exploration/  What units respond to: words, contexts, clusters, pages and the report
    labels/       Labels for the rows of activations: read from corpora, made by rules, aligned to tokens
    probes/       Probes: estimators in the manner of scikit-learn that predict labels from units
    ranking/      Ranking methods, one file each, and the table that names them (`rank`)
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
