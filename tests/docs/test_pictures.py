"""Every picture of the documentation is made by a script, shown by a page, and small."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from tests import ROOT

PICTURES = ROOT / "docs" / "pictures"
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
MOST_BYTES = 150_000


def names_in(path: Path, table: str) -> set[str]:
    """The names in a table of a script, which is loaded without running its main part."""
    return set(runpy.run_path(str(path), run_name=f"pictures_{path.stem}")[table])


def shown() -> dict[Path, list[str]]:
    """The alternative texts of each picture that a page shows."""
    texts: dict[Path, list[str]] = {}
    for page in PAGES:
        for text, target in IMAGE.findall(page.read_text(encoding="utf-8")):
            texts.setdefault((page.parent / target).resolve(), []).append(text)
    return texts


def files() -> set[Path]:
    return {path for path in PICTURES.rglob("*") if path.suffix in (".png", ".svg")}


def test_every_picture_is_made_by_a_script() -> None:
    figures = names_in(PICTURES / "figures.py", "FIGURES")
    screenshots = names_in(PICTURES / "screenshots.py", "PICTURES")
    gallery = names_in(ROOT / "examples" / "gallery.py", "MODELS")
    made = {
        *(PICTURES / f"{name}.svg" for name in figures),
        *(PICTURES / f"{name}.png" for name in screenshots),
        *(PICTURES / "gallery" / f"{name}.svg" for name in gallery),
    }
    assert files() == made


def test_every_picture_is_shown_with_a_text_and_is_small() -> None:
    pages = shown()
    for path in files():
        assert path in pages, f"no page shows {path.relative_to(ROOT)}"
        assert all(pages[path]), f"say what is seen in {path.name}"
        if path.suffix == ".png":
            assert path.stat().st_size <= MOST_BYTES, f"{path.name} has {path.stat().st_size:,} bytes"


def test_every_picture_that_a_page_shows_exists() -> None:
    assert not [path for path in shown() if not path.is_file()]
