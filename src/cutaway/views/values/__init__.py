"""Views of single values: numbers, statistics and small images.

image       Renders an array as a small grayscale image: a line, a matrix or tiles
numbers     Reads any value as numbers: tensors of any kind, arrays, Python numbers, lists
summaries   Statistics of many small arrays at once, and the histogram of one
value_view  The view of one value: statistics, histogram and a small image
"""
