"""Passes that the recorder runs itself, beside those of the program, without changing the training.

backward_check  Decides whether an extra backward pass would run code of the program
batch_copy      Copies of a batch, how a model is called with one, and its fingerprint
edited_steps    Steps under `cutaway.edit`: which edits ran, and the kind that such a step gets
fixed_batches   `run.fixed_batch`: the same samples pass through the model over the whole training
losses          `run.backward`: one backward pass of the sum, and extra ones for the part of each loss
"""
