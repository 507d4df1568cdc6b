"""Trace every architecture at hand and hold each trace against a plain run: `make sweep`."""
