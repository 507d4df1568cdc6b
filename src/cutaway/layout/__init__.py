"""Graph layout: folding, and coordinates of boxes and lines. `web/src/layout` is the same in the browser.

coordinates      Assigns x coordinates along the rows of a layered layout
feedback         Routes feedback edges of rolled-up pictures in lanes beside their frame
focus            Opens modules around chosen nodes, and fades everything but their neighbors
fold             Folds a graph view into a picture: open groups, loops and repeated blocks
graph_view       The whole graph as columns: every op, module call and edge, before folding
layered          Layered layout of one level, in linear time
layers           Assigns members of a level to layers, and orders each layer to reduce crossings
pass_labels      Labels of edges that exist only in some passes of a loop
picture          A folded graph as boxes, frames and edges, without coordinates
place            Places all boxes, frames and lines of a picture
repeated_blocks  Finds runs of identical blocks, such as `h.0` to `h.23`, which a picture shows once, ×24
representatives  The node or group that represents each node: one pass for a loop, one block for a run
text_size        Estimates the size of text in a monospaced font
"""
