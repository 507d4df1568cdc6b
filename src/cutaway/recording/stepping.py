"""One step that is being recorded, from its first hook to the record that is handed to the writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cutaway.core.arrays import Raw
from cutaway.core.trees import escape
from cutaway.recording.autograd import AutogradGraph
from cutaway.recording.kept import Keeper
from cutaway.recording.observing import Observer, Wanted
from cutaway.recording.ops import TracedStep
from cutaway.recording.settings import Settings
from cutaway.recording.sightings import Place, Sightings, merged
from cutaway.recording.statistics import Summary
from cutaway.recording.structures import Structures
from cutaway.recording.subjects import Subjects
from cutaway.store.frames import Plain
from cutaway.store.records import Row
from cutaway.store.samples import packed_samples
from cutaway.store.writer import Writer


class RecordedStep:
    """Watches one step and writes it down."""

    def __init__(
        self, settings: Settings, subjects: Subjects, wanted: Wanted, guard: Callable[..., None], *, is_traced: bool
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._began = perf_counter()
        summary = Summary(settings.statistics, spectral_norm=settings.spectral_norm)
        self.sightings = Sightings(summary, Keeper(settings.samples, settings.batch_dim))
        self.observer = Observer(subjects, self.sightings, wanted, guard, most_update_bytes=settings.most_update_bytes)
        self._traced: TracedStep | None = None
        ops = [site for site in settings.at if site.op is not None]
        if (is_traced or ops) and not subjects.compiled:
            self._traced = TracedStep(subjects.root, ops, self.sightings, self.observer.follow, guard)
        elif is_traced:
            self.observer.autograd = AutogradGraph()
        self._is_traced = is_traced
        self._samples: dict[Row, Raw] = {}
        self.about: dict[str, Plain] = {}
        self.n_iterations = 0

    def start(self) -> None:
        """Switch the hooks on."""
        self.observer.start()
        if self._traced is not None:
            try:
                self._traced.start()
            except Exception:
                self._traced = None
                raise

    def stop(self, error: BaseException | None) -> None:
        """Read what is left to be read, and switch the hooks off."""
        self._guard(self.observer.read_rest)
        self.observer.stop()
        if self._traced is not None:
            self._guard(self._traced.stop, error)
        self.about["seconds"] = perf_counter() - self._began
        if self.sightings.keeper.batch_size is not None:
            self.about["batch_size"] = self.sightings.keeper.batch_size
        if error is not None:
            self.about["error"] = f"{type(error).__name__}: {error}"[:1000]

    # from the user's code

    def tensor(self, name: str, tensor: Tensor, place: Place, batch_dim: int | None) -> None:
        """Take in a tensor that the user named."""
        pass_ = self.sightings.next_pass(place.base)
        overall = self.sightings.overall(place.base)
        place = replace(place, counted=place.base, pass_=pass_, iteration=self.sightings.iteration, overall=overall)
        sighting = self.sightings.see(tensor, place, batch_dim=batch_dim)
        if sighting is not None:
            self.observer.follow(tensor, sighting)
        if self._traced is not None:
            self._traced.name(name if overall == 1 else f"{name}:{overall}", tensor)

    def samples(self, fields: Mapping[str, Any]) -> None:
        """Take in what the kept samples are."""
        keeper = self.sightings.keeper
        if keeper.is_off:
            return
        chosen = {name: _chosen(values, keeper) for name, values in fields.items() if values is not None}
        self._samples.update(packed_samples(chosen))

    # writing

    def write(self, writer: Writer, structures: Structures, number: int, kind: str, order: dict[Any, int]) -> int:
        """Hand the step to the writer; gives the bytes it takes."""
        rows, matrix, values = self.sightings.rows(), self.sightings.matrix(), self.sightings.values()
        places = [order.setdefault((row.site, row.of, row.iteration), len(order)) for row in rows]
        in_order = sorted(range(len(rows)), key=places.__getitem__)  # gradients come when they come
        rows = [rows[place] for place in in_order]
        matrix = matrix[in_order]
        values = {new: values[old] for new, old in enumerate(in_order) if old in values}
        beside = {**self.sightings.arrays(), **self._samples}
        all_rows, all_values = merged(rows, values, beside)
        statistics = self.sightings.summary.names
        schema = writer.schema(all_rows, statistics)
        if beside:
            padding = matrix.shape[1]
            matrix = _padded(matrix, len(beside), padding)
        if self._traced is not None and self._is_traced and "error" not in self.about:
            self._guard(structures.traced, kind, schema, self.sightings.recorded(), self._traced.trace)
        elif self.observer.autograd is not None:
            graph = self.observer.autograd.dependencies(self.sightings.recorded(), self.observer.held_names())
            structures.known(schema, graph)
        structure = structures.seen(kind, schema)
        if structure:
            self.about["structure"] = structure
        writer.step(number, schema=schema, kind=kind, matrix=matrix, values=all_values, about=self.about)
        return int(matrix.nbytes) + sum(part.nbytes for part in all_values.values())


def _padded(matrix: NDArray[np.float32], n_rows: int, width: int) -> NDArray[np.float32]:
    return np.concatenate([matrix, np.full((n_rows, width), np.nan, matrix.dtype)])


def _chosen(values: Any, keeper: Keeper) -> Any:
    """The entries of a field that belong to kept samples."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.float().numpy() if values.is_floating_point() else values.numpy()
    if isinstance(values, (str, bytes)):
        values = [values]
    wanted = keeper.chosen(len(values))
    if hasattr(values, "dtype"):
        return values[wanted]
    listed: Sequence[Any] = list(values)
    return [listed[number] for number in wanted]


def named_place(name: str, role: str, node: str, part: str) -> Place:
    """Where a tensor is that the user named."""
    return Place(f"${escape(name)}", role=role, node=node, part=part)
