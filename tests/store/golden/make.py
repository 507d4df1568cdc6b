"""Writes the golden run: `python -m tests.store.golden.make` from the root of the repository.

Each version of the format has a folder, written once by the Cutaway of then and never again: whatever comes later must
still read it. `expected.json` is made from what was handed to the writer, not from what a reader says.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from cutaway.core.arrays import Raw
from cutaway.store.head import FORMAT_VERSION
from cutaway.store.records import Loss, Row
from cutaway.store.samples import packed_samples
from cutaway.store.segments import Limits
from cutaway.store.writer import Options, Writer

HERE = Path(__file__).parent
NOW = 1_700_000_000.0
STATISTICS = ["mean", "std", "max"]
OTHERS = ["norm", "mean"]
TEXTS = ["a cat", "ein Hündchen 🐕", ""]
TOKENS = [["a", "cat"], [], ["🐕"]]
IDS = [[7, 8], [9], []]
ROWS = [
    Row("embed", role="parameter", names=("lm_head.weight",)),
    Row("encoder.0", node="encoder", part="out"),
    Row("encoder.0", "grad"),
    Row("encoder.0", "update"),
    Row("loop", iteration=1),
    Row("loop", iteration=2),
    Row("näme with % / and space"),
]
LATER = [Row("encoder.0"), Row("encoder.1"), Row("encoder.0", "grad/aux")]
OPTIONS = Options(limits=Limits(steps=3, header=512))


def matrix(step: int, n_rows: int, n_statistics: int) -> np.ndarray:
    """Numbers that are exact in 32 bits, one of them no number and one infinite."""
    found = np.arange(n_rows * n_statistics, dtype=np.float64).reshape(n_rows, n_statistics) / 8 + step
    found[0, 0] = np.nan if step % 20 else np.inf
    return found


def bfloat16(step: int) -> Raw:
    """1, 2 and -step/2, as far as eight bits can say it."""
    numbers = np.array([1, 2, -step / 2], np.float32)
    return Raw("bfloat16", (3, 1), (numbers.view(np.uint32) >> 16).astype(np.uint16).tobytes())


def write(path: Path) -> dict[str, Any]:
    """Write the run; give what a reader must find in it."""
    steps: dict[str, Any] = {}
    with Writer(path, kind="run", options=OPTIONS, world_size=2) as writer:
        first_session(writer, steps)
    killed = Writer(path, kind="run", resume=True, options=OPTIONS, world_size=2)
    second_session(killed, steps)
    killed.flush()
    copy = path.with_name("killed")
    shutil.copytree(path, copy)
    killed.close()
    shutil.rmtree(path)
    copy.rename(path)
    sign = path / "rank-0" / "0002.lease"
    sign.write_text(json.dumps({**json.loads(sign.read_text()), "closed": True}))  # or this process could not go on
    with Writer(path, kind="run", resume=True, options=OPTIONS, world_size=2) as writer:
        third_session(writer, steps)
    with Writer(path, kind="run", resume=True, rank=1, options=OPTIONS, world_size=2) as writer:
        writer.step(0, schema=writer.schema([Row("encoder.0")], ["mean"]), matrix=np.array([[0.5]]))
    tidy(path)
    return expected(steps)


def first_session(writer: Writer, steps: dict[str, Any]) -> None:
    writer.document(
        "config", {"lr": 0.1, "layers": [1, 2, None], "name": "größe", "nested": {"on": True, "raw": b"\0\1"}}
    )
    writer.document("environment", {"python": "3.11"})
    samples = packed_samples({"text": TEXTS, "tokens": TOKENS, "ids": IDS, "label": np.array([3, 1, 2])})
    schema = writer.schema([*ROWS, *samples], STATISTICS)
    for step in range(0, 50, 10):
        values = {0: bfloat16(step), 1: Raw.of(np.full((2, 2), step, np.float32)), 4: Raw.of(np.array(step))}
        if step % 20 == 0:
            values |= {len(ROWS) + number: raw for number, raw in enumerate(samples.values())}
        numbers = matrix(step, len(ROWS) + len(samples), len(STATISTICS))
        kind = "long" if step % 20 == 0 else "short"
        writer.step(step, schema=schema, kind=kind, matrix=numbers, values=values, about={"epoch": step // 20})
        writer.scalars(step, {"loss": 1 / (step + 1), "accuracy": float("nan")})
        if step < 30:
            steps[str(step)] = {
                "session": 1,
                "kind": kind,
                "about": {"epoch": step // 20},
                "sites": ["embed", "encoder.0", "loop", "näme with % / and space"],
                "matrix": shown(numbers),
                "embed": [[1.0], [2.0], [-step / 2]],
                "encoder.0": [[step, step], [step, step]],
                "texts": TEXTS if step % 20 == 0 else None,
            }
    writer.note("begun", step=0, about={"by": ["nobody"]})
    writer.block("extra", {"a": Raw.of(np.arange(3, dtype=np.int16)), "b": bfloat16(4)}, {"why": "because"})
    writer.flush()
    writer._log.record(Loss("steps", (5, 6), "the disk was full", NOW).packed())


def second_session(writer: Writer, steps: dict[str, Any]) -> None:
    schema = writer.schema(LATER, OTHERS, dtype="float64")
    for step in (30, 35, 40, 45):
        numbers = matrix(step, 3, 2) + 1e-12
        writer.step(step, schema=schema, kind="short", matrix=numbers, values={2: bfloat16(step)})
        writer.scalars(step, {"loss": step / 2})
        if step < 45:
            about = {"session": 2, "kind": "short", "about": {}, "sites": ["encoder.0", "encoder.1"]}
            steps[str(step)] = {**about, "matrix": shown(numbers), "grad/aux": [[1.0], [2.0], [-step / 2]]}
    writer.note("again", level="warning")


def third_session(writer: Writer, steps: dict[str, Any]) -> None:
    schema = writer.schema(LATER, OTHERS)
    writer.document("config", {"lr": 0.2})
    writer.step(45, schema=schema, kind="eval")
    writer.scalars(45, {"loss": -1.0})
    about = {"session": 3, "kind": "eval", "about": {}, "sites": ["encoder.0", "encoder.1"]}
    steps["45"] = {**about, "matrix": [["nan"] * 2] * 3}


def tidy(path: Path) -> None:
    """Leave no word about the machine; the second session looks as if its process had died while it wrote."""
    with (path / "rank-0" / "0002.index").open("ab") as index:
        index.write(b"CUT1\x80\0\0\0\1\2\3\4unfinished")
    for sign in sorted(path.glob("rank-*/*.lease")):
        content = json.loads(sign.read_text())
        content |= {"token": "0" * 32, "pid": 1, "host": "elsewhere", "identity": "elsewhere", "started": 1, "beat": 1}
        content["closed"] = sign.name != "0002.lease"
        sign.write_text(json.dumps(content))


def expected(steps: dict[str, Any]) -> dict[str, Any]:
    """What a reader must find beside the steps."""
    return {
        "steps": steps,
        "kinds": ["long", "short", "eval"],
        "statistics": ["mean", "std", "max", "norm"],
        "sites": ["embed", "encoder.0", "loop", "näme with % / and space", "encoder.1"],
        "config": {"lr": 0.2},
        "first config": {"lr": 0.1, "layers": [1, 2, None], "name": "größe", "nested": {"on": True, "raw": "0001"}},
        "notes": [["begun", 0, "info", {"by": ["nobody"]}], ["again", None, "warning", {}]],
        "losses": [["steps", [5, 6], "the disk was full"]],
        "loss": [[0, 10, 20, 30, 35, 40, 45], [1.0, 1 / 11, 1 / 21, 15.0, 17.5, 20.0, -1.0]],
        "samples": {"text": TEXTS, "tokens": TOKENS, "ids": IDS, "label": [3, 1, 2]},
        "std of encoder.0": [[0, 10, 20, 30, 35, 40], [0.5, 10.5, 20.5, "nan", "nan", "nan"]],
        "norm of encoder.1": [[30, 35, 40], [30.25 + 1e-12, 35.25 + 1e-12, 40.25 + 1e-12]],
    }


def shown(numbers: np.ndarray) -> list[list[Any]]:
    """Numbers as JSON has them; those it has not, as text."""
    return [[value if np.isfinite(value) else str(value) for value in row] for row in numbers.tolist()]


def main() -> None:
    path = HERE / f"v{FORMAT_VERSION}" / "run"
    if path.exists():
        raise SystemExit(f"{path} is there already, and a golden run is never written again")
    with (
        mock.patch("cutaway.store.writer.time", return_value=NOW),
        mock.patch("cutaway.store.log.time", return_value=NOW),
        mock.patch("cutaway.store.log.monotonic", return_value=5.0),
    ):
        found = write(path)
    (path.parent / "expected.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
