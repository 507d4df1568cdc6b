"""Finds, lists, opens and caches the archives in the served folders.

catalog        The list of archives: reads ended ones once, reads a long list in the background
folders        The served folders and the archives in them; nothing outside them is ever read
open_archives  LRU cache of open archives; serializes access to each
result_shelf   Open activations and results, which the viewer shows as pages
"""
