"""What units respond to: words, contexts, clusters, pages and the report.

clustering    Redundancy: units that rise and fall together, and one of each such cluster that stands for it
pages         Pages about units, computed and put together in one call
report        Everything about the units that carry some labels, in one call: ranked, judged, located, looked at,
              ablated
report_notes  What a reader of a report has to know that its numbers do not say
words         What fires a unit: its top words, its top contexts, and how its values lie for each label
"""
