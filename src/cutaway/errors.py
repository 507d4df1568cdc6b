"""Every error that Cutaway raises; `cutaway.CutawayError` is the root of them all."""

from cutaway.core.errors import AmbiguousSiteError as AmbiguousSiteError
from cutaway.core.errors import CannotReplayError as CannotReplayError
from cutaway.core.errors import CannotValidateError as CannotValidateError
from cutaway.core.errors import CutawayError as CutawayError
from cutaway.core.errors import DamagedError as DamagedError
from cutaway.core.errors import EditError as EditError
from cutaway.core.errors import ExistsError as ExistsError
from cutaway.core.errors import FitError as FitError
from cutaway.core.errors import InputError as InputError
from cutaway.core.errors import InputTypeError as InputTypeError
from cutaway.core.errors import LeaseError as LeaseError
from cutaway.core.errors import MemoryLimitError as MemoryLimitError
from cutaway.core.errors import MissingBundleError as MissingBundleError
from cutaway.core.errors import MissingExtraError as MissingExtraError
from cutaway.core.errors import NotFoundError as NotFoundError
from cutaway.core.errors import NotSavedError as NotSavedError
from cutaway.core.errors import OpenTraceError as OpenTraceError
from cutaway.core.errors import PathLimitError as PathLimitError
from cutaway.core.errors import PositionError as PositionError
from cutaway.core.errors import ShapesDifferError as ShapesDifferError
from cutaway.core.errors import SiteError as SiteError
from cutaway.core.errors import SiteSyntaxError as SiteSyntaxError
from cutaway.core.errors import StaleValueError as StaleValueError
from cutaway.core.errors import StoreError as StoreError
from cutaway.core.errors import UnitError as UnitError
from cutaway.core.errors import VersionError as VersionError
