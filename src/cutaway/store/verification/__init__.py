"""`cutaway verify`: checks every byte of an archive.

activations  Checks that the windows of a collection are complete and consistent
index        Checks every byte of an index file; guesses what a damaged range was
report       Collects damage (with its cost) and remarks, as sentences
results      Checks that a saved result can be read
segments     Checks every byte of a segment against the checksums in the index
verify       `verify`: checks every byte of an archive against its checksums
"""
