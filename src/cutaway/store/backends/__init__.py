"""Where archives are stored: a local folder or memory.

backend       Where the files of an archive lie: what a place must offer, and which place a path means
entry_names   Which names may be asked for inside an archive: one rule for every backend
file_handles  Open files, kept for the next read
local         Archives in a folder of this machine's file systems
memory        Archives in the memory of this process: for tests, and for what need not stay
"""
