"""`cutaway verify`: checks every byte of an archive.

activations  Whether the windows of a collection follow each other to its end, and say what they should
index        Reads every byte of an index file, and says what a damaged stretch of it most likely was
report       What a check of an archive finds, in sentences: problems with what they cost, and what is merely
             worth saying
results      Whether a saved result can be made again of what is there
segments     Reads every byte of a segment, sealed or growing, and holds it against the checksums in the index
verify       `cutaway verify`: every byte of an archive is read and held against what was written

    activations  Whether the windows of a collection follow each other to its end, and say what they should
    index        Reads every byte of an index file, and says what a damaged stretch of it most likely was
    report       What a check of an archive finds, in sentences: problems with what they cost, and what is merely
                 worth saying
    results      Whether a saved result can be made again of what is there
    segments     Reads every byte of a segment, sealed or growing, and holds it against the checksums in the index
    verify       `cutaway verify`: every byte of an archive is read and held against what was written
"""
