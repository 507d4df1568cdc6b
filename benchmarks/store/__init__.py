"""Cost of the store.

archives  Steps written, tensors and runs read, bytes on disk
formats   Other ways to keep the same tensors on disk
"""
