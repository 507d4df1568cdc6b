"""Units, samples and positions: what the dimensions of a value count, decided from the graph and never from sizes.

calls         Values and calls as the rules see them: shapes, factors and arguments, without a single number of
              the data
carriers      Rules of functions that carry units along: elementwise operations, views, slices, pools, reductions
contractions  Products: matmul, einsum, attention and their kin, written with letters
factors       Factors: every dimension of a value is an ordered list of them, and each knows what it counts
indexing      Rules of indexing, gathering and writing into a part of a tensor
layers        Rules of functions that fix units: convolutions, linear layers, embeddings, norms, recurrent layers
layout        The answer for one value: which axes count its units, which its samples, which its positions
products      Rules of products of matrices and tensors: each written with letters, for `contract`
readout       Reading a value: from its factors, and from what others say of them, to the axes that count units
reductions    Rules of reductions, losses and of rows that the data chose
reshape       Reshaping: the factors of a value are split and merged, and parts that meet again are put together
              again
rules         The table of rules: the name of a function → how the factors of its results follow from those of its
              arguments
space         Rules of functions over space and time: pools, interpolation, windows, packed sequences
unit_sites    Sites of units that carry the layouts by which they were counted, so that whoever reads them counts
              alike
"""
