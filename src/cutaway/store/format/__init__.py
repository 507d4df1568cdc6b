"""The folder format: frames, records, segments, file names.

fields              Validates fields of decoded records; raises `DamagedError`
filenames           File names inside an archive
frames              Frames of an index file: a torn end or a flipped bit costs one record
manifest            `cutaway.json`: kind, id and format version of an archive
passes              Passes of recorded tensors: which rows are the same tensor, in execution order
problems            What went wrong while recording, as sentences
ragged              Ragged lists as flat arrays with offsets
records             Record types of an index, as validated dataclasses
sealed_files        Writes a sealed file under a temporary name, then renames it
segments            Value segments: tensors back to back, `.safetensors` once sealed
statistic_segments  Statistics segments: one matrix per step, transposed to curves when sealed
step_ranges         Many step numbers as few ranges: on a full disk, a few bytes must say which steps are lost
"""
