"""Similarity of representations: CKA, CCA, RSA.

cca              Canonical correlations: how far one representation is a linear map of the other
cka              Centred kernel alignment: whether the same rows are near to each other in both representations
ecco_cca         CCA, SVCCA and PWCCA by the rules of Ecco, which are those of Google's svcca: for numbers that
                 can be compared
products         Products of representations, summed over the rows: what CCA and linear CKA need of them, however
                 many rows there are
representations  What is compared: representations of the same rows, named, and read block by block, centred
rsa              Representational similarity analysis: whether rows that are far apart in one representation are
                 so in the other
scores           What a method of similarity is asked and what it answers
similarity       How alike two representations of the same rows are: layers, models, checkpoints
"""
