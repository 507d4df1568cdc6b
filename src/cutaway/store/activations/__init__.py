"""Collected activations, on disk and in memory.

activations     Activations: rows of a corpus × units of a model, read block by block
in_memory       Wraps arrays and tensors as activations
sampling        Reads one unit at a time; a large collection is sampled evenly
save            `Activations.save`: writes the selected rows and units window by window
shards          Joins the shards of a collection that several processes wrote
sources         Protocol of activation sources; sources in memory and in an archive
unit_selection  Selects units of a collection and formats their names
windows         The windows (blocks of items) of a collection on disk
words           Lazy sequence of the words of all rows
writer          Writes a collection window by window; a crash loses at most the last window
"""
