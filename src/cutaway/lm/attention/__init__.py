"""Attention weights, also where a fused kernel never materializes them.

attention  `gen.attention()`: attention weights by layer and head, within a memory limit
weights    Attention weights as the model uses them, also of fused kernels
"""
