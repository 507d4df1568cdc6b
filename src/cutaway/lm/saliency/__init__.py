"""Saliency of input tokens: gradients, occlusion, attention rollout and flow.

To add a method, write its function in a file here and add a line to `METHODS` in `results/lm/saliency.py`.

attention_paths  Saliency by attention rollout and attention flow
baselines        Baselines for integrated gradients and occlusion: zeros, a token, or a vector
gradients        Saliency by gradients: gradient, gradient × input, integrated gradients
memory           Estimates the memory that gradients need before they run
occlusion        Saliency by occlusion: how each target changes when one token is replaced or masked
rollout          Attention rollout and attention flow as functions of attention weights
saliency         `gen.saliency()`: runs a method and builds the result
target_groups    Groups of targets that share a forward pass
targets          The value that is explained: one number per target, from the logits of its row
task             What a saliency method receives and what it returns
"""
