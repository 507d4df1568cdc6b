"""The graph of a trace as data for a picture: nodes, colors, details.

color_values    The values behind `color_by=`: one number for each node and each box
conditions      The lines in a picture about the conditionals that an op decided
from_trace      Builds the `GraphView` of a trace: nodes, groups and edges with their labels
identity_ops    Edges from ops that returned their input unchanged, such as dropout in eval mode
measures        The measures by which a graph can be colored: costs and value statistics of every op
model_explorer  Exports the graph of a trace as JSON for Google's Model Explorer
module_groups   The module calls that can be frames or folded boxes, and how they are nested
node_signature  Signatures of ops, equal where a picture may draw two ops as one
op_details      The details of an op for the inspector: facts, arguments, source, values and gradients
"""
