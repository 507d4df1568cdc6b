"""The Gaussian probe (Torroba Hennigen et al., 2020).

greedy  Greedy forward selection of units by mutual information, exact and vectorized over candidates
nested  One Gaussian per class for the first 1, 2, … units at once
probe   `Gaussian`: selects units and measures their mutual information with the classes
"""
