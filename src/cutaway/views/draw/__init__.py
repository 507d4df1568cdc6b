"""Static pictures of graphs: SVG, PNG, PDF and DOT.

color_scale   The color scale of a measure: the fill of each box and the ramp in the legend
dot           Writes a picture as DOT text for Graphviz
draw          `trace.draw()`: draws a trace in the format that the file name asks for
labels        Short labels for shapes, sizes, parameters and module calls
legend        The header of a static picture: title, subtitle and legend
paint         Turns a laid-out picture into shapes, lines and texts in painting order
raster        Renders a scene as PNG or PDF with matplotlib
shapes        Format-independent shapes, lines and texts of a static picture
style         Colors and styles of static pictures, in a light and a dark palette
svg           Writes a scene as a self-contained SVG document
text_outline  Fast text for matplotlib: glyph outlines in PNG, selectable text in PDF
"""
