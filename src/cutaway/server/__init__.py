"""Views on a screen: the offline HTML file, the notebook, the browser. No torch."""
