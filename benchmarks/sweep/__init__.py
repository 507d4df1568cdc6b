"""Trace every architecture at hand and hold the trace against a plain run: `make sweep`, `python -m benchmarks.sweep -h`."""
