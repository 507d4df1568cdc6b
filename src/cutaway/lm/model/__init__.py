"""The structure of a language model, found by tracing it, and how it is run again.

anatomy             What a language model is made of, read off one traced run: embedding, blocks, what each adds,
                    tail and head
block_parts         Inside a block: where something is added to the stream, what it is, and where its heads or
                    units are
blocks              Blocks: modules of one list that run one after the other, each on what the one before returned
feed_forward_units  Feed-forward units: of one network for all tokens, or of experts that each take some of them
forward_run         A reading: a loaded model, exactly the ids it read, and what is explained
frozen_norms        A norm with its scale held still at what it was: then it is an affine map, and sums pass
                    through it
head                The tail: what a model makes of a hidden state behind its last block
output_drift        Whether a model still says what it said when a text was written
parts               The parts of a language model, as nouns: stacks of blocks, what each adds to the stream, heads
                    and units
unit_values         The activations of feed-forward neurons, layer by layer
wiring              A trace as bare numbers: which node was made from which, in which module call, and by what
                    name a site finds it
"""
