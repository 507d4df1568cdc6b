"""Files in the formats of NeuroX.

read   Files that NeuroX extracted, HDF5 or JSON lines, as activations
write  Activations as files that NeuroX reads: HDF5 or JSON lines, for all layers or one file for each
"""
