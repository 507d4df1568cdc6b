"""The web bundle is found, or its absence explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutaway.core.errors import CutawayError
from cutaway.server import bundle


def test_the_bundle_is_one_module_for_notebooks_with_its_style_inside() -> None:
    script = bundle.script()
    assert "export{" in script
    assert "as default" in script
    assert ".cutaway" in script
    assert "__CUTAWAY_STYLE__" not in script


def test_the_licenses_of_what_is_bundled_come_along() -> None:
    said = bundle.licenses()
    assert said.startswith("preact ")
    assert "Permission is hereby granted" in said
    assert "typescript" not in said


def test_a_missing_bundle_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "STATIC", tmp_path)
    with pytest.raises(CutawayError, match=r"cutaway\.js is missing. In a checkout, `make venv` builds it") as caught:
        bundle.script()
    assert isinstance(caught.value, FileNotFoundError)
