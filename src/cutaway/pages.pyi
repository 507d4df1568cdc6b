"""Public names of `cutaway.pages` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway.views.pages.model import Bars as Bars
from cutaway.views.pages.model import ColoredText as ColoredText
from cutaway.views.pages.model import Column as Column
from cutaway.views.pages.model import Fact as Fact
from cutaway.views.pages.model import Facts as Facts
from cutaway.views.pages.model import Heatmap as Heatmap
from cutaway.views.pages.model import Histogram as Histogram
from cutaway.views.pages.model import Line as Line
from cutaway.views.pages.model import Lines as Lines
from cutaway.views.pages.model import Page as Page
from cutaway.views.pages.model import Prose as Prose
from cutaway.views.pages.model import Section as Section
from cutaway.views.pages.model import Series as Series
from cutaway.views.pages.model import Table as Table
from cutaway.views.pages.model import Text as Text
from cutaway.views.pages.result_pages import page_of as page_of
from cutaway.views.pages.results.units import neuron_page as neuron_page
from cutaway.views.pages.results.units import ranking_page as ranking_page
from cutaway.views.pages.unit_texts import units_text as units_text
