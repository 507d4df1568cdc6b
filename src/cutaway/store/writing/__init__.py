"""Writes archives in a background thread; a crash at any moment loses only unacknowledged data.

flight_ring    Ring file of the flight recorder: memory-mapped, so that it survives `kill -9`
folders        Claims the folder of an archive: a new one, the next free one, or the one that is continued
lease          Lease file: allows one writing session per rank folder, with heartbeats
lost           Collects what could not be written until the index can record it
processes      Identifies this machine, and tells whether a process is still running
queue          Bounded queue in bytes, with backpressure
reserve        Bytes on disk that are given back when it is full, so that the index can say what is lost
scalar_buffer  Buffers scalars so that many share one record
session_files  Writes the files of one session: segments first, then the frame that refers to them
thread         Writer thread: works off the queue, sends heartbeats, survives disk errors
writer         `Writer`: writes one session of an archive through a background thread
"""
