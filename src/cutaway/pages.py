"""Pages: tables, charts and colored texts that notebooks, HTML files, the viewer and terminals show alike.

Nothing is imported until it is used.
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
