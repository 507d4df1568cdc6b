"""Similarity of representations: CKA, CCA, RSA.

cca              Canonical correlation analysis: CCA, SVCCA and PWCCA
cka              Centered kernel alignment (CKA)
ecco_cca         CCA, SVCCA and PWCCA as Ecco and Google's svcca compute them
products         Products `XᵀY` of representations, summed over blocks of rows
representations  Named representations of the same rows, read in centered blocks
rsa              Representational similarity analysis (RSA)
scores           What a similarity method receives and what it returns
similarity       `cutaway.lm.similarity`: how similar representations of the same rows are
"""
