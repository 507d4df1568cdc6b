"""A page with every block there is, as hostile as texts can be."""

from __future__ import annotations

import numpy as np

from cutaway.views.pages.model import (
    Bars,
    ColoredText,
    Column,
    Facts,
    Heatmap,
    Histogram,
    Line,
    Lines,
    Page,
    Prose,
    Section,
    Series,
    Table,
    Text,
)

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
SENTENCES = (
    ["The", "committee", "had", "quickly", "decided", "that", "the", "matter", "was", "settled"],
    ["Running", "slowly", ",", "she", "was", "thinking", "about", "her", "old", "house", "in", "Paris"],
    ["<b>bold</b>", HOSTILE, " spaced", "\n", "", "naïve", "日本語", "🙂", "a" * 70],
)
LAYERS = tuple(f"encoder.layer.{layer}" for layer in range(6))


def every_block() -> Page:
    """All kinds of blocks, and for each of them something that is missing, empty, extreme or hostile."""
    rng = np.random.default_rng(7)
    return Page(
        f"Past tense {HOSTILE}",
        "Units of MiniLM that tell verbs in the past tense from all other words.",
        [
            Section("Summary", "What was looked at.", [_facts(), Prose(f"First paragraph.\n\nSecond: {HOSTILE}")]),
            Section("Best units", "Sort by any column.", [_table(rng)]),
            Section("Colored text", "Choose a unit.", [_text(rng), _zeros()], is_wide=True),
            Section("How many units are needed", "", [_lines(), _log_lines(rng)]),
            Section("Spread", "Of one unit.", [_histogram(rng)]),
            Section("Over layers", "", [_bars(), _signed_bars()]),
            Section(
                "Overlap of methods", "Share of common units among the best 50.", [_heatmap(rng), _signed_map(rng)]
            ),
            Section("Large matrix", "As pixels.", [_pixels(rng)]),
            Section(
                "Nothing", "", [Bars([], []), Table([Column("a")], []), Lines("x", "y", [], []), ColoredText([], [])]
            ),
        ],
    )


def _facts() -> Facts:
    return Facts(
        [
            ("units", "2,304", "6 layers of 384"),
            ("words", "29,958"),
            ("accuracy", "0.934", "± 0.006 over 5 seeds"),
            ("control task", "0.612"),
            ("selectivity", "0.322"),
            (HOSTILE, HOSTILE),
        ]
    )


def _table(rng: np.random.Generator) -> Table:
    columns = [
        Column("unit"),
        Column("score", "bar", "of the probeless ranking"),
        Column("sign"),
        Column("share of weight", "share"),
        Column("rank by IoU", "number", "1 is best"),
        Column("fires on"),
    ]
    rows: list[tuple[str | float | None, ...]] = [
        (
            f"{LAYERS[int(rng.integers(6))]}#{int(rng.integers(384))}",
            3.25 / (1 + place) * (-1 if place % 4 == 3 else 1),
            "-" if place % 4 == 3 else "+",
            float(rng.random()),
            int(rng.integers(2304)),
            "was, had, decided, settled",
        )
        for place in range(60)
    ]
    rows[5] = (HOSTILE, None, "", float("nan"), None, HOSTILE)
    return Table(columns, rows, title="The best 60")


def _text(rng: np.random.Generator) -> ColoredText:
    channels = ["layer.3#17", "layer.5#201", HOSTILE[:24]]
    texts = []
    for place, tokens in enumerate(SENTENCES):
        values = rng.normal(size=(3, len(tokens))).tolist()
        values[0][2] = None
        texts.append(Text(tokens, values, title=f"sentence {place + 1}", marks=[1]))
    return ColoredText(channels, texts, title="Three units, three sentences")


def _zeros() -> ColoredText:
    return ColoredText(
        ["dead unit"], [Text(["all", "zero"], [[0.0, 0.0]])], is_signed=False, title="A unit that never fires"
    )


def _lines() -> Lines:
    x = np.array([1, 5, 10, 20, 50, 100, 200])
    best, chance = 0.95 - 0.4 / np.sqrt(x), 0.62 - 0.02 / x
    lines = [
        Line("probeless", best, best - 0.02, best + 0.02),
        Line("random", [*(chance[:3]), None, *(best[4:] - 0.06)]),
        Line("all units", np.full(7, 0.957), is_dashed=True),
    ]
    return Lines("units kept", "accuracy", x, lines, is_log_x=True, title="Accuracy with the best units")


def _log_lines(rng: np.random.Generator) -> Lines:
    x = np.arange(300)
    return Lines("step", "loss", x, [Line("loss", np.exp(-x / 80) + rng.normal(scale=0.01, size=300))])


def _histogram(rng: np.random.Generator) -> Histogram:
    edges = np.linspace(-4, 6, 41)
    rows = [("past tense", rng.normal(1.8, 0.8, 400)), ("all other words", rng.normal(-0.3, 1.0, 9000))]
    return Histogram(edges, [Series(name, np.histogram(values, edges)[0]) for name, values in rows])


def _bars() -> Bars:
    counts = [3, 8, 14, 21, 17, 9]
    return Bars(LAYERS, counts, [c - 2 for c in counts], [c + 2 for c in counts], title="How many of the best 72")


def _signed_bars() -> Bars:
    words = ["was", "decided", "had", HOSTILE, "running", "house", "the"]
    return Bars(words, [2.41, 1.93, 1.55, 0.0, -0.7, -1.12, None], is_signed=True, title="Top words, signed")


def _heatmap(rng: np.random.Generator) -> Heatmap:
    names = ["probeless", "iou", "linear", "gaussian", "selectivity", "random"]
    values = rng.random((6, 6))
    values = (values + values.T) / 2
    np.fill_diagonal(values, 1.0)
    return Heatmap(names, names, values, low=0.0, high=1.0)


def _signed_map(rng: np.random.Generator) -> Heatmap:
    values = rng.normal(size=(4, 12))
    values[1, 3] = np.nan
    columns = [f"head {head}" for head in range(12)]
    return Heatmap([*LAYERS[:3], HOSTILE], columns, values, is_diverging=True, shows_numbers=False, title="Signed")


def _pixels(rng: np.random.Generator) -> Heatmap:
    x = np.linspace(-3, 3, 96)
    values = np.outer(np.sin(2 * x), np.cos(x)) + rng.normal(scale=0.05, size=(96, 96))
    names = [f"token {place}" for place in range(96)]
    return Heatmap(names, names, values, is_diverging=True, shows_numbers=False)
