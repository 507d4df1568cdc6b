"""Steps under `cutaway.edit`: which edits ran in a step, and the kind that such a step gets."""

from __future__ import annotations

from threading import get_ident

from torch import nn

from cutaway.capture import sessions
from cutaway.capture.model.tree import modules_of
from cutaway.recording.error_guard import ErrorGuard

_EDITED = "edited"


def edited_kind(kind: str) -> str:
    """The kind of a step that ran under an edit, so that it never mixes with unedited steps.

    >>> edited_kind("eval"), edited_kind(""), edited_kind("eval/edited")
    ('eval/edited', 'edited', 'eval/edited')
    """
    if kind == _EDITED or kind.endswith(f"/{_EDITED}"):
        return kind
    return f"{kind}/{_EDITED}" if kind else _EDITED


def is_edited(root: nn.Module) -> bool:
    """Whether an edit of a model, or of a part of it, runs in this thread."""
    return any(_is_of(edit, root, get_ident()) for edit in list(sessions.edits.values()))


class EditLog:
    """Collects the descriptions of all edits that run during a step.

    Args:
        root: the recorded model; edits of other models do not count.
        guard: reports what goes wrong.
    """

    def __init__(self, root: nn.Module, guard: ErrorGuard) -> None:
        self._root = root
        self._guard = guard
        self._thread = get_ident()
        self.descriptions: dict[str, None] = {}
        """Each description once, in order (a dict used as an ordered set)."""

    @property
    def text(self) -> str:
        """All descriptions; "" if no edit ran."""
        return "; ".join(self.descriptions)

    def start(self) -> None:
        """Collect from now on, those that run already included."""
        for edit in list(sessions.edits.values()):
            self._add(edit)
        sessions.edit_listeners.append(self.on_edit)

    def stop(self) -> None:
        """Stop collecting. Idempotent."""
        if self.on_edit in sessions.edit_listeners:
            sessions.edit_listeners.remove(self.on_edit)

    def on_edit(self, edit: sessions.RunningEdit) -> None:
        """Callback: an edit begins."""
        self._guard(self._add, edit)

    def _add(self, edit: sessions.RunningEdit) -> None:
        if _is_of(edit, self._root, self._thread):
            self.descriptions[edit.description] = None


def _is_of(edit: sessions.RunningEdit, root: nn.Module, thread: int) -> bool:
    if edit.thread != thread:
        return False
    modules = set(map(id, modules_of(root)))
    return any(id(module) in modules for module in modules_of(edit.model))
