"""Attention weights, also where a fused kernel never materializes them.

attention  `gen.attention()`: which token looked at which, within a limit of memory that is known before anything
           runs
weights    Weights of attention, as the model computes with them, also where a fused kernel never writes them down
"""
