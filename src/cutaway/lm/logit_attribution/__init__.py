"""Direct logit attribution: what each part of the model adds to a logit.

contributions      What one contribution to the stream is made of: heads of an attention, neurons of a feed-
                   forward
direction          Which way of the stream leads to a logit: its direction, with the final norm's scale held still
logit_attribution  `gen.logit_attribution()`: what each part of a model added to the logit of each target, summing
                   to it
"""
