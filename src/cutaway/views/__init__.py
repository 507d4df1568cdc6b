"""Traces, runs and results as data for pictures and pages. No torch.

diff/     Two traces as one graph: what is new, removed or changed
draw/     Static pictures of graphs: SVG, PNG, PDF and DOT
graph/    The graph of a trace as data for a picture: nodes, colors, details
pages/    Result pages: one model of a page, written as HTML, text or data for the viewer
run/      Recorded runs for the viewer: the graph, tensors, samples, outliers
showable  Whatever can be shown: its view, what each op of it holds, and a picture of it that stands still
values/   Single values: as numbers, as statistics, as small images
"""
