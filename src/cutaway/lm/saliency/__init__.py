"""Saliency of input tokens: gradients, occlusion, rollout.

baselines      What stands for "nothing there": zeros, a token, or a vector, as the embedding would give it
gradients      Saliency by gradients: one forward for the whole text, and a batch of vectors that go back through
               it
memory         How much memory gradients need, known before they are asked for: from two short runs, once for each
               model
occlusion      Saliency by occlusion: how each value changes when one token is taken away, many of these texts as
               a batch
rollout        What attention lets through, from the row of a target down to the tokens: rollout and flow (Abnar &
               Zuidema 2020)
saliency       `gen.saliency()`: how much each token mattered to each token that was written
target_groups  Targets in groups that share a forward: what goes back for a target need not pass the text that
               stands behind it
targets        What is explained: one number for each target, made of the logits of its row
"""
