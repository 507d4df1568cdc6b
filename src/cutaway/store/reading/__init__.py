"""Reads archives: sessions, index, segments.

archive         An archive, opened for reading: its ranks, their sessions, and what lies in them
index           The index of one session, as far as it was read: it grows while the session is being written
lru_cache       What was read last, as far as a limit in bytes allows
segment_reader  Arrays out of segments, sealed or growing: each checked against what was written
"""
