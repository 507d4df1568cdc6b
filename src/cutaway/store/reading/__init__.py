"""Reads archives: sessions, index, segments.

archive         An archive opened for reading: ranks, sessions, documents, blocks
flight_ring     Reads the ring file that a killed flight recorder left
index           Reads the index of one session, incrementally while it grows
lru_cache       LRU cache of arrays with a byte limit
segment_reader  Reads arrays from segments, sealed or growing, and verifies their checksums
"""
