"""The only code that watches torch: function mode, module hooks, interventions, replay, validation.

api              The verbs `trace`, `watch` and `sites`
autograd_walk    Finding out what a tensor was computed from when the computation was not seen
composites       Opening Python composites
diff             The verb `diff`: what differs between two traces
eager            Compiled code runs its eager source as long as anybody here needs it to
failure          The operation that ended a capture: in words, and as what a graph can draw
function_mode    The function mode that sees every torch call of one thread
gradients        Gradients of the ops of a trace, pass by pass
interventions/   `edit`: changes values, parameters and ops inside a block
model/           A live model: its modules and their state, saved and restored around additional runs
module_hooks     Which module call is running: a stack kept by global module hooks
module_io        What goes into modules and comes out of them: inputs, outputs, passes
monkeypatch      What is switched on in torch and Python with the first capture of the process, and off with the
                 last
observe          Shows the values at some sites while a model runs: forward hooks at modules, a function mode at
                 single ops
outputs          The tensors in what a torch function returned, and what each is called
partial_trace    What a predicate sees of a trace while the model still runs
replay/          Runs parts of a trace again, or the whole model as it ran
resolver         From the stream of events to the graph: who made each argument, and what each value was
saved/           Which values of a trace are saved, and where
session          One capture, from entering its block to the finished tables
sessions         Which captures are running, and who watches the calling thread
tensors/         Live tensors: shared memory, copies, raw bytes
torch_functions  What is known of a torch function: what it is called, how it is to be handled, what it overwrites
torch_patches    What is replaced in torch and Python while a capture runs, and why
units/           Which dimensions of live tensors count units and samples
validation/      `trace.validate()`: proves a trace by replaying it with perturbed inputs
"""
