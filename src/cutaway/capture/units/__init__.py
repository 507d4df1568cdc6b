"""Which dimensions of live tensors count units and samples.

live_units    Which dimensions of a live value count units: known to a module of torch's own, else learned from
              one traced run
module_units  What a module of torch's own knows of its units by itself, without a traced graph around it
sample_dims   Where the samples of a batch are: which dimension of each of its tensors counts them
"""
