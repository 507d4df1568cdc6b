"""Shows views on screen: the viewer, offline HTML files, notebooks. No torch.

app        The viewer as a web application: one page, the script that draws it, and what the script asks for
archives/  What the viewer has open: archives below the served folders, listed, opened and cached
browser    The browser of whoever sits at this machine
bundle     The web bundle: one script that draws every view, in a file as in a notebook
http       What goes back to the page: JSON, raw numbers and files, each with a tag that says when it has changed
page       One offline HTML file with the interactive picture of one or several things
prefetch   What a page asks first is got ready while the browser still opens its window
routes/    HTTP routes, one file for each kind of archive
security   Who may ask the viewer, and what its answers may do: the door in front of everything it serves
serve      The viewer on a port of this machine: listens at once, serves until it is interrupted, and then ends at
           once
show       `show`: things on a screen, in the notebook, in the browser or as a file, whichever fits
sse        Server-sent events: a page is told when runs grow or come
view_json  Views as compressed JSON, the form in which they travel to a browser
widget     The interactive picture in a notebook, as an anywidget: JupyterLab, VS Code, Colab and marimo take the
           same one
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
