"""How unusual each sample of a step is: the largest robust z-score of its values among the samples of the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.core.statistics import PER_SAMPLE
from cutaway.core.units.layout import UnitLayout
from cutaway.core.zscores import LARGEST, MIN_REFERENCES, robust_z
from cutaway.recording.held.sample_choice import SampleChoice
from cutaway.recording.recorded_units import summary_view
from cutaway.recording.statistics.inputs import plain_tensor
from cutaway.recording.statistics.per_unit import has_groups, sample_statistics
from cutaway.recording.tensors import StepTensors
from cutaway.store.format.frames import Plain

SampledTensor = tuple[str, str, Tensor, UnitLayout | None]
"""A site, what is recorded of it, the tensor of the whole batch, and its layout."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """The most unusual number of one sample."""

    site: str
    of: str
    statistic: str
    """One of `PER_SAMPLE`: it is computed over the elements of the sample."""
    z: float
    """Its robust z-score; 99 or -99 if it is farther away, 99 if it is not finite."""

    def plain(self) -> dict[str, Plain]:
        """As plain data, for the record of the step."""
        return {"site": self.site, "of": self.of, "statistic": self.statistic, "z": self.z}


def anomalies(tensors: Iterable[SampledTensor]) -> list[Anomaly]:
    """The most unusual number of each sample.

    Each statistic of `PER_SAMPLE` of each tensor is compared between the samples. Tensors of all devices are read with
    one wait per device.
    """
    rows: list[tuple[str, str, Tensor]] = []
    for site, of, tensor, layout in tensors:
        view, dim, _ = summary_view(tensor, layout, is_full=False)
        values = plain_tensor(view) if dim is not None else None
        if values is not None and dim is not None and values.shape == view.shape and has_groups(values, dim):
            rows.append((site, of, sample_statistics(values, dim)))
    if not rows:
        raise InputError("run.keep(by='anomaly'): no recorded tensor of this step has a known sample dimension.")
    # Some tensors have several rows per sample, such as heads or tokens: the samples are what most have in common.
    n_samples = Counter(statistics.shape[1] for _, _, statistics in rows).most_common(1)[0][0]
    if n_samples <= MIN_REFERENCES:
        raise InputError(
            f"run.keep(by='anomaly') compares the samples of a batch with each other: this one has {n_samples}, and at "
            f"least {MIN_REFERENCES + 1} are needed."
        )
    rows = [row for row in rows if row[2].shape[1] == n_samples]
    numbers = _on_host([each for *_, each in rows]).reshape(-1, n_samples).T
    places = [(site, of, name) for site, of, _ in rows for name in PER_SAMPLE]
    z, _ = robust_z(numbers, numbers, [name for _, _, name in places])
    z = np.where(np.isfinite(numbers), np.nan_to_num(z), LARGEST)
    found = []
    for sample, number in enumerate(np.abs(z).argmax(axis=1).tolist()):
        site, of, name = places[number]
        found.append(Anomaly(site, of, name, float(z[sample, number])))
    return found


def select_unusual(tensors: StepTensors, choice: SampleChoice, fields: Mapping[str, Sequence[Any]]) -> dict[str, Plain]:
    """Choose the most unusual samples of a step whose values were held, and copy these.

    Returns the indices of the samples and what is unusual about each, for the record of the step.

    Args:
        fields: what `run.samples` got in this step, one entry per sample.
    """
    selection, held = tensors.selection, []
    for record in tensors.records:
        if record.value is not None:
            held.append((tensors.site(record.key), record.of, record.value, record.layout))
    try:
        found = anomalies(held)
        indices = replace(choice, by=[abs(each.z) for each in found]).indices(fields)
        selection.samples = indices
        return {"samples": list(indices), "anomalies": [found[index].plain() for index in indices]}
    finally:
        selection.is_postponed = False
        for record in tensors.records:
            if record.value is not None:
                record.value = selection.copy_samples(record.value, record.layout)


def _on_host(statistics: list[Tensor]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    by_device: dict[torch.device, list[int]] = {}
    for number, each in enumerate(statistics):
        by_device.setdefault(each.device, []).append(number)
    fetched = np.empty((len(statistics), *statistics[0].shape), np.float32)
    for numbers in by_device.values():
        fetched[numbers] = torch.stack([statistics[number] for number in numbers]).cpu().numpy()
    return fetched
