"""Exports parts of an archive as files for other programs.

arrays     Writes arrays as `.npy` or `.safetensors`
export     `export`: writes part of an archive as files for other programs
selection  The selected part of an archive, tensor by tensor, read lazily
tables     Writes tables as CSV, or Parquet if pyarrow is installed
"""
