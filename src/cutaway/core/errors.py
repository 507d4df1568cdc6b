"""Every error Cutaway raises, as one tree.

CutawayError
├── InputError (ValueError)       an argument has a value that cannot be used
│   ├── InputTypeError (TypeError) an argument has a type that cannot be used
│   └── FitError (ValueError)     a probe cannot be fitted to it, or cannot predict from it
├── SiteError (KeyError)          no tensor answers to that name
│   ├── AmbiguousSiteError        several do
│   └── PositionError (IndexError) a position beyond the last op
├── UnitError (ValueError)        which dimension counts units is not known, or there is no such unit
├── SiteSyntaxError (ValueError)  the name is not written as sites are
├── NotSavedError (LookupError)   the tensor was seen, but its value was not kept
├── StaleValueError (RuntimeError) the value was kept by reference and overwritten since
├── ShapesDifferError (ValueError) the passes of an op cannot be stacked
├── OpenTraceError (RuntimeError) a trace was read inside its own `with`
├── PathLimitError (RuntimeError) there are more paths than the limit allows
├── EditError (ValueError)        a change does not fit the value it is made to
├── CannotReplayError (RuntimeError) a trace cannot be replayed with a change
├── CannotValidateError (RuntimeError) a trace cannot be validated, here or any more
├── MemoryLimitError (MemoryError) saving more would exhaust the memory
├── StoreError                    something about what is on disk
│   ├── DamagedError (ValueError)  bytes are missing or not what was written
│   ├── ExistsError (FileExistsError) something is there already and will not be overwritten
│   ├── LeaseError (RuntimeError)  somebody else is writing there
│   ├── NotFoundError (FileNotFoundError, KeyError) nothing of Cutaway's is at that path
│   └── VersionError (ValueError)  written by a newer Cutaway
├── MissingExtraError (ImportError) an optional package is not installed
└── MissingBundleError (FileNotFoundError) the web bundle was not built
"""


class CutawayError(Exception):
    """The root of all errors that Cutaway raises itself.

    Errors of the watched model are never wrapped: they pass through as they are.
    """

    def __init_subclass__(cls) -> None:
        # Tracebacks and docs name errors by their public address.
        if cls.__module__ == __name__:
            cls.__module__ = "cutaway.errors"

    def __str__(self) -> str:
        # KeyError would show the repr of its message, quotes and all.
        return str(self.args[0]) if self.args else ""


class InputError(CutawayError, ValueError):
    """An argument has a value that cannot be used."""


class InputTypeError(InputError, TypeError):
    """An argument has a type that cannot be used."""


class FitError(InputError):
    """A probe cannot be fitted to these rows and labels, or cannot predict from them."""


class SiteError(CutawayError, KeyError):
    """No tensor answers to the name that was asked for."""


class AmbiguousSiteError(SiteError):
    """Several tensors answer to the name that was asked for."""


class PositionError(SiteError, IndexError):
    """A position beyond the last op was asked for."""


class UnitError(CutawayError, ValueError):
    """Which dimension of a value counts units is not known, or it has no such unit."""


class SiteSyntaxError(CutawayError, ValueError):
    """The text is not a site: `encoder.2.attn/softmax.2:3` shows the order of the parts."""


class NotSavedError(CutawayError, LookupError):
    """The tensor was seen, but its value was not kept."""


class StaleValueError(CutawayError, RuntimeError):
    """The value was kept by reference, and the program has overwritten it since."""


class ShapesDifferError(CutawayError, ValueError):
    """The passes of an op have values of several shapes, which no single tensor can hold."""


class OpenTraceError(CutawayError, RuntimeError):
    """A trace was read before its `with` block had ended."""


class PathLimitError(CutawayError, RuntimeError):
    """There are more paths than the limit of the question allows."""


class EditError(CutawayError, ValueError):
    """A change does not fit the value it is to be made to, or what it takes its value from is not there."""


class CannotReplayError(CutawayError, RuntimeError):
    """The trace cannot be replayed with this change: what it reaches cannot be computed from saved values."""


class CannotValidateError(CutawayError, RuntimeError):
    """The trace cannot be validated: it was read from disk, or its model cannot be run again."""


class MemoryLimitError(CutawayError, MemoryError):
    """Saving the next values would exhaust the memory of this machine or device."""


class StoreError(CutawayError):
    """Something about what is, or is to be, on disk."""


class DamagedError(StoreError, ValueError):
    """Bytes on disk are missing, or are not what was written."""


class ExistsError(StoreError, FileExistsError):
    """Something lies at that path already, and will not be overwritten."""


class LeaseError(StoreError, RuntimeError):
    """Somebody else is writing there."""


class NotFoundError(StoreError, FileNotFoundError, KeyError):
    """Nothing that Cutaway wrote lies at that path, or nothing of that name in it."""


class VersionError(StoreError, ValueError):
    """It was written by a Cutaway with a newer format."""


class MissingExtraError(CutawayError, ImportError):
    """An optional package is needed here and not installed."""


class MissingBundleError(CutawayError, FileNotFoundError):
    """The script that draws interactive pictures was not built into this installation."""
