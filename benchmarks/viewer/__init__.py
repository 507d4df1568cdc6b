"""Cost of the interactive pages, measured in a real browser.

graph  The graph of one trace: first paint, panning, opening a block
page   `cutaway view`: first paint, from a key to the pixels, memory, size
"""
