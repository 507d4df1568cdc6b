"""Records training runs: when to look, what to measure, what to write.

autograd_graph  A dependency graph without a trace: by what autograd knows
backward_calls  Which call runs the autograd engine now: `backward()`, whose gradients train, or
                `torch.autograd.grad`
environment     What is noted beside a run: the modules of the model, versions, and the machine
error_guard     The wall between recording and the program: what is ours runs unseen, and its failures stay with
                us
gradients       Gradients of one recorded step: `grad`, its parts `grad/<loss>`, and `inner_grad`
hooks           The hooks of one recorded step: results of modules, gradients, what the optimizer reads and
                changes
models          What is recorded: one model or several, and the names of their modules, parameters and buffers
module_calls    Calls of the model's modules, seen without hooks: each module's call is wrapped for the length of
                a step
op_values       Steps that are traced as well: for results of single ops, and for the dependency graph of a new
                structure
optimizers      Steps of optimizers, whichever the program has, told to whoever watches
recorded_units  Which dimensions of recorded tensors count units and samples: learned from a traced step, kept for
                the whole run
recorder        `cutaway.record`: watch a training run step by step, without changing it
sample_fields   What the samples of a batch are, as the user says it: the entries of the kept ones, fetched when
                the step is over
scalars         Numbers that were logged but may still be computed by a device: they are fetched later, so that
                nobody waits
schedules/      Schedules: which steps a recorder records
settings        How a run is recorded
shutdown        The end of a program that has forgotten to close its recorder
statistics/     Statistics of recorded tensors on CPU and GPU
step            One step that is being recorded, from its first hook to the record that is handed to the writer
step_graph      The dependency graphs of a run: one for each distinct structure of its steps, found by tracing one
                step of it
tensors         What was seen in one recorded step: which tensors, their statistics, and the values that are kept
                of them
values          Values that are kept: those of the first samples of a batch, or of chosen ones, brought to the CPU
                at the end
"""
