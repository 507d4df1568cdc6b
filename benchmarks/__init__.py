"""What Cutaway costs, measured beside its peers in one run: `make bench`, or `python -m benchmarks --help`.

capture/    Tracing, validation, edits, replay
language/   Saliency and lens
measure     Paired measurement: a variant beside the plain run next to it
neurons/    Collecting, ranking, probes
peers/      Other tools, each in an environment of its own
recording/  Recording a training run
report      A figure, and how it is printed beside its aim and its peer
store/      Writing and reading archives
sweep/      Traces and validates a thousand architectures
viewer/     The interactive pages, in a real browser
"""
