"""Steps that are kept or dropped when their results are known: tensors are held, and read only if the step is kept.

anomalies      How unusual each sample of a step is
held_hooks     The hooks of a step that may be dropped: they hold what they see
held_step      Holds what the hooks of a step see, and passes it on in order when the step is kept
sample_choice  Chooses the samples whose values are stored: indices, a mask, the largest…
"""
