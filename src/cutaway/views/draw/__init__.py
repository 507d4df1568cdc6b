"""Static pictures of graphs: SVG, PNG, PDF and DOT.

color_scale   Colour by a number: which fill each box gets, and what the ramp in the legend says
dot           A picture as DOT text, for Graphviz and whatever else reads that language
draw          `trace.draw`: from a trace to a picture in a file, in the format that its name asks for
labels        How pictures name things: shapes, sizes, parameters and module calls in few words
legend        What stands above a static picture: its title, its size in words, and what its shapes and colours
              mean
paint         From a picture with places to shapes, lines and texts in the order in which they are painted, header
              included
raster        A picture as PNG or PDF, drawn with matplotlib
shapes        What is painted: shapes, lines and texts with their places, before anything knows in which format
style         How things look in a static picture: colours by day and by night, and what each kind of thing is
              made of
svg           A picture as SVG text: one document that needs nothing from outside
text_outline  Text for matplotlib, put down where it is to stand: as outlines in pixels, as text that can be
              selected in PDF
"""
