"""Fixtures for all tests."""

import os

from tests.browser import browser as browser
from tests.browser import page as page

# No test opens windows on the screen of whoever runs it.
os.environ["CUTAWAY_BROWSER"] = "none"
