"""Graph layout: what is folded, and where boxes and lines go. `web/src/layout` does the same in the browser.

coordinates      Coordinates along the rows of a layered layout: straight main lines, nothing on top of each other
feedback         Edges that go back, in rolled-up pictures: beside what their frame holds, after all the rest has
                 its place
focus            A picture about a part of a graph: what is opened for it, which boxes hold it, which are there
                 for orientation
fold             What is shown of a graph: which groups are open, which loops and repeated blocks are drawn once
graph_view       The graph of a trace as data for one picture: every op, every module call, every edge, before
                 anything is folded
layered          Where to put boxes and lines: a layered layout from top to bottom, in time linear in their number
layers           Which layer each member of a level stands in, and in what order: from who feeds whom, and from
                 nothing else
pass_labels      In which passes of a loop an edge of a rolled-up picture is there
picture          A picture of a graph as boxes, frames and edges: what is to be drawn, before anything has a place
place            Where everything in a picture goes
repeated_blocks  Runs of identical blocks in a graph: `h.0` to `h.23`, which a picture shows once, ×24
representatives  Who stands for whom in a folded graph: one pass for all passes of a loop, one block for all
                 identical ones
text_size        How much room text takes in a picture: a monospaced font, measured by counting characters
"""
