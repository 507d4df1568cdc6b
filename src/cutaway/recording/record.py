"""`cutaway.record`: the public verb with all its options."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from cutaway.core.errors import InputTypeError
from cutaway.core.formatting import type_text
from cutaway.recording.flight.settings import FlightLike, parse_flight
from cutaway.recording.models import Models
from cutaway.recording.recorder import Recorder
from cutaway.recording.run_folder import Resume
from cutaway.recording.schedules.parse import EveryLike
from cutaway.recording.settings import MOST_UPDATE_BYTES, Level, Settings, parse_samples, parse_sites
from cutaway.store.format.segments import Limits


def record(
    path: str | os.PathLike[str],
    model: Models,
    *,
    every: EveryLike = 100,
    at: str | Sequence[str] = "**",
    samples: int | Sequence[int] = 0,
    statistics: Level = "core",
    resume: Resume = False,
    parameters: bool = True,
    gradients: bool = True,
    updates: bool = True,
    graph: bool = True,
    spectral_norm: bool = False,
    config: Any = None,
    batch_dim: int | None = None,
    unit_dim: Mapping[str, int | Sequence[int]] | None = None,
    most_update_bytes: int = MOST_UPDATE_BYTES,
    fsync: bool = False,
    limits: Limits | None = None,
    enabled: bool = True,
    flight: FlightLike = None,
) -> Recorder:
    """Record a training run: put one `with` block around the loop and one around each step.

        with cutaway.record("runs/base", model, every=50, samples=8) as run:
            for x, y in loader:
                with run.step():
                    loss = loss_fn(model(x), y)
                    loss.backward()
                    optimizer.step(); optimizer.zero_grad()
                    run.log(loss=loss)

    Args:
        path: the folder to write the run to. `run.path` has the one that is used, which may be numbered; see `resume`.
        model: the model to record, or a dict of several models by name.
        every: which steps to record: every nth of each kind, or a schedule (`docs/schedules.md`).
        at: which tensors to record: sites and patterns. By default all module outputs, parameters and buffers.
        samples: how many samples of each batch to store values for, or a list of sample indices.
        statistics: "core", or "full" for statistics per unit and per sample as well.
        resume: what to do if `path` is taken. False begins a new run at `path-2`, `path-3`, … and prints its path; True
            continues the run at exactly this path; "never" raises `ExistsError`. Nothing is ever overwritten.
        parameters: whether to record parameters and buffers, with their gradients and updates.
        gradients: whether to record gradients.
        updates: whether to record the parameter updates of each optimizer step.
        graph: whether to trace the first step of each structure for the dependency graph.
        spectral_norm: whether to record the largest singular value of matrices.
        config: hyperparameters to store with the run: a dict, a dataclass or a namespace.
        batch_dim: the sample dimension of the model's inputs. By default the graph of the model determines it.
        unit_dim: site or pattern → its unit dimension or dimensions, where the graph of the model does not determine
            them.
        most_update_bytes: updates need a copy of the parameters; if it is larger than this, a note replaces them.
        fsync: whether each step waits for fsync, so that it survives a power loss.
        limits: sizes at which the writer closes a file and begins the next.
        enabled: False turns every call into a no-op.
        flight: True keeps numbers of the last 50 steps and writes them if something goes wrong, "disk" keeps them in
            a file that survives `kill -9`, and a `cutaway.Flight` sets how many and when (`docs/flight.md`).
    """
    _check_path(path, model)
    settings = Settings(
        at=parse_sites(at),
        samples=parse_samples(samples),
        statistics=statistics,
        parameters=parameters,
        gradients=gradients,
        updates=updates,
        graph=graph,
        spectral_norm=spectral_norm,
        config=config,
        batch_dim=batch_dim,
        unit_dim=unit_dim,
        most_update_bytes=most_update_bytes,
        fsync=fsync,
        limits=limits or Limits(),
        enabled=enabled,
        flight=parse_flight(flight),
    )
    if type(every) is int and every == 0:
        # At once: at the end of a long training this would come too late.
        warnings.warn("every=0 records no step: pass 1 for every step, or None to record none.", RuntimeWarning, 2)
    return Recorder(path, model, every, settings, resume=resume)


def _check_path(path: object, model: object) -> None:
    if isinstance(path, nn.Module) and isinstance(model, (str, os.PathLike)):
        raise InputTypeError(
            f"record() got the model first and the path second. Swap them: cutaway.record({os.fspath(model)!r}, model)."
        )
    if not isinstance(path, (str, os.PathLike)):
        raise InputTypeError(f"record() got {type_text(path)} as path: pass the folder of the run, as in 'runs/base'.")
