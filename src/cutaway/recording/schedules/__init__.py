"""Schedules: rules that decide which steps a recorder records.

base    The `Schedule` protocol and the `Cost` of a recorded step
budget  Schedules with a budget: bytes for the whole run, or a share of the training time
fixed   Schedules without a budget: never, listed steps, a function, every nth step, growing intervals
parse   Parses `every=` into a schedule
"""
