"""Runs inside torchlens' environment and prints, as JSON, what it costs on the named models.

It patches torch at its first call and leaves the patches in place, so plain runs are timed before that call:
they are the plain that a program without torchlens would see. Its call does more than ours (source context,
recurrence, conditionals, distances); all of that is on by default and stays on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from statistics import median
from typing import Any

import torchlens

from benchmarks.capture import models
from benchmarks.measure import added_peak, one_thread, python_bytes, timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--validate", action="store_true", help="time its validation instead")
    chosen = parser.parse_args()
    one_thread()
    examples = {name: _example(name) for name in chosen.names}
    plain = {name: _plain_ms(example) for name, example in examples.items()}
    found: dict[str, Any] = {}
    for name, example in examples.items():
        try:
            costs = _validated(example) if chosen.validate else _costs(example, chosen.repeats)
            found[name] = {"plain_ms": plain[name], **costs}
        except Exception as error:  # a model that the peer cannot trace is a result, too
            found[name] = {"plain_ms": plain[name], "error": f"{type(error).__name__}: {error}"[:200]}
    memory = _bytes_an_op(_example("lstm")) if chosen.memory else {}
    print(json.dumps({"version": torchlens.__version__, "cases": found, "memory": memory}))


def _example(name: str) -> models.Example:
    return models.one_op() if name == "one-op" else models.chosen([name])[0].build()


def _plain_ms(example: models.Example) -> float:
    example.run()
    return _median_ms(example.run, 9)


def _costs(example: models.Example, repeats: int) -> dict[str, float]:
    return {
        "n_ops": len(_trace(example, "all")),
        "save_all_ms": _median_ms(lambda: _trace(example, "all"), repeats),
        "save_none_ms": _median_ms(lambda: _trace(example, "none"), repeats),
    }


def _validated(example: models.Example) -> dict[str, float]:
    spent: list[float] = []
    added = added_peak(lambda: spent.append(timed(lambda: _validate(example))()))
    return {"validate_ms": spent[0] * 1e3, "validate_bytes": added}


def _validate(example: models.Example) -> Any:
    return torchlens.validate(example.model, list(example.args), dict(example.kwargs), scope="forward")


def _bytes_an_op(example: models.Example) -> dict[str, float]:
    n_ops = len(_trace(example, "none"))
    return {f"{save}_bytes": python_bytes(lambda: _trace(example, save)) / n_ops for save in ("all", "none")}


def _trace(example: models.Example, layers: str) -> Any:
    options = torchlens.options.CaptureOptions(layers_to_save=layers)
    return torchlens.trace(example.model, list(example.args), dict(example.kwargs), capture=options)


def _median_ms(work: Callable[[], object], repeats: int) -> float:
    run = timed(work)
    return median(run() for _ in range(repeats)) * 1e3


if __name__ == "__main__":
    main()
