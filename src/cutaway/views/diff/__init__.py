"""Two traces as one graph, with new, removed and changed ops marked.

diff_graph     Builds and draws the graph of a diff, with every difference marked
merge          Merges two graph views: the second one, with the removed nodes of the first inserted
removed_nodes  Plans where the removed nodes of the first graph go in the second
"""
