"""Reads and writes NeuroX files.

read   Reads NeuroX activations, HDF5 or JSON lines
write  Writes activations as NeuroX files, HDF5 or JSON lines
"""
