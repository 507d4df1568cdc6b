"""Writes the golden archives: `python -m tests.store.golden.make` from the root of the repository.

Each version of the format has a folder, written once by the Cutaway of then and never again: whatever comes later must
still read it: a run, activations, a result. What was handed to the writer stands beside them as JSON: nothing there is
what a reader says. Those that are there already are left alone.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from cutaway.core.arrays import Raw
from cutaway.results.lm.generation import Generation
from cutaway.results.lm.tokens import Beams, Segment, Steps, Tokens
from cutaway.results.neurons.ranking import Ranking
from cutaway.store.activations.unit_selection import UnitNames, Units
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Rows
from cutaway.store.format.manifest import FORMAT_VERSION
from cutaway.store.format.records import Loss, Row
from cutaway.store.format.segments import Limits
from cutaway.store.results.result_file import save
from cutaway.store.runs.samples import packed_samples
from cutaway.store.writing.writer import Options, Writer

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
    writer._log.record(Loss("steps", (5, 6), "the disk was full", NOW).to_record())


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
    """Leave no word about the machine; a second session looks as if its process had died while it wrote."""
    if (path / "rank-0" / "0002.index").exists():
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


def activations(path: Path) -> dict[str, Any]:
    """Two windows of two sites, one of which keeps some units only; the second window has one row."""
    sites = (CollectedSite("encoder.layer.0", 3), CollectedSite("conv", 2, 1, (7, 2)))
    values = {
        "encoder.layer.0": [[0.5, -1.0, 2.0], [1.5, 0.0, 4.0], [8.0, 0.25, -3.0]],
        "conv": [[1, 2], [3, 4], [5, 6]],
    }
    words, items, place = ["a", "Hündchen 🐕", ""], [0, 0, 2], [0, 1, 0]
    about: dict[str, Any] = {
        "dtype": "float16",
        "aggregate": "last",
        "provenance": {"model": "Tiny", "layers": [1, None]},
    }
    with ActivationsWriter(path, sites, options=OPTIONS, **about) as writer:
        for rows, n_items in ((slice(0, 2), 2), (slice(2, 3), 2)):
            arrays = {site: np.array(each[rows], np.float16) for site, each in values.items()}
            first = np.array(place[rows]) + 1
            where = Rows.of(items[rows], word=place[rows], first=first, last=first + 1)
            problems = [(3, "item 3 is empty")] if rows.start else []
            writer.window(arrays, where, words[rows], n_items=n_items, problems=problems)
    tidy(path)
    names = ["encoder.layer.0#0", "encoder.layer.0#1", "encoder.layer.0#2", "conv#7", "conv#2"]
    told = {"values": values, "names": names, "words": words, "items": items, "word": place, "n_items": 4}
    return {**about, **told, "tokens": [[1, 2], [2, 3], [1, 2]], "problems": [[3, "item 3 is empty"]]}


def result(path: Path) -> dict[str, Any]:
    """A ranking with labels of every kind, names of units, and options."""
    scores, order, signs = [0.5, 2.0, -0.25, "nan"], [1, 0, 2], [1, -1, 0, 0]
    sites = [CollectedSite("encoder.layer.0", 3), CollectedSite("conv", 2, 1, (7, 2))]
    names = UnitNames(Units.all(sites).select([4, 0, 1, 3]))
    labels = ["noun", 3, True, 0.5, np.int64(9), np.str_("größe")]
    about = {"n_rows": 200, "counts": {"noun": 5, "größe": None}, "shares": [0.5, ("a", True)], "huge": 2**70}
    arrays: dict[str, Any] = {"scores": np.array(scores, np.float64), "order": np.array(order), "signs": np.int8(signs)}
    own = {
        label: Ranking("probeless", **arrays, names=names, dead=np.array([2]), about={"label": label})
        for label in labels
    }
    save(
        Ranking(
            "probeless", **arrays, names=names, per_label=own, dead=np.array([2]), tiers=np.array([1, 3]), about=about
        ),
        path,
    )
    tidy(path)
    return {
        "scores": scores,
        "order": order,
        "signs": signs,
        "names": ["conv#2", "encoder.layer.0#0", "encoder.layer.0#1", "conv#7"],
        "labels": [repr(label) for label in labels],
        "about": repr(about),
    }


def generation(path: Path) -> dict[str, Any]:
    """A text by beams, with everything that one can have; pieces that are half a letter, and nothing."""
    ids, pieces = [5, 6, 0, 9], ["the", " 🐈", "\\xe2", ""]
    read = Tokens(
        np.array(ids),
        ("the", "Ġð", "â", "<eos>"),
        tuple(pieces),
        np.array([0, 1, 1, 2]),
        np.array([False, False, False, True]),
        (Segment("größe", 0, 1), Segment("", 1, 2)),
    )
    targets = Tokens(read.ids[2:], read.tokens[2:], read.pieces[2:], np.array([0, 1]), np.array([False, True]))
    numbers = [[-0.5, -1.0, -2.25], [-0.125, "-inf", "-inf"]]
    steps = Steps(
        logits=np.array([1.5, -3.0]),
        logprobs=np.array([-0.5, -0.125]),
        entropies=np.array([1.25, np.nan]),
        ranks=np.array([1, 40_000]),
        candidates=np.array([[0, 5, 6], [9, 0, 1]]),
        candidate_pieces=(("\\xe2", "the", " 🐈"), ("", "\\xe2", "a")),
        candidate_logprobs=np.array([[float(each) for each in row] for row in numbers]),
        kept=np.array([[0.75, 0.25, 0.0], [1.0, 0.0, 0.0]]),
        n_kept=np.array([2, 1]),
        drawn=np.array([0.75, 1.0]),
    )
    beams = Beams(
        np.array([0, 6, 9]), ("\\xe2", " 🐈", ""), np.array([-1, -1, 0]), np.array([0, 0, 1]),
        np.array([-0.5, -2.25, -0.125]), np.array([-0.5, -2.25, -0.625]), np.array([True, False, True]),
    )  # fmt: skip
    decoding = {"num_beams": 2, "temperature": 0.5, "seed": 2**63, "eos_token_id": [9, None]}
    about = {"model": "Tiny", "dtype": "bfloat16"}
    save(
        Generation(
            "causal",
            read,
            2,
            np.array([1, 2]),
            targets,
            steps,
            "\ufffd",
            "the 🐈",
            None,
            beams,
            decoding,
            {"token_type_ids": np.array([0, 1, 1, 1])},
            about,
        ),
        path,
    )
    tidy(path)
    return {
        "ids": ids,
        "pieces": pieces,
        "segments": [["größe", 0, 1], ["", 1, 2]],
        "candidate_logprobs": numbers,
        "entropies": [1.25, "nan"],
        "beams": [[0, 6, 9], [-1, -1, 0], [-0.5, -2.25, -0.625], [True, False, True]],
        "decoding": repr(decoding),
        "about": about,
    }


def main() -> None:
    folder = HERE / f"v{FORMAT_VERSION}"
    makers = {
        "run": ("expected", write),
        "activations": ("activations", activations),
        "result": ("result", result),
        "generation": ("generation", generation),
    }
    for name, (beside, make) in makers.items():
        if (folder / name).exists():
            continue  # a golden archive is never written again
        with (
            mock.patch("cutaway.store.writing.writer.time", return_value=NOW),
            mock.patch("cutaway.store.writing.session_files.time", return_value=NOW),
            mock.patch("cutaway.store.results.result_file.time", return_value=NOW),
            mock.patch("cutaway.store.writing.session_files.monotonic", return_value=5.0),
        ):
            found = make(folder / name)
        (folder / f"{beside}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
