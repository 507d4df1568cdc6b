"""Takes the numbers of a step that the schedule records from its recording, instead of reading them twice."""

from __future__ import annotations

from cutaway.recording.flight.readings import Readings
from cutaway.recording.step import RecordedStep
from cutaway.store.format.records import GRAD, VALUE


def read_recorded(recorded: RecordedStep, readings: Readings) -> None:
    """Add module outputs and gradients of parameters of a recorded step to the readings."""
    if not recorded.is_whole:
        return
    summary = recorded.tensors.summary
    mean, norm, broken = (summary.names.index(name) for name in ("mean", "norm", "nonfinite"))
    matrix = summary.matrix()
    gradients: dict[str, float] = {}
    for record in recorded.tensors.records:
        key, statistics = record.key, matrix[record.number]
        if record.of == GRAD and key.role == "parameter":
            gradients[key.base] = float(statistics[norm])
        elif record.of == VALUE and key.role in ("value", "loss") and not key.base.startswith("$"):
            aliases = [alias.base for alias in record.aliases]
            readings.put_output(key.base, aliases, *(float(statistics[column]) for column in (mean, norm, broken)))
    readings.put_gradients(gradients)
