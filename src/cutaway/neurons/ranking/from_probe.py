"""Rankings by the weights of a linear probe and by the units of a Gaussian probe."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from cutaway.core.errors import MissingExtraError
from cutaway.core.matrices import Matrix
from cutaway.neurons.ranking.combine import combine_labels, refuse_numbers
from cutaway.results.neurons.ranking import Ranking

if TYPE_CHECKING:
    from cutaway.neurons.labels.labels import EncodedLabels

_TOL = 1e-5


def linear(matrix: Matrix, encoded: EncodedLabels, *, seed: int = 0, **options: Any) -> Ranking:
    """Rank by the weights of a linear probe; options as of `cutaway.probes.Linear`.

    With several labels per row, one probe is fitted per label, and the overall score is the mean. The tolerance is
    tighter than predictions need, so that the order of the weights is that of the minimum.
    """
    task = "regression" if encoded.kind == "numbers" else "classification"
    return _rank_by_probe("linear", matrix, encoded, {"seed": seed, "task": task, "tol": _TOL, **options})


def gaussian(matrix: Matrix, encoded: EncodedLabels, *, seed: int = 0, **options: Any) -> Ranking:
    """Rank by the information each unit adds to a Gaussian probe; options as of `cutaway.probes.Gaussian`."""
    refuse_numbers(encoded, "gaussian", "it fits a normal distribution per class.", "'linear' fits numbers.")
    return _rank_by_probe("gaussian", matrix, encoded, {"seed": seed, **options})


def _rank_by_probe(method: str, matrix: Matrix, encoded: EncodedLabels, options: dict[str, Any]) -> Ranking:
    make_probe = estimator(method)
    if encoded.kind == "multilabel":
        return _rank_each_label(make_probe, matrix, encoded, options)
    ranking: Ranking = make_probe(**options).fit(matrix, encoded.codes).ranking_
    about = {"kind": encoded.kind, "n_rows": matrix.n_rows, **ranking.about}
    # Probes are fitted to class codes, because labels of mixed types cannot be sorted.
    per_label = {
        encoded.classes[int(code)]: replace(each, about={**each.about, "label": encoded.classes[int(code)]})
        for code, each in ranking.per_label.items()
    }
    return replace(ranking, per_label=per_label, names=matrix.names, about=about)


def _rank_each_label(make_probe: Any, matrix: Matrix, encoded: EncodedLabels, options: dict[str, Any]) -> Ranking:
    columns = (encoded.codes[:, label].astype(np.int64) for label in range(len(encoded.classes)))
    rankings = [make_probe(**options).fit(matrix, column).ranking_ for column in columns]
    return combine_labels(
        rankings[0].method,
        matrix,
        encoded,
        scores=np.stack([ranking.scores for ranking in rankings]),
        signs=np.stack([ranking.signs for ranking in rankings]),
        dead=rankings[0].dead,
        **options,
    )


def estimator(method: str) -> Any:
    """The class of the probe that a method fits."""
    try:
        module = import_module(f"cutaway.neurons.probes.{method}.probe")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("sklearn", "scipy", "torch"):
            raise
        what = "torch: pip install torch" if error.name == "torch" else "scikit-learn: pip install 'cutaway[neurons]'"
        raise MissingExtraError(f"method={method!r} needs {what}") from error
    return getattr(module, method.capitalize())
