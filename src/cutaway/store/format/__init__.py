"""The folder format: frames, records, segments, file names.

fields              Fields of records of unknown origin: each is what it should be, or `DamagedError` says what it
                    is instead
filenames           What the files of an archive are called
frames              Frames: how records lie in an index file, so that a torn end or a flipped bit costs one record
                    and no more
manifest            `cutaway.json`: what a folder is, and in which version of the format
passes              The passes of recorded tensors: which rows of a schema hold the same tensor, and in which
                    order it was computed
ragged              Lists of unequal length as flat arrays and the offsets at which each begins
records             Records: what a frame can hold, as checked dataclasses
sealed_files        A finished file is written beside and then renamed: whoever looks sees none of it, or all
segments            Segments of values: tensors back to back, growing as `.part`, a valid `.safetensors` file once
                    sealed
statistic_segments  Segments of statistics: one matrix a step while they grow, turned once they are sealed
"""
