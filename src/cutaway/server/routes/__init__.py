"""HTTP routes, one file for each kind of archive.

pages    What is asked of collections and saved results: the page of each, and that of one unit
runs     What is asked of whole runs: the list, what a run holds, its graph and modules, numbers of one step,
         curves
tensors  What is asked of one tensor at one step: its view, all its kept values, its units, its samples
traces   What is asked of saved traces: the graph of ops, and what one op holds
"""
