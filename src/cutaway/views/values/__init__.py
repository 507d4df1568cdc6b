"""Single values: as numbers, as statistics, as small images.

image       The picture of an array: a line, a matrix or tiles, reduced to as many pixels as there is room for
numbers     A value of a trace as plain numbers, whatever it is: a tensor of any kind, an array, a number, a list
summaries   Statistics of many small arrays at once, and the histogram of one
value_view  A value in a few hundred bytes: its statistics, its histogram, a small picture of it
"""
