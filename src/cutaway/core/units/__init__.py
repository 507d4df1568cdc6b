"""Which dimensions of a value are units, samples and positions, decided from the graph of the model, never from sizes.

calls         Values and calls as the rules see them: shapes, factors and arguments, without data
carriers      Rules of functions that carry units: elementwise functions, views, slices, concatenation, sorting
contractions  The general rule of products (matmul, einsum, attention), in einsum notation
factors       Factors: each dimension is an ordered list of factors, each of which counts units, samples or positions
indexing      Rules of indexing, gathering and scattering
layers        Rules of functions that fix units: convolutions, linear layers, embeddings, norms, recurrent layers
layout        `UnitLayout`: the axes of a value that count units, samples and positions
products      Rules of matrix and tensor products, each as an einsum for `contract`
readout       Computes the `UnitLayout` of a value from its factors and from the layers that read it
reductions    Rules of reductions, of losses and of rows that the data selects
reshape       The rule of reshapes: splits and merges factors, and restores factors that were split before
rules         The table of rules: name of a function → rule that gives the factors of its results
space         Rules of functions over space and time: pooling, interpolation, windows, packed sequences
unit_sites    Lists of unit sites together with their unit layouts
"""
