"""Opens a URL in the local browser."""

from __future__ import annotations

import logging
import os
import sys
import webbrowser

_LOG = logging.getLogger("cutaway")


def open_in_browser(address: str) -> bool:
    """Open an address in a browser, if there is a display; returns whether it opened.

    Never raises. `CUTAWAY_BROWSER=none` turns it off.
    """
    if os.environ.get("CUTAWAY_BROWSER") == "none" or not has_screen():
        return False
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError) as error:
        _LOG.info("cannot open a browser: %s", error)
        return False


def has_screen() -> bool:
    """Whether there is a display: without one, a text browser would take over the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
