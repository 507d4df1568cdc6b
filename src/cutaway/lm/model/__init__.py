"""Finds the structure of a language model by tracing it, and runs the model again.

anatomy             Finds the parts of a language model from one traced run
block_parts         The parts of a block: what it adds to the residual stream, and where its heads or units are
blocks              Finds blocks: modules of one list that run one after another
feed_forward_units  Feed-forward units: of one network for all tokens, or of experts
forward_run         `PromptRun`: a loaded model with the exact ids it read and the targets to explain
frozen_norms        A norm with its scale frozen: an affine map, so that it distributes over sums
head                The logits of hidden states, computed by the model's own code after its last block
language_model      What a language model takes: `input_ids`, how many tokens it knows, and how many it reads
output_drift        Detects that a model no longer gives the outputs it gave when a text was generated
parts               The parts of a language model: stacks, blocks, contributions, heads and units
unit_values         The activations of feed-forward neurons by layer
wiring              Queries on a trace by node number
"""
