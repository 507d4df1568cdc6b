"""Makes the PNG pictures of the documentation from the real pages: `python docs/pictures/screenshots.py [NAME …]`.

Needs Chromium, Playwright, Pillow and the weights of SmolLM2 and MiniLM: `make venv browser` brings all but the first
on systems without apt. What the pictures show is computed once, into `.build/pictures`; delete that folder to compute
it again.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMPUTED = ROOT / ".build" / "pictures"
WIDTH = 1200
MOST_BYTES = 150_000
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

CAPITALS = "Paris is the capital of France. Rome is the capital of Italy. Madrid is the capital of"
RECIPE = "Heat the butter in a pan, then add the onions and"
COUNTING = "1, 2, 3,"
ENDS_IN_S = {"-s": r"[a-z]{2,}[^su]s$"}
N_SENTENCES = 160


@dataclass(frozen=True, slots=True)
class Picture:
    """One screenshot."""

    make: Callable[[], Any]
    """Computes the result whose page is shown, or records the run."""
    until: str = ""
    """Title of the last section in the picture; "" for the last of the page."""
    name: str = ""
    """Name of the archive, if it is not that of the picture."""
    address: str = ""
    """Fragment of the viewer's URL, with {id} for the id of the archive."""
    height: int = 1000
    """Maximum height in pixels."""


@cache
def smollm2() -> tuple[Any, Any]:
    from language import language_model

    return language_model(None)


@cache
def generation(prompt: str, n: int) -> Any:
    import cutaway

    return cutaway.generate(*smollm2(), prompt, max_new_tokens=n)


@cache
def minilm() -> tuple[Any, Any, list[list[str]]]:
    """The model, its tokenizer, and sentences of this documentation."""
    import neurons as example

    sentences = example.spread(example.sentences_of(sorted(example.DOCS.glob("*.md"))), N_SENTENCES)
    return *example.encoder(None), sentences


@cache
def activations() -> Any:
    """The states of MiniLM after each layer, for every word; and whether it ends in -s."""
    import cutaway

    model, tokenizer, sentences = minilm()
    acts = cutaway.collect(model, sentences, tokenizer=tokenizer, at="encoder.layer.*", aggregate="last")
    return acts, cutaway.neurons.annotate(acts, ENDS_IN_S, other="other")


def similarity() -> Any:
    import cutaway

    return cutaway.lm.similarity(activations()[0])


def evaluation() -> Any:
    import cutaway

    return cutaway.neurons.evaluate("probeless", *activations(), n=[1, 4, 10, 20, 40, 100], metric="matthews")


def report() -> Any:
    import cutaway

    acts = neurons()
    labels = cutaway.neurons.annotate(acts, ENDS_IN_S, other="other")
    return cutaway.neurons.report(acts, labels, methods=("probeless", "linear"), score="matthews")


def ablation() -> Any:
    """The units that MiniLM uses for endings, set to their mean in the running model, beside random ones."""
    import cutaway
    import neurons as example

    model, tokenizer, sentences = minilm()
    acts, _ = activations()
    is_train = acts.items % 4 != 3
    train, early = acts.rows(is_train), acts.rows(is_train).at(acts.sites[:-1])
    endings = cutaway.neurons.annotate(train, example.ENDINGS, other="other")
    held_out = [sentence for item, sentence in enumerate(sentences) if item % 4 == 3]
    metric = example.metrics(model, tokenizer, held_out, train.at(acts.sites[-1]), endings)
    ranking = cutaway.neurons.rank(early, endings, "average_precision")
    return cutaway.neurons.ablate(model, ranking, metric, n=[10, 50, 100, 200], to="mean", acts=early, n_random=3)


@cache
def neurons() -> Any:
    """Activations inside the first MLP, where single units are easier to read than between layers."""
    import cutaway

    model, tokenizer, sentences = minilm()
    return cutaway.collect(model, sentences, tokenizer=tokenizer, at="encoder.layer.0.intermediate", aggregate="last")


def training() -> None:
    import record

    record.train(COMPUTED / "training", 60)


def faulty_training() -> None:
    """A run in which one block explodes and the logarithm of another becomes NaN."""
    import torch
    from torch import nn

    import cutaway

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.act = nn.Linear(32, 32), nn.Tanh()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.act(self.fc(x))

    class LogHead(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(self.fc(x) + 40)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.blocks, self.head = nn.Linear(8, 32), nn.ModuleList(Block() for _ in range(6)), LogHead()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    torch.manual_seed(0)
    model, x, y = Net(), torch.randn(64, 8), torch.randint(4, (64,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with cutaway.record(COMPUTED / "findings", model, every=1, samples=2) as run:
        for step in range(25):
            if step == 24:
                with torch.no_grad():
                    model.blocks[2].fc.weight.mul_(3000)
                    model.head.fc.weight.mul_(300)
            with run.step():
                loss = nn.functional.cross_entropy(model(x), y)
                run.log(loss=loss)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()


def spiking_training() -> None:
    """A run in which one image of 1,024 was never divided by 255."""
    import spike

    spike.train(COMPUTED / "spike", 300)


PICTURES: dict[str, Picture] = {
    "language": Picture(lambda: generation(RECIPE, 24), "Confidence"),
    "saliency": Picture(lambda: generation(CAPITALS, 4).saliency(), "All targets"),
    "lens": Picture(lambda: generation(COUNTING, 14).lens(), "Predictions by layer"),
    "factors": Picture(lambda: generation(COUNTING, 14).factors(5), "Strength over the text"),
    "attention": Picture(lambda: generation(CAPITALS, 4).attention(), "Attention by head"),
    "logit-attribution": Picture(
        lambda: generation(CAPITALS, 4).logit_attribution("component"), "By layer", height=880
    ),
    "similarity": Picture(similarity, "Adjacent pairs", height=560),
    "evaluation": Picture(evaluation, "Score by number of units", height=728),
    "report": Picture(report, "Top units", height=1500),
    "findings": Picture(faulty_training, address="run={id}&node=blocks.2.fc&step=24", height=760),
    "spike": Picture(
        spiking_training,
        address="run={id}&step=165&node=stem.0&sample=0&~spike=165,logged,loss&~filter=kind%20%3D%20train%0Aloss%20%3E%202",
        height=1000,
    ),
    "ablation": Picture(ablation, height=1200),
    "neurons": Picture(
        neurons, address="tab=neurons&~neurons={id}&~unit=encoder.layer.0.intermediate%23431", height=760
    ),
    "viewer": Picture(training, name="training", address="run={id}&node=blocks.1&step=600"),
}


def main(names: Sequence[str]) -> None:
    unknown = set(names) - set(PICTURES)
    if unknown:
        sys.exit(f"no picture is called {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
    chosen = {name: PICTURES[name] for name in names or PICTURES}
    for name, picture in chosen.items():
        compute(name, picture)
    with browser_page() as page, viewer() as url:
        for name, picture in chosen.items():
            print(f"{name}.png: {take(page, url, name, picture):,} bytes", flush=True)


def compute(name: str, picture: Picture) -> None:
    name = picture.name or name
    if (COMPUTED / name).exists():
        return
    print(f"computing {name} …", flush=True)
    result = picture.make()
    if result is not None:  # a training records by itself
        result.save(COMPUTED / name)


def take(page: Page, url: str, name: str, picture: Picture) -> int:
    """Write one picture; returns its size in bytes."""
    if picture.address:
        with urllib.request.urlopen(f"{url}api/runs") as response:
            ids = {item["name"]: item["id"] for item in json.load(response)}
        page.set_viewport_size({"width": WIDTH, "height": picture.height})
        page.goto("about:blank")
        page.goto(f"{url}#{picture.address.format(id=quote(ids[picture.name or name]))}")
        page.wait_for_timeout(4000)  # layout, curves and values come one after another
        bottom = picture.height
    else:
        import cutaway
        from cutaway.pages import page_of

        page.set_viewport_size({"width": WIDTH, "height": 3000})  # all of it at once, without scrolling
        page.goto(page_of(cutaway.load(COMPUTED / name)).to_html(COMPUTED / f"{name}.html").as_uri())
        page.wait_for_timeout(500)
        last = page.locator(f'section[aria-label="{picture.until}"]') if picture.until else page.locator("section").last
        box = last.bounding_box()
        assert box is not None
        bottom = min(int(box["y"] + box["height"]) + 16, picture.height)
    image = page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": bottom})
    return save(image, HERE / f"{name}.png")


def save(image: bytes, path: Path) -> int:
    """Write a picture with a palette, which takes a third of the bytes."""
    from PIL import Image

    packed = BytesIO()
    Image.open(BytesIO(image)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    if packed.tell() > MOST_BYTES:
        raise SystemExit(f"{path.name} has {packed.tell():,} bytes: crop it, so that it has at most {MOST_BYTES:,}")
    path.write_bytes(packed.getvalue())
    return packed.tell()


@contextmanager
def browser_page() -> Iterator[Page]:
    from playwright.sync_api import sync_playwright
    from tests.browser import FLAGS, HOW, executable

    path = executable()
    if path is None:
        sys.exit(f"The pictures are taken in Chromium, and there is none here: {HOW}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser.new_page(color_scheme="light", reduced_motion="reduce")
        browser.close()


@contextmanager
def viewer() -> Iterator[str]:
    """The address of a viewer on what was computed."""
    command = [sys.executable, "-m", "cutaway", "view", str(COMPUTED), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    if importlib.util.find_spec("PIL") is None:
        sys.exit("The pictures are packed with Pillow: pip install pillow")
    main(sys.argv[1:])
