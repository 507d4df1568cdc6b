"""What Cutaway costs, measured beside its peers in one run: `make bench`, or `python -m benchmarks --help`."""
