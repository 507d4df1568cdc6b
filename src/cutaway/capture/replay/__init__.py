"""Reruns parts of a trace, or the whole model with its original inputs and state.

call        Replays one function call of a trace on saved values, with the original autocast, grad mode and RNG
edges       Which users of a tensor see a change at an input or output of a module
patch_path  `trace.patch_path`: an edit that only some readers see, along some paths
recipe      Records how a model was called, so that it can be called again
replay      `trace.replay`: recomputes only the ops that a change affects
rerun       Reruns a traced model with the same arguments, buffers and random numbers
separate    Tells two names of one tensor apart, by tracing the model again with a copy under one of them
"""
