"""`python -m benchmarks trace --only lstm --quick`: measure, print, and write `.build/bench.{json,md}`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import report
from benchmarks.capture import edits, forward, models, validation
from benchmarks.language import explanations
from benchmarks.measure import one_thread
from benchmarks.neurons import collection, probes, rankings
from benchmarks.peers import comgra, torchlens
from benchmarks.peers.environments import CAPTUM, COMGRA, ECCO, INSEQ, ROOT, TORCHLENS
from benchmarks.recording import training_step
from benchmarks.report import Figure
from benchmarks.store import archives
from benchmarks.viewer import graph as trace_graph
from benchmarks.viewer import page


def trace(options: argparse.Namespace) -> tuple[list[Figure], dict[str, str], tuple[str, ...]]:
    """Figures of tracing, versions of the peers, and what went wrong with them."""
    cases = models.chosen(options.only)
    if options.no_peers:
        peer = torchlens.from_notes("peers were not asked (--no-peers)")
    else:
        full = not options.quick
        peer = torchlens.measured(cases, repeats=3 if full else 1, memory=full and not options.only)
    found = forward.figures(cases, peer, quick=options.quick, extras=not options.only)
    return found, {TORCHLENS.name: TORCHLENS.version}, peer.problems


def validate(options: argparse.Namespace) -> tuple[list[Figure], dict[str, str], tuple[str, ...]]:
    """Figures of validating, on the large models and one loop."""
    cases = [case for case in models.chosen(options.only) if case.size == "large" or case.name in ("lstmcell", "lstm")]
    if options.no_peers:
        peer = torchlens.from_notes("peers were not asked (--no-peers)")
    else:
        peer = torchlens.validating(cases)
    return validation.figures(cases, peer, quick=options.quick), {TORCHLENS.name: TORCHLENS.version}, peer.problems


def edit(options: argparse.Namespace) -> tuple[list[Figure], dict[str, str], tuple[str, ...]]:
    """Figures of edits and replays; no peer has either in a comparable form."""
    return edits.figures(quick=options.quick), {}, ()


def store(options: argparse.Namespace) -> tuple[list[Figure], dict[str, str], tuple[str, ...]]:
    """Figures of the store, beside other ways of keeping the same tensors."""
    size = archives.QUICK if options.quick else archives.FULL
    found, missing = archives.figures(size, peers=not options.no_peers)
    return found, {}, missing


def record(options: argparse.Namespace) -> tuple[list[Figure], dict[str, str], tuple[str, ...]]:
    """Figures of recording a training."""
    size = training_step.QUICK_SIZE if options.quick else training_step.FULL_SIZE
    if options.no_peers:
        peer = comgra.from_notes("peers were not asked (--no-peers)")
    else:
        peer = comgra.measured(size.peer_pairs, size.peer_chains)
    return training_step.figures(size, peer), {COMGRA.name: COMGRA.version}, peer.problems


def graph(options: argparse.Namespace) -> tuple[list[Figure], dict[str, str], tuple[str, ...]]:
    """Figures of the interactive picture, measured in a browser."""
    return trace_graph.figures(trace_graph.QUICK if options.quick else trace_graph.FULL), {}, ()


def view(options: argparse.Namespace) -> tuple[list[Figure], dict[str, str], tuple[str, ...]]:
    """Figures of the viewer, measured in a browser."""
    return page.figures(page.QUICK if options.quick else page.FULL), {}, ()


def collect(options: argparse.Namespace) -> tuple[list[Figure], dict[str, str], tuple[str, ...]]:
    """Figures of collecting activations, beside a plain loop."""
    found, missing = collection.figures(collection.QUICK if options.quick else collection.FULL)
    return found, {}, missing


def neurons(options: argparse.Namespace) -> tuple[list[Figure], dict[str, str], tuple[str, ...]]:
    """Figures of finding units: rankings of large sets, and probes beside NeuroX's formulae."""
    found = rankings.figures(rankings.QUICK if options.quick else rankings.FULL)
    return [*found, *probes.figures(probes.QUICK if options.quick else probes.FULL)], {}, ()


def language(options: argparse.Namespace) -> tuple[list[Figure], dict[str, str], tuple[str, ...]]:
    """Figures of explaining what a language model wrote, beside captum, inseq and Ecco."""
    size = explanations.QUICK if options.quick else explanations.FULL
    found, problems = explanations.figures(size, peers=not options.no_peers)
    return found, {peer.name: peer.version for peer in (CAPTUM, INSEQ, ECCO)}, problems


SUITES: dict[str, Callable[[argparse.Namespace], tuple[list[Figure], dict[str, str], tuple[str, ...]]]] = {
    "trace": trace,
    "validate": validate,
    "edit": edit,
    "store": store,
    "record": record,
    "graph": graph,
    "view": view,
    "neurons": neurons,
    "collect": collect,
    "language": language,
}


def main() -> None:
    options = _options()
    one_thread()
    figures: list[Figure] = []
    peers: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    for name in options.suites or SUITES:
        found, versions, wrong = SUITES[name](options)
        figures += found
        peers |= versions
        problems += wrong
    about = report.about_this_run(peers, quick=options.quick)
    print(report.text(figures, about))
    for problem in problems:
        print(f"note: {problem}")
    report.write(figures, about, ROOT / ".build")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Cutaway beside its peers.")
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"one of {', '.join(SUITES)}; all if none is given")
    parser.add_argument("--only", nargs="+", default=[], metavar="MODEL", help="these models alone")
    parser.add_argument("--quick", action="store_true", help="few repeats, about two minutes")
    parser.add_argument("--no-peers", action="store_true", help="do not run peers; cite the notes")
    options = parser.parse_args()
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        parser.error(f"no suite is called {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    return options


if __name__ == "__main__":
    main()
