"""Where archives are stored: a local folder or memory.

backend       The backend protocol; chooses the backend for a path or URL
entry_names   Checks file names inside an archive, one rule for every backend
file_handles  LRU cache of open file descriptors
local         Archives in a local folder
memory        Archives in the memory of this process, for tests and temporary data
"""
