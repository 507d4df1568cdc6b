"""Result pages: one data model of a page, rendered as HTML, text or data for the viewer.

html          Renders a page as static HTML: no scripts, inline styles, all text escaped
model         The data model of a page: sections with blocks
page_items    Collections and saved results as entries of the viewer's list
provenance    Where a result comes from: the name of its model, versions and options
result_pages  The page of each kind of result
results/      One page per kind of result
site_names    Short names of sites for rows and columns
text          Renders a page as plain text, for terminals and logs
unit_texts    Texts colored by units: sentences colored by several units, and the top contexts of one unit
"""
