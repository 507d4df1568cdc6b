"""Units, samples and positions: what the dimensions of a value count, decided from the graph and never from sizes.

layout        the answer for one value, as plain data: `UnitLayout`
unit_sites    sites of units together with the layouts by which they were counted
factors       every dimension is a list of factors; cutting, linking and putting them together
calls         values and calls as the rules see them; what an elementwise operation makes of several factors
reshape       view, reshape, flatten
contractions  what a product makes of the factors of its operands
layers        rules of functions that fix units
products      rules of products of matrices and tensors
carriers      rules of functions that carry units along
reductions    rules of reductions and losses
space         rules of pools, windows and packed sequences
indexing      rules of indexing, gathering and writing into parts
rules         the table: function → rule
reading       from the factors of a value to its layout
"""
