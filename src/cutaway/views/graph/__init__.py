"""The graph of a trace as data for a picture: nodes, colors, details.

color_values    The number by which a picture is coloured: of every node, and of every box that stands for several
conditions      What a picture says of conditionals: which boxes decide, and which edges lead off to a decision
from_trace      From a trace to its `GraphView`: which ops, sources and module calls are drawn, in which order,
                and what they say
identity_ops    Tensors that an op gave back as they were: behind which op their readers stand in a picture
measures        The numbers by which a graph can be coloured: what each op cost, and what its value is like
model_explorer  The graph of a trace as the JSON that Google's Model Explorer opens: every op, in layers as the
                modules are nested
module_groups   Which module calls can be frames of a picture, or be folded into a box, and how they lie within
                each other
node_signature  What tells two ops of one function and shape apart: a picture may draw them as one only if nothing
                does
op_details      Everything an op holds, in words and small pictures: what is shown when it is clicked
"""
