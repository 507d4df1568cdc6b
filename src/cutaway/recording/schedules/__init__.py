"""Schedules: which steps a recorder records.

base    What a schedule is: the rule that a recorder asks which steps to record
budget  Schedules that keep within a budget by themselves: bytes for the whole run, or a share of the training
        time
fixed   Schedules that need no cost: never, given steps, a function, every nth, growing distances
parse   What `every=` may say, and the schedule that each saying means
"""
