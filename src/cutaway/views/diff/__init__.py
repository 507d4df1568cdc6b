"""Two traces as one graph: what is new, removed or changed.

diff_graph     A diff as one graph: the second trace, with what is new, changed or apart marked, and what is gone
               put back
merge          One graph out of two: the second, with what only the first has put in where it would have stood
removed_nodes  Where in a graph the ops stand that only another graph has: those that are gone
"""
