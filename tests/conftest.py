"""Fixtures for all tests."""

import os

from hypothesis import settings

from tests.browser import browser as browser
from tests.browser import page as page
from tests.server.recorded import recorded as recorded
from tests.server.recorded import recorded_copy as recorded_copy
from tests.server.served import served as served

# Other work may share the machine: how long one example took says nothing.
settings.register_profile("cutaway", deadline=None)
settings.load_profile("cutaway")

# No test opens windows on the screen of whoever runs it.
os.environ["CUTAWAY_BROWSER"] = "none"
