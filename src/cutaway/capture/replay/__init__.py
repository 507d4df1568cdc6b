"""Runs parts of a trace again, or the whole model as it ran.

call    Call one function of a trace again, on the saved values of its parents and under the conditions of then
recipe  How a model was called, noted when the call begins, so that it can be called once more
replay  `trace.replay`: what the trace would be with a change, computed from where the change matters
rerun   Run a traced model once more as it ran then: same arguments, same buffers, same random numbers
"""
