"""The browser of whoever sits at this machine."""

from __future__ import annotations

import logging
import os
import sys
import webbrowser

_LOG = logging.getLogger("cutaway")


def open_in_browser(address: str) -> bool:
    """Open an address in a browser, if there is a screen; whether that was done.

    A browser that cannot be opened is no reason for a program to end. `CUTAWAY_BROWSER=none` means: never.
    """
    if os.environ.get("CUTAWAY_BROWSER") == "none" or not has_screen():
        return False
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError) as error:
        _LOG.info("the browser did not open: %s", error)
        return False


def has_screen() -> bool:
    """Whether a browser would have a window: without one, a text browser would take over the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
