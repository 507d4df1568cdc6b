"""Records training runs: hooks, statistics, schedules and what is written.

coverage        What a run should have shown and did not: unseen models, forgotten steps, unregistered layers
environment     Documents stored with a run: module tree, versions, machine, config; the rank
error_guard     Runs recorder callbacks with hooks and modes disabled; logs exceptions instead of raising
extra_passes/   Passes that the recorder runs itself: gradients of each loss, fixed batches, edited steps
facts/          Facts of a step that are no tensors: learning rates, modes, micro-batches, clipping
flight/         The flight recorder: numbers of the last steps, written when something goes wrong
held/           Steps that are kept or dropped when their results are known
hooks/          What a recorded step attaches to models, tensors and optimizers, and reads from them
models          The recorded model or models: names of their modules, parameters and buffers
optimizers      One pair of global optimizer hooks that notifies every recorder
recorded_units  Unit and sample dimensions of recorded tensors, learned from a traced step
record          `cutaway.record`: the public verb with all its options
recorder        The `Recorder` that it returns: writes a training run step by step without changing it
run_folder      Chooses the folder of a run: the path or, if it is taken, a numbered one that all ranks agree on
sample_fields   Fields that describe the samples of a batch: text, tokens, labels, images
scalars         Logged scalars that may still be on a GPU: copied without waiting, written later
schedules/      Schedules: rules that decide which steps a recorder records
settings        Settings of `cutaway.record`, and their checks
shutdown        Closes a recorder at exit if the program has not
statistics/     Statistics of recorded tensors on CPU and GPU
step            One step: its context manager, and its recording from the first hook to the record
step_cycle      The life of steps: counts them, decides which are recorded, and gives them to the writer
step_graph      The structures of a run: their rows in an order that stays, and one dependency graph for each
tensors         The tensors of one recorded step: their keys, statistics and stored values
usage           Detects mistakes in how a recorder is called, and says how to call it
values          Copies the values of selected samples and moves them to the CPU
"""
