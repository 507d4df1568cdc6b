"""`edit`: changes values, parameters and ops inside a block.

edit             The verb `edit`: changes a model's values or parameters inside a block
new_values       New values for an edit: a constant, a tensor, noise, a function, a value from another site or trace
op_edit          Edits and observes results of single ops with a function mode, active only in the affected modules
parameter_edits  Edits parameters in place; overlapping edits can end in any order
rebuild          Replaces tensors in nested inputs and outputs of modules
regions          Selects a part of a value: units, heads, positions, samples, or any index
targets          Resolves `at=` to modules, inputs, outputs, ops and parameters of a live model
token_positions  Maps absolute token positions to the slice of the current step (KV cache)
"""
