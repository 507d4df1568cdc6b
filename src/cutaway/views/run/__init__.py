"""Recorded runs for the viewer: the graph, tensors, samples, outliers.

arrangement      Applies the user's layout overrides to the recorded dependency graph
changed_samples  The samples of a batch for "What changed here": share of the loss, how unusual each is
color_limits     Limits of a color scale for one run and one selection, the same at all its steps
companions       Companions of a tensor for one sample: a value per token, the model's output, and the target
filter_view      Filters on steps and samples: how each was understood, and what is left
kept_values      The kept values of a tensor at a step: the sample and unit dimensions, single samples
module_table     The modules of a recorded model as a table, with parameter counts
node_names       Names of the nodes of a dependency graph: label, enclosing modules, pass and iteration
node_order       Orders the nodes of a dependency graph for display
outliers         What is unusual among the tensors of a step, in words; siblings of a different magnitude
rows             One numbering of the rows of a run across all its schemas
run_graph        The dependency graph of a run as a `GraphView`: recorded tensors as nodes, grouped by module
run_view         A run for the viewer: its steps, rows, notes and metadata
sample_matrix    All statistics of one kept sample at a step, to color a graph by sample
sample_view      The kept samples of a step for the viewer: texts, tokens, labels, small images
spikes_view      The spikes of a curve, and the verdict on one of its steps
table_outliers   Outliers in a table with one row per unit or per sample
tensor_view      One tensor at one step for the inspector: statistics with z-scores, a picture, and its tables
training_marks   Tensors that training does not reach: no gradient, not updated, frozen; with since when
what_changed     What changed at a step: the verdict on a curve, the most unusual tensors and samples
"""
