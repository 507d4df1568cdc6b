"""Analysis results on disk.

decode       A result out of plain data and named arrays: every value is held against the type hint of the field
             it is for
encode       From a result to plain data and named arrays, from which `results_reading` makes it again
result_file  Results on disk: `ranking.save(path)`, and what `cutaway.load(path)` makes of it without torch
types        What a type hint allows: the types it names, what it says of the items of a row and of the entries of
             a mapping
"""
