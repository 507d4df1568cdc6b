"""Collected activations on disk and in memory.

activations     Activations: rows of a corpus × units of a model, in memory or on disk, read a part at a time
in_memory       Arrays and tensors at hand as activations
sampling        One unit of a collection at a time, in memory: of a large collection, as an even sample of its
                windows tells
save            `Activations.save`: chosen rows and units, written window by window
shards          Activations in several parts, read as one: what the processes of a job collected, each its share
                of the corpus
sources         Where activations lie: in memory, or in the windows of an archive, of which one at a time is
                mapped
unit_selection  Which units of a collection are looked at, and how their names are written
windows         The windows of a collection: which blocks of an archive follow each other from the first item on
words           The words of many rows as a sequence that is read when it is looked at
writer          The writer of a collection: windows of a corpus, one after the other, so that a kill costs the
                last one at most
"""
