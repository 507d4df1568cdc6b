"""`edit`: changes values, parameters and ops inside a block.

boundary_check   Whether a change at the border of a module can be told from a change of the tensor that crosses
                 it
edit             The verb `edit`: a model behaves changed inside a block
new_values       What a value is changed to: a constant, a tensor, noise, a function of it, a value from elsewhere
op_edit          The values of single operations: a function mode that is on while a module with such a site runs
                 its own code
parameter_edits  Parameters while they are edited: the original is kept once, whoever edits it and in whatever
                 order they end
rebuild          Put other tensors into what a module was given or returned, whatever kind of container that is
regions          Which part of a value is meant: units, heads, positions, samples, or any index
targets          Where in a live model an edit is made: which modules, inputs, outputs, ops and parameters a site
                 names
token_positions  Where in a text the values of a running model stand
"""
