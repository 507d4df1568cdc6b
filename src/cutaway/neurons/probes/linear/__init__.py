"""The linear probe with an elastic-net penalty.

losses        What a linear probe minimises: a loss, averaged over rows, and a penalty on its weights
minibatch     Linear probes fitted some rows at a time: of data larger than memory, and as NeuroX does it
probe         A linear probe: how well the labels can be read off the units, and which units it reads them from
rows          The rows that a linear probe is fitted to: whole or in batches, scaled, on the device where the work
              is done
solver        The minimum of a linear probe's objective, where all rows fit in memory: a quasi-Newton method that
              knows zeros
weight_order  Units by the weight mass they hold in a linear probe
"""
