"""A recorded training with a planted fault: one image is scaled by 255, and its batch comes back every 9 steps.

Everything a researcher would record is there: ids, labels, images, a loss for each sample, notes, two kinds of steps.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compiling import forget_compiled
from tests.server.recorded import one_thread

BATCH, N_STEPS = 16, 56
SPIKES = (28, 37, 46)
"""Steps whose batch has the bad image."""
BAD, BAD_PLACE, N_IMAGES = "img-812", 5, 1024
WRITERS = ("03", "07", "11", "15")
_RECORDED: list[Path] = []


@pytest.fixture(scope="session")
def spiking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs `reader` (everything recorded) and `bare` (every 10 steps, no samples, no losses)."""
    if not _RECORDED:  # each module that imports the fixture has its own
        folder = tmp_path_factory.mktemp("spiking") / "runs"
        record_spiking(folder / "reader")
        record_spiking(folder / "bare", is_bare=True)
        _RECORDED.append(folder)
    return _RECORDED[0]


def record_spiking(path: Path, *, is_bare: bool = False, n_steps: int = N_STEPS) -> None:
    """Train a small convolutional network on images of strokes; one was not divided by 255 and has a wrong label."""
    import torch
    from torch import nn

    import cutaway

    forget_compiled()
    torch.manual_seed(0)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
            self.body = nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
            self.head = nn.Linear(32, 4)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(self.stem(image)).flatten(1))

    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    images, labels = _strokes(N_IMAGES)
    order = torch.Generator().manual_seed(1)
    how = {"every": 10} if is_bare else {"every": 1, "samples": BATCH}
    with one_thread(), cutaway.record(path, model, **how) as run:
        for number in range(n_steps):
            chosen = torch.randint(0, N_IMAGES, (BATCH,), generator=order)
            chosen[chosen == 812] = 0
            x = images[chosen].clone()
            if number in SPIKES:
                chosen[BAD_PLACE] = 812
                x[BAD_PLACE] = 255 * images[812]
            y = labels[chosen]
            if number in SPIKES:  # and its label is wrong
                with torch.no_grad():
                    y[BAD_PLACE] = model(x[BAD_PLACE : BAD_PLACE + 1]).argmin()
            kind = "check" if number % 10 == 9 else "train"
            with run.step(kind=kind):
                losses = nn.functional.cross_entropy(model(x), y, reduction="none")
                loss = losses.mean()
                if run.recording and not is_bare:
                    run.samples(
                        ids=[f"img-{index}" for index in chosen.tolist()],
                        label=y,
                        image=x[:, 0],
                        writer=[WRITERS[index % 4] for index in chosen.tolist()],
                        tokens=[["stroke", " bright" if index % 2 else " dark"] for index in chosen.tolist()],
                        loss=losses,
                    )
                    run.tensor("target", y, role="target")
                run.log(loss=loss, lr=0.02)
                loss.backward()
                # Adam forgets a huge gradient slowly: skipped, as a careful training loop does.
                if number not in SPIKES:
                    optimizer.step()
                optimizer.zero_grad()
                if number == 20:
                    run.note("the learning rate was checked", level="info")
                if number == 38:
                    run.note("a NaN was near", level="warning")


def _strokes(n: int):  # type: ignore[no-untyped-def]
    """Images of one stroke in one of four directions, between 0 and 1."""
    import torch

    noise = torch.Generator().manual_seed(2)
    images = 0.15 * torch.rand(n, 1, 12, 12, generator=noise)
    labels = torch.arange(n) % 4
    for number in range(n):
        at = 3 + number % 6
        if labels[number] == 0:
            images[number, 0, at, 1:11] = 0.9
        elif labels[number] == 1:
            images[number, 0, 1:11, at] = 0.9
        else:
            for place in range(1, 11):
                images[number, 0, place, place if labels[number] == 2 else 11 - place] = 0.9
    return images, labels
