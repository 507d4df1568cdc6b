"""What the viewer has open: archives below the served folders, listed, opened and cached.

catalog        The list of what is in the opened folders
folders        The folders that were opened: what of Cutaway's lies below them
open_archives  What is open: asked one question at a time each, let go when all take too much memory together
result_shelf   What the viewer shows as pages: collections and saved results, opened
"""
