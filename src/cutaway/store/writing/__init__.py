"""Writes archives: one session at a time, by a thread of its own, safe against a crash at any moment.

lease          Who may write: one session at a time for each rank's folder, and how the next one knows that the
               last is over
lost           What could not be written: gathered until it can be said in the index
processes      Which machine this is, and whether a process of it still runs
queue          A queue with a limit in bytes: who puts in more than is taken out has to wait, so that memory does
               not grow
scalar_buffer  Scalars that wait to be written together: one record for many of them, and never more than a
               bounded number
session_files  The files of one session, as they are written: segments first, then the frame that makes their
               content known
thread         The thread that writes: it works through a queue, gives signs of life, and outlives every failure
               of the disk
writer         The writer of an archive: takes what is handed in, and a thread of its own brings it to disk
"""
