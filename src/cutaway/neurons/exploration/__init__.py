"""What activates units: words, contexts, clusters, pages and the report.

clustering    Clusters of correlated units, with one representative each
pages         Pages of units: `page` for one unit, `colored` for sentences colored by units
report        `report`: rankings, evaluation, sites, clusters, words and ablation in one call
report_notes  Caveats of a report, its call as code, and package versions
words         Top words, top contexts and histograms of a unit
"""
