"""Recorded runs for the viewer: the graph, tensors, samples, outliers.

arrangement    The recorded dependency graph as the user wants to see it: hidden nodes, groups, order and names of
               their own
companions     What stands beside a tensor where one sample is looked at: a number for each token, the output, the
               target
kept_values    The kept values of a tensor at a step: which dimension counts samples and which units, one sample,
               normalized
module_table   The modules of a recorded model as a table: how many parameters each has, alone and with all below
               it
node_names     What the nodes of a dependency graph are called in a picture, which modules are around them, which
               pass they are
node_order     The nodes of a dependency graph in an order that suits a picture: parents first, those of one
               module together
outliers       Which tensors of a step stand out: z-scores among those of the same role, and siblings of another
               size
rows           The rows of a run in one numbering over all its schemas, and matrices and curves in that numbering
run_graph      The dependency graph of a run as a `GraphView`: recorded tensors as nodes within the modules they
               belong to
run_view       A run as the viewer's first page of facts: its steps, the rows of its matrices, what stands beside
               them
sample_matrix  All statistics of one kept sample at a step, so that a graph can be coloured by it as by the whole
               batch
sample_view    What the kept samples of a step are, for a page: texts, tokens, labels, small images
tensor_view    One tensor at one step, for the inspector: statistics with marks, a picture, what its tables hold
"""
