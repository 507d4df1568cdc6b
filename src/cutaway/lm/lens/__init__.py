"""The logit lens: what each layer would have predicted.

lens    `gen.lens()`: what each layer would have written, read by the model's own final norm and head
points  Where a lens looks: the stream before the first block, after each, and on request inside of them
scores  Logits into the numbers of a lens, in pieces that stay small: ranks, probabilities, entropy, distance to
        the end
"""
