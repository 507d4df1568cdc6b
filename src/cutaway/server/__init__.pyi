"""Public names of `cutaway.server` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway.server.app import Viewer as Viewer
from cutaway.server.app import viewer as viewer
from cutaway.server.page import to_html as to_html
from cutaway.server.serve import Server as Server
from cutaway.server.serve import listening as listening
