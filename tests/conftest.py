"""Fixtures for all tests."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.browser import browser as browser
from tests.browser import page as page
from tests.browser import tabs as tabs
from tests.server.recorded import recorded as recorded
from tests.server.recorded import recorded_copy as recorded_copy
from tests.server.served import served as served

# Other work may share the machine: how long one example took says nothing.
settings.register_profile("cutaway", deadline=None)
settings.load_profile("cutaway")

# No test opens windows on the screen of whoever runs it.
os.environ["CUTAWAY_BROWSER"] = "none"


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects without the garbage collector, and lets it pass over what stays: 13,000 tests and their modules."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the short tests of views last.

    Two processes share the tests in this order. With the browser's tests at the end, which take seconds each, one
    process waited for the other.
    """
    items.sort(key=lambda item: item.nodeid.startswith("tests/views/"))
