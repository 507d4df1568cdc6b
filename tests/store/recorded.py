"""A small run with something of everything, written through the writer, and the numbers that went into it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests import ROOT, warm_python

from cutaway.core.arrays import Raw
from cutaway.store.format.records import Row
from cutaway.store.format.segments import Limits
from cutaway.store.runs.samples import packed_samples
from cutaway.store.writing.writer import Options, Writer

STATISTICS = ("mean", "std", "max")
ROWS = (
    Row("encoder.0", role="calculated"),
    Row("encoder.1"),
    Row("encoder.0", of="grad"),
    Row("tokens", role="input"),
    Row("half"),
)
STEPS = tuple(range(0, 100, 5))
SAMPLES = packed_samples({"text": ["a cat", "a dog"], "label": np.array([0, 1]), "image": np.zeros((2, 4, 4))})
OPTIONS = Options(limits=Limits(steps=8))


def kind_of(step: int) -> str:
    return "long" if step % 10 else "short"


def matrix_of(step: int) -> np.ndarray:
    found = np.random.default_rng(step).normal(size=(len(ROWS) + len(SAMPLES), len(STATISTICS))).astype(np.float32)
    found[1, 0] = np.nan if step == 10 else found[1, 0]
    return found


def values_of(step: int) -> dict[int, Raw]:
    generator = np.random.default_rng(1000 + step)
    plain = generator.normal(size=(2, 3)).astype(np.float32)
    plain[0, 0] = (np.nan, np.inf, -0.0)[step // 5 % 3]
    samples = {len(ROWS) + number: raw for number, raw in enumerate(SAMPLES.values())}
    return {
        0: Raw.of(plain),
        2: Raw.of(generator.normal(size=4)),
        3: Raw.of(generator.integers(-(2**62), 2**62, size=(2, 2))),
        4: Raw("bfloat16", (3,), generator.integers(0, 2**16, 3, dtype=np.uint16).tobytes()),
        **(samples if step % 20 == 0 else {}),
    }


def loss_of(step: int) -> float:
    return float("nan") if step == 15 else 1 / (step + 1)


def record(path: str | Path, steps: tuple[int, ...] = STEPS, *, resume: bool = False) -> None:
    """Write these steps and close."""
    with Writer(path, kind="run", resume=resume, options=OPTIONS) as writer:
        fill(writer, steps)


def fill(writer: Writer, steps: tuple[int, ...]) -> None:
    writer.document("config", {"optimizer": {"lr": 0.1, "name": "sgd"}, "layers": [1, 2]})
    writer.document("environment", {"torch": "2.9"})
    schema = writer.schema([*ROWS, *SAMPLES], STATISTICS)
    for step in steps:
        writer.step(step, schema=schema, kind=kind_of(step), matrix=matrix_of(step), values=values_of(step))
        writer.scalars(step, {"loss": loss_of(step), "lr": 0.1})
    writer.note("the loss rose", step=10, level="warning", about={"by": 2})
    writer.note("done")
    writer.flush()


_KILLED = """
import os, sys
from cutaway.store.writing.writer import Writer
from tests.store.recorded import OPTIONS, STEPS, fill
writer = Writer(sys.argv[1], kind="run", options=OPTIONS)
fill(writer, STEPS)
os._exit(9)
"""


def record_and_be_killed(path: str | Path) -> None:
    """The same by a process that dies without closing anything."""
    assert warm_python.run(["-c", _KILLED, str(path)], cwd=ROOT).returncode == 9
