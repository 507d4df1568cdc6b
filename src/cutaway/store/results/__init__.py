"""Analysis results on disk.

decode       Decodes a result from plain data and arrays; checks every value against its type hint
encode       Encodes a result as plain data and named arrays
result_file  Saves a result to an archive, and reads it back without torch
types        Checks values against type hints
"""
