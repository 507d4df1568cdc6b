"""All exceptions that Cutaway raises, as one class tree.

CutawayError
├── InputError (ValueError)       an argument has an invalid value
│   ├── InputTypeError (TypeError) an argument has the wrong type
│   └── FitError (ValueError)     a probe cannot be fitted to this data, or cannot predict from it
├── SiteError (KeyError)          no tensor has this name
│   ├── AmbiguousSiteError        several tensors have this name
│   └── PositionError (IndexError) the index of an op is out of range
├── UnitError (ValueError)        the unit dimension is unknown, or there is no such unit
├── SiteSyntaxError (ValueError)  the text does not follow the grammar of sites
├── NotSavedError (LookupError)   the trace has the tensor, but its value was not saved
├── StaleValueError (RuntimeError) the value was saved by reference and has been overwritten
├── ShapesDifferError (ValueError) the passes of an op have different shapes and cannot be stacked
├── OpenTraceError (RuntimeError) a trace was read before its `with` block ended
├── PathLimitError (RuntimeError) there are more paths than the limit allows
├── EditError (ValueError)        the new value does not fit the value it replaces
├── CannotReplayError (RuntimeError) a trace cannot be replayed with this change
├── CannotValidateError (RuntimeError) a trace cannot be validated, for example because it was loaded from disk
├── MemoryLimitError (MemoryError) saving more values would run out of memory
├── StoreError                    reading from or writing to disk failed
│   ├── DamagedError (ValueError)  data is missing or corrupted
│   ├── ExistsError (FileExistsError) the path already exists and is not overwritten
│   ├── LeaseError (RuntimeError)  another process is writing to this path
│   ├── NotFoundError (FileNotFoundError, KeyError) no Cutaway data at this path
│   └── VersionError (ValueError)  written by a newer version of Cutaway
├── MissingExtraError (ImportError) an optional package is not installed
└── MissingBundleError (FileNotFoundError) the web bundle has not been built
"""


class CutawayError(Exception):
    """Base class of all errors that Cutaway raises.

    Errors raised by your model are never wrapped: they propagate unchanged.
    """

    def __init_subclass__(cls) -> None:
        # Tracebacks and docs name errors by their public address.
        if cls.__module__ == __name__:
            cls.__module__ = "cutaway.errors"

    def __str__(self) -> str:
        # KeyError would show the repr of its message, quotes and all.
        return str(self.args[0]) if self.args else ""


class InputError(CutawayError, ValueError):
    """An argument has an invalid value."""


class InputTypeError(InputError, TypeError):
    """An argument has the wrong type."""


class FitError(InputError):
    """A probe cannot be fitted to these rows and labels, or cannot predict from them."""


class SiteError(CutawayError, KeyError):
    """No tensor has the name that was asked for."""


class AmbiguousSiteError(SiteError):
    """Several tensors have the name that was asked for."""


class PositionError(SiteError, IndexError):
    """The index of an op is out of range."""


class UnitError(CutawayError, ValueError):
    """The unit dimension of a value is unknown, or it has no such unit."""


class SiteSyntaxError(CutawayError, ValueError):
    """The text is not a site; `encoder.2.attn/softmax.2:3` shows the order of the parts."""


class NotSavedError(CutawayError, LookupError):
    """The trace has the tensor, but its value was not saved."""


class StaleValueError(CutawayError, RuntimeError):
    """The value was saved by reference, and the program has overwritten it since."""


class ShapesDifferError(CutawayError, ValueError):
    """The passes of an op have different shapes, so they cannot be stacked into one tensor."""


class OpenTraceError(CutawayError, RuntimeError):
    """A trace was read before its `with` block ended."""


class PathLimitError(CutawayError, RuntimeError):
    """There are more paths than `limit` allows."""


class EditError(CutawayError, ValueError):
    """The new value does not fit the value it replaces, or its source is not available."""


class CannotReplayError(CutawayError, RuntimeError):
    """The trace cannot be replayed with this change: an affected value cannot be computed from saved values."""


class CannotValidateError(CutawayError, RuntimeError):
    """The trace cannot be validated: it was loaded from disk, or its model cannot be run again."""


class MemoryLimitError(CutawayError, MemoryError):
    """Saving the next values would run out of memory on this machine or device."""


class StoreError(CutawayError):
    """Base class of errors about data on disk."""


class DamagedError(StoreError, ValueError):
    """Data on disk is missing or corrupted."""


class ExistsError(StoreError, FileExistsError):
    """The path already exists and is not overwritten."""


class LeaseError(StoreError, RuntimeError):
    """Another process is writing to this path."""


class NotFoundError(StoreError, FileNotFoundError, KeyError):
    """There is no Cutaway data at this path, or nothing with this name in it."""


class VersionError(StoreError, ValueError):
    """The data was written by a version of Cutaway with a newer format."""


class MissingExtraError(CutawayError, ImportError):
    """An optional package is needed and not installed."""


class MissingBundleError(CutawayError, FileNotFoundError):
    """The web bundle that draws interactive pages is missing from this installation."""
