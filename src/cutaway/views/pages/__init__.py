"""Result pages: one model of a page, written as HTML, text or data for the viewer.

html          Pages of plates as HTML that stands still: no script, styles beside each element, every text escaped
model         Pages of plates: the form in which results are shown, in a notebook, in a file, in the viewer and as
              text
page_items    Collections and saved results as entries of a list: what they are, before anything of them is read
provenance    Where a result comes from: its model by a name that people use, and what is technical, at the end of
              a page
result_pages  Results as pages: what `show` and a notebook make of each kind of result about units
results/      One page per kind of result
site_names    Sites as names of rows and columns: what all of them share is left out
text          Pages of plates as text: for a terminal, a log, a reader who has no browser
unit_texts    Texts colored by units: sentences colored by several units, and the top contexts of one unit
"""
