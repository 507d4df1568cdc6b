"""Runs inside comgra's environment and prints, as JSON, what recording a step with it costs on the named trainings.

It is handed what Cutaway records, through its own calls: the outputs of all modules, the loss, the parameters (they
come along by themselves) and the gradients. The calls stand in hooks here, where its users write them into their
models. Token ids it cannot take.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any

import torch
from comgra.objects import DecisionMakerForRecordings
from comgra.recorder import ComgraRecorder

from benchmarks.measure import CONTROL, Paired, Run, one_thread, paired, timed
from benchmarks.recording.trainings import TRAININGS, Training, chain


@dataclass(frozen=True, slots=True)
class Mode:
    """What is asked of comgra."""

    recording_type: str = "kpis"
    is_recording: bool = True
    more: dict[str, Any] = field(default_factory=dict)


NO_SVD = {"calculate_svd_and_other_expensive_operations_of_parameters": False}
MODES = {
    "attached": Mode(is_recording=False, more=NO_SVD),
    "statistics": Mode(more=NO_SVD),
    "statistics, SVD": Mode(),
    "values": Mode("neuron", more={**NO_SVD, "max_num_batch_size_to_record": 1}),
}


class Always(DecisionMakerForRecordings):  # type: ignore[misc]
    """Records every step, or none."""

    def __init__(self, is_recording: bool) -> None:
        self._is_recording = is_recording

    def is_record_on_this_step(self, training_step: int, type_of_execution: str) -> bool:
        return self._is_recording

    def mark_recording_on_this_step(self, training_step: int, type_of_execution: str) -> None:
        pass


class Recorded:
    """One mode on one training."""

    def __init__(self, training: Training, mode: Mode, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.n_steps = 0
        self._training = training
        self._mode = mode
        self._recorder = ComgraRecorder(str(folder), "group", "trial", Always(mode.is_recording), **mode.more)
        self._recorder.track_module("model", training.model)

    def run(self) -> float:
        """Seconds of one step; switching the hooks on and off does not count."""
        names = {module: f"out {name or 'model'}" for name, module in self._training.model.named_modules()}

        def left(module: Any, _: Any, result: Any) -> None:
            tensor = result[0] if isinstance(result, tuple) else result
            self._recorder.register_tensor(names[module], tensor, recording_type=self._mode.recording_type)

        handles = [module.register_forward_hook(left) for module in names]
        try:
            started = thread_time()
            self._step()
            return thread_time() - started
        finally:
            for handle in handles:
                handle.remove()
            self.n_steps += 1

    def _step(self) -> None:
        recorder, training = self._recorder, self._training
        is_each = self._mode.recording_type == "neuron"
        recorder.start_batch(self.n_steps, len(training.inputs), record_all_tensors_per_batch_index_by_default=is_each)
        recorder.start_iteration()
        inputs = training.inputs.detach()  # it switches gradients on for what it is handed
        if inputs.is_floating_point():
            recorder.register_tensor("input", inputs, is_input=True, recording_type=self._mode.recording_type)
        loss = training.loss(inputs)
        recorder.register_tensor("loss", loss, is_loss=True)
        loss.backward()  # type: ignore[no-untyped-call]
        recorder.record_current_gradients("gradients")
        training.update()
        recorder.finish_iteration()
        recorder.finish_batch()

    def bytes_a_step(self) -> float:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) / max(self.n_steps, 1)


def costs(training: Training, n_pairs: int, folder: Path) -> dict[str, Any]:
    """Each mode beside a plain step; that with values, which takes seconds, a few times only."""
    recorded = {name: Recorded(training, mode, folder / name) for name, mode in MODES.items()}
    plain = timed(training.step)
    others = {name: one.run for name, one in recorded.items() if name != "values"}
    found = paired(plain, others, n_pairs=n_pairs, settle=training.is_small)
    del found[CONTROL]
    found["values"] = _few(plain, recorded["values"].run, max(1, n_pairs // 20))
    return {
        name: {"plain_ms": one.plain * 1e3, "ms": one.value * 1e3, "ratio": one.ratio, "low": one.low, "high": one.high}
        | {"bytes": recorded[name].bytes_a_step()}
        for name, one in found.items()
    }


def linear(sizes: list[int], folder: Path) -> dict[str, float]:
    """Milliseconds that one step of a chain takes more, by the number of its modules."""
    found = {}
    for n_modules in sizes:
        training = chain(n_modules)
        recorded = Recorded(training, MODES["statistics"], folder / f"chain {n_modules}")
        found[str(n_modules)] = _few(timed(training.step), recorded.run, 1).added * 1e3
    return found


def _few(plain: Run, run: Run, n_pairs: int) -> Paired:
    return paired(plain, {"it": run}, n_pairs=n_pairs, n_warm=0, settle=False)["it"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="n pairs each: mlp=60")
    parser.add_argument("--chain", nargs="*", type=int, default=[])
    options = parser.parse_args()
    one_thread()
    answer: dict[str, Any] = {"torch": torch.__version__, "cases": {}, "chain": {}}
    with TemporaryDirectory(prefix="comgra-bench-") as folder:
        for asked in options.names:
            name, _, n_pairs = asked.partition("=")
            answer["cases"][name] = costs(TRAININGS[name](), int(n_pairs or 20), Path(folder, name))
        answer["chain"] = linear(options.chain, Path(folder))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
