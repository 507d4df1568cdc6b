"""`ablate`: metrics of the running model without the top units, compared with random units."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cutaway.capture.interventions.edit import edit
from cutaway.capture.interventions.new_values import Change
from cutaway.capture.interventions.targets import units_by_site
from cutaway.capture.model.rng_state import preserve_rng
from cutaway.capture.model.state import ModelState
from cutaway.capture.observe import Observation, check_single, no_value_error, observe
from cutaway.capture.units.live_units import LiveUnits, UnitDim
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.core.progress import progress
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.core.units.unit_sites import layouts_of
from cutaway.results.neurons.ablation import Ablation
from cutaway.results.neurons.ranking import Ranking
from cutaway.store.activations.activations import Activations

To = Literal["zero", "mean", "resample"]
Metric = Callable[[], Any]
"""Runs the model and returns a number, or a dict of numbers."""
_SIZES = (1, 2, 5, 10, 20, 50, 100)


def ablate(
    model: nn.Module,
    ranking: Ranking | Sequence[str],
    metric: Metric | Mapping[str, Metric],
    *,
    n: int | Sequence[int] | None = None,
    to: To = "zero",
    acts: Activations | None = None,
    n_random: int = 5,
    seed: int = 0,
    unit_dim: UnitDim | None = None,
) -> Ablation:
    """Measure a model without its top units, compared with the same number of random units.

    >>> model = nn.Linear(3, 1, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[5.0, 0.0, -1.0]]))
    >>> x = torch.ones(1, 3)
    >>> ablation = ablate(model, [".@in.0#0", ".@in.0#2"], lambda: model(x).item(), n=[1, 2], n_random=0)
    >>> ablation.baseline.tolist(), ablation.scores.ravel().tolist()
    ([4.0], [-1.0, 0.0])

    Args:
        model: the model to ablate units in.
        ranking: a ranking with names, or sites of units, best first.
        metric: a function that runs the model and returns a number, or a dict of numbers; or several functions by name,
            for example to measure side effects.
        n: how many units to ablate at once, or several such numbers. Default: 1, 2, 5, … up to 100 of a ranking, or all
            sites you pass.
        to: "zero"; "mean", the mean of each unit over `acts`; "resample", values of random rows of `acts`.
        acts: activations of these units from `cutaway.collect`.
        n_random: the number of random draws of the same number of units at the same sites.
        seed: seed of the random units and rows.
        unit_dim: the unit dimension, or several in the order of the flat index, as for `cutaway.edit`.
    """
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"ablate() got {type_text(model)} as model: pass the model, the ranking, the metric.")
    units, method = _units(ranking)
    sizes = _sizes(n, len(units), is_ranking=isinstance(ranking, Ranking))
    if to not in ("zero", "mean", "resample"):
        raise InputError(f"to={to!r}: use 'zero', 'mean' or 'resample'.")
    if to != "zero" and acts is None:
        raise InputError(f"to={to!r} needs activations: pass acts=, the result of cutaway.collect.")
    if n_random < 0:
        raise InputError(f"n_random={n_random}: must be 0 or more.")
    metrics = metric if isinstance(metric, Mapping) else {"": metric}
    measure = _Metrics(model, metrics)
    best = units[: sizes[-1]]
    site_units = _SiteUnits(model, best, _known_layouts(ranking, acts), unit_dim)
    baseline = measure("with all units", site_units.observe_layouts)
    site_units.check_all()
    values = _NewValues(to, acts, seed, site_units.layouts)
    random = _draw_random(best, _others(ranking, best, acts, site_units), n_random, seed) if n_random else []
    scores = np.empty((len(sizes), len(baseline)))
    random_scores = np.empty((len(sizes), n_random, len(baseline)))
    # Draw -1 stands for the top units themselves.
    jobs = [(i, draw) for i in range(len(sizes)) for draw in range(-1, n_random)]
    for i, draw in progress(jobs, len(jobs), "ablations"):
        # Smaller sizes are prefixes of the same draw, as they are of the top units.
        chosen = (best if draw < 0 else random[draw])[: sizes[i]]
        at = site_units.by_site(chosen)
        measured = measure(f"without {sizes[i]:,} units", lambda at=at: edit(model, values.at(at)))  # type: ignore[misc]
        if draw < 0:
            scores[i] = measured
        else:
            random_scores[i, draw] = measured
    return Ablation(
        model=type(model).__name__,
        method=method,
        to=to,
        metrics=tuple(measure.names),
        units=tuple(best),
        n=np.array(sizes, np.int64),
        baseline=baseline,
        scores=scores,
        random=random_scores,
        seed=seed,
    )


def _units(ranking: Any) -> tuple[list[str], str]:
    if isinstance(ranking, Ranking):
        if ranking.names is None:
            raise InputError(
                "the ranking has no unit names, so its units cannot be located in the model: rank the result of "
                "cutaway.collect, or Activations.of({site: array})."
            )
        if not len(ranking):
            raise InputError("the ranking has no units.")
        sites: Any = ranking.top(len(ranking))  # UnitSites, which also has the unit layouts
        return sites, ranking.method
    if isinstance(ranking, str) or not isinstance(ranking, Sequence) or not len(ranking):
        given = repr(ranking) if isinstance(ranking, (str, Sequence)) else f"{type_text(ranking)}"
        raise InputTypeError(
            f"ranking must be a Ranking or a non-empty list of unit sites, such as ['encoder.layer.3#17'], got {given}."
        )
    names = list(dict.fromkeys(map(str, ranking)))
    for name in names:
        if Site.parse(name).unit is None or Site.parse(name).is_pattern:
            raise InputError(f"{name!r} is not a unit: write the site, # and a number, as in 'encoder.layer.3#17'.")
    return names, "given"


def _sizes(n: Any, n_units: int, *, is_ranking: bool) -> list[int]:
    if n is None:
        return [size for size in _SIZES if size <= n_units] if is_ranking else [n_units]
    given = [n] if isinstance(n, (int, np.integer)) else list(n)
    if not given or any(not isinstance(size, (int, np.integer)) or not 1 <= size <= n_units for size in given):
        raise InputError(f"n={n!r}: must be between 1 and {n_units:,}, the number of units to ablate.")
    return sorted({int(size) for size in given})


class _Metrics:
    """Calls the metrics from the same RNG and model state each time, and reads their values."""

    def __init__(self, model: nn.Module, metrics: Mapping[str, Metric]) -> None:
        for name, each in metrics.items():
            if not callable(each):
                what = f"metric {name!r}" if name else "metric"
                raise InputTypeError(
                    f"{what} is {type_text(each)}: it must be a function that runs the model and returns a "
                    "number, such as lambda: loss(model(x)).item()."
                )
        if not metrics:
            raise InputError("got no metric: pass at least one function.")
        self._model: nn.Module = getattr(model, "_orig_mod", model)
        self._metrics = metrics
        self._state = ModelState(self._model)
        self.names: list[str] = []

    def __call__(self, where: str, around: Callable[[], AbstractContextManager[Any]]) -> NDArray[np.float64]:
        """Measure inside the context manager `around`, which is entered once per metric."""
        # In-place writes raise a tensor's version: a training step is noticed without copies of the weights.
        before = self._versions()
        measured: dict[str, float] = {}
        for name, metric in self._metrics.items():
            with self._state.undo_changes(), preserve_rng():
                with around():
                    value = metric()
                measured.update(_read(value, name or getattr(metric, "__name__", "metric"), is_named=bool(name)))
        changed = [name for name, version in self._versions().items() if before.get(name) != version]
        if changed:
            raise InputError(
                f"the metric changed the parameter {changed[0]!r} of the model, so runs are not comparable."
            )
        if not self.names:
            self.names = list(measured)
        if list(measured) != self.names:
            raise InputError(f"the metric returned {list(measured)} {where}, but {self.names} with all units.")
        return np.array(list(measured.values()), np.float64)

    def _versions(self) -> dict[str, tuple[int, int]]:
        return {
            name: (id(tensor), tensor._version)
            for name, tensor in self._model.named_parameters()
            if not tensor.is_inference()
        }


def _read(value: Any, name: str, *, is_named: bool) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _read(each, f"{name}.{key}" if is_named else str(key), is_named=True)
        return
    array = np.asarray(value.detach().cpu().double() if isinstance(value, Tensor) else value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        kind = "None" if value is None else f"{type_text(value)}"
        shape = f" of shape {list(array.shape)}" if array.ndim else ""
        metric = "the metric" if name == "<lambda>" else f"metric {name!r}"
        how = ", such as value.mean().item()" if isinstance(value, Tensor) else ""
        raise InputTypeError(f"{metric} returned {kind}{shape}: return a number{how}, or a dict of numbers.")
    yield ("metric" if name == "<lambda>" else name), float(array.reshape(()))


class _NewValues:
    """Replacement values of ablated units."""

    def __init__(self, to: To, acts: Activations | None, seed: int, layouts: Mapping[str, UnitLayout]) -> None:
        self._to = to
        self._layouts = layouts
        self._acts = acts
        self._seed = seed
        self._means: dict[str, float] = {}
        self._is_by_item = acts is not None and bool((acts.word_index < 0).all())

    def at(self, units: Mapping[str, list[int]]) -> dict[str, Change]:
        """The changes for `edit`, new for each run so that resampling starts from the same seed."""
        generator = np.random.default_rng(self._seed)
        return {site: self._change(site, some, generator) for site, some in units.items()}

    def _change(self, site: str, units: list[int], generator: np.random.Generator) -> Change:
        names = [f"{site}#{unit}" for unit in units]
        rows: NDArray[Any]  # (row, unit)
        if self._to == "zero":
            rows = np.zeros((1, len(units)))
        elif self._to == "mean":
            rows = self._means_of(names)[None]
        else:
            rows = self._columns(names)

        def replace_units(value: Tensor, layout: UnitLayout) -> Tensor:
            out = layout.rows(value).clone()  # (sample, position, unit)
            layout.check_unit(max(units), site)
            if self._to == "resample":
                if self._is_by_item and not layout.samples:
                    raise InputError(
                        f"each row of acts= is a whole sample, but the sample dimension of {site!r} is unknown: "
                        "collect with rows='positions'."
                    )
                size = (out.shape[0], 1 if self._is_by_item else out.shape[1])
                new = rows[generator.integers(len(rows), size=size)]  # (sample, position, unit)
            else:
                new = rows[0]
            out[..., units] = torch.as_tensor(new, dtype=value.dtype, device=value.device)
            return layout.from_rows(out, value.shape)  # type: ignore[no-any-return]

        known = self._layouts.get(site)
        if known is None:
            return Change(replace_units, takes_layout=True)
        return Change(lambda value: replace_units(value, known.for_shape(value.shape)))

    def _means_of(self, names: Sequence[str]) -> NDArray[np.float64]:
        missing = [name for name in names if name not in self._means]
        if missing and self._acts is not None:
            part = self._acts.at(missing)
            total = np.zeros(part.n_units)
            for _, block in part.blocks():
                total += block.sum(axis=0, dtype=np.float64)
            self._means.update(zip(missing, (total / max(len(part), 1)).tolist(), strict=True))
        return np.array([self._means[name] for name in names])

    def _columns(self, names: Sequence[str]) -> NDArray[np.float32]:
        """(row, unit)."""
        if self._acts is None:
            raise InputError("pass acts=, the result of cutaway.collect.")
        return self._acts.at(list(names)).array(np.float32)


class _SiteUnits:
    """Unit layouts of the ablated sites: from activations or a ranking, else observed in the first run.

    Args:
        names: the units to ablate.
        known: known layouts by site.
        unit_dim: the unit dimension, if you pass it.
    """

    def __init__(
        self, model: nn.Module, names: Sequence[str], known: Mapping[str, UnitLayout], unit_dim: UnitDim | None
    ) -> None:
        self._model: nn.Module = getattr(model, "_orig_mod", model)
        self._units = units_by_site(model, names)
        self._unit_dim = unit_dim
        self._missing = [site for site in self._units if unit_dim is not None or site not in known]
        self._seen: dict[str, list[UnitLayout]] = {}
        self.layouts = {site: known[site] for site in self._units if site not in self._missing}
        """Layouts that are the same in all passes of a site."""

    @contextmanager
    def observe_layouts(self) -> Iterator[None]:
        """Context manager: observes missing layouts while a metric runs."""
        missing = [site for site in self._missing if site not in self._seen]
        if not missing:
            yield
            return
        sites = [Site.parse(site) for site in missing]
        units = LiveUnits(self._model, sites, unit_dim=self._unit_dim, needs_samples=True)

        def note(seen: Observation) -> None:
            check_single(seen)
            for site in map(str, seen.requested):
                self._seen.setdefault(site, []).append(units.at(seen.site, seen.tensor, seen.module))

        with observe(self._model, missing, note), units:
            yield

    def check_all(self) -> None:
        """Raise if a site did not run or its units are unknown."""
        for site in self._missing:
            if site not in self._seen:
                raise no_value_error(Site.parse(site))
            first = self._seen[site][0].check(site)
            # Without a sample dimension, a layout may not hold for other batch sizes: each edit infers it again.
            is_firm = bool(first.samples) or self._unit_dim is not None
            if is_firm and all(first.is_like(layout) for layout in self._seen[site]):
                self.layouts[site] = first
        for site, units in self._units.items():
            layout = self.layouts.get(site) or self._seen[site][0]
            for unit in units or ():
                layout.check_unit(unit, site)

    def by_site(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Unit indices by site."""
        units: dict[str, list[int]] = {}
        for name in names:
            site, _, unit = name.rpartition("#")
            units.setdefault(str(Site.parse(site)), []).append(int(unit))
        return units

    def names(self) -> list[str]:
        """Names of all units of these sites."""
        return [
            f"{site}#{unit}"
            for site in self._units
            for unit in range((self.layouts.get(site) or self._seen[site][0]).n_units)
        ]


def _known_layouts(ranking: Any, acts: Activations | None) -> dict[str, UnitLayout]:
    """Layouts by site, from `acts` or from the activations that the ranking was computed on."""
    names = ranking.names if isinstance(ranking, Ranking) else ranking
    if acts is not None and acts.unit_rule == "sizes":
        warnings.warn(
            "cutaway: acts= was collected by an older version, which used other unit dimensions for some sites: "
            "a value of acts= may go to another unit. Collect again to be sure.",
            UserWarning,
            stacklevel=3,
        )
    return {**layouts_of(names), **({} if acts is None else acts.layouts)}


def _others(ranking: Any, best: Sequence[str], acts: Activations | None, site_units: _SiteUnits) -> list[str]:
    """The units to draw random units from."""
    if isinstance(ranking, Ranking):
        dead = set(ranking.dead.tolist())
        living = [ranking.name_of(unit) for unit in ranking.order.tolist() if unit not in dead]
        # Dead units carry no information: drawing them would make random units look harmless.
        return [*dict.fromkeys([*living, *best])]
    if acts is not None:
        return list(acts.at(list(site_units.by_site(best))).names)
    return site_units.names()


def _draw_random(best: Sequence[str], others: Sequence[str], n_random: int, seed: int) -> list[list[str]]:
    """For each draw, as many units as `best`, the i-th at the site of the i-th best unit."""
    by_site: dict[str, list[str]] = {}
    for name in others:
        by_site.setdefault(name.rpartition("#")[0], []).append(name)
    draws = []
    for draw in range(n_random):
        # One stream per draw: the first draws stay the same if n_random grows.
        generator = np.random.default_rng((seed, draw))
        # Sites in a fixed order, so that each takes the same part of the random stream.
        left = {site: iter(generator.permutation(np.array(names))) for site, names in sorted(by_site.items())}
        draws.append([str(next(left[name.rpartition("#")[0]])) for name in best])
    return draws
