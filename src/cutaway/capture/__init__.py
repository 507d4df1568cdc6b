"""Captures what torch runs: function mode, module hooks, interventions, replay, validation.

api              The verbs `trace`, `watch` and `sites`
arguments        The tensors in the arguments of torch functions and modules
autograd_walk    Finds what a tensor was computed from by walking the autograd graph, if its ops were not captured
diff             The verb `diff`: compares the structure and values of two traces
failure          Records the op that raised the error which ended a capture
function_mode    The torch function mode that captures every torch call of one thread
gradients        Captures the gradients of ops in each backward pass
interventions/   `edit`: changes values, parameters and ops inside a block
misuse           Explains wrong calls of the verbs: no model, inputs that do not fit, a block that was never entered
model/           Modules, state and RNG of a live model, and how to restore them after additional runs
module_hooks     Tracks the running module call with global module hooks
module_io        Records inputs, outputs and passes of module calls
observe          Calls back with the values at sites while a model runs: module hooks, and a function mode for ops
outputs          The tensors in the result of a torch function, and their paths
partial_trace    The unfinished trace that a `save=` predicate sees while the model runs
patches/         What is replaced in torch and Python while a capture or an edit runs
replay/          Reruns parts of a trace, or the whole model with its original inputs and state
resolver         Builds the graph from the stream of events: finds the producer of each argument, saves values
saved/           Decides which values of a trace are saved, and where
session          One capture, from entering its block to the finished trace
sessions         The running captures, and which of them watch the current thread
tensors/         Live tensors: shared memory, copies, raw bytes
torch_functions  Name, category and overwritten arguments of each torch function
unexplained      Finds constants that were created during the run, by code that capture cannot see
units/           Which dimensions of live tensors are units and samples
validation/      `trace.validate()`: proves a trace by replaying it with perturbed inputs
"""
