"""Exports parts of an archive as files for other programs.

arrays     Arrays out of an archive: `.npy` files that NumPy opens, `.safetensors` files that stock tools open
export     `cutaway export`: what was recorded, as files that other programs read
selection  Which part of an archive is to be exported, and its tensors one by one, without reading them
tables     Tables out of an archive: CSV, and Parquet where pyarrow is installed

    arrays     Arrays out of an archive: `.npy` files that NumPy opens, `.safetensors` files that stock tools open
    export     `cutaway export`: what was recorded, as files that other programs read
    selection  Which part of an archive is to be exported, and its tensors one by one, without reading them
    tables     Tables out of an archive: CSV, and Parquet where pyarrow is installed
"""
