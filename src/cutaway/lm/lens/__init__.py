"""The logit lens: what each layer would have predicted.

lens    `gen.lens()`: the logit lens, which reads every layer with the model's own final norm and head
points  Where a lens reads the residual stream
scores  Computes the numbers of a lens from logits: ranks, probabilities, entropy, KL to the output
"""
