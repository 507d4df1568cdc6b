"""Which dimensions of live tensors are units and samples.

live_units    Unit layouts of values in a running model: from torch's own layers, else learned from one traced run
module_units  Unit layouts and sample dimensions that torch's own layers determine without a traced graph
sample_dims   The sample dimension of each tensor of a batch
"""
