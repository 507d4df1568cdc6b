"""What is worked out about a graph after it was captured.

units    which dimensions of each value count units, samples and positions
"""
