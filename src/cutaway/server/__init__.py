"""Displays views: the viewer as a web server, offline HTML files, notebook widgets. Imports no torch.

app         The viewer as a Starlette application: page, script, API
archives/   Finds, lists, opens and caches the archives in the served folders
browser     Opens a URL in the local browser
bundle      The web bundle: one script that draws every view
connection  HTTP connections, closed when their client sends no request or is gone
http        HTTP responses with ETags; query parameters; errors as JSON
page        Offline HTML file with the interactive view of one or more objects
prefetch    Computes the first responses of a page while the browser is still starting
routes/     HTTP routes, one file per kind of archive
security    Middleware: Host, Origin and token checks, security headers
serve       Binds a port and serves the viewer until interrupted
show        `show`: displays objects in a notebook, in the browser or as a file
sse         Server-sent events: notifies pages when runs grow or appear
view_json   Encodes views as JSON, optionally compressed
widget      The interactive view as an anywidget (JupyterLab, VS Code, Colab, marimo)
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
