"""Shared foundations: errors, sites, units, statistics, formatting. Needs NumPy alone.

arrays       Tensors as plain bytes, and what those bytes mean: every dtype of torch, read with NumPy alone
dataframes   Rows as a table
errors       Every error Cutaway raises, as one tree
events       What capture sees, as plain data, and the two seams through which it hands it on
formatting   Formats numbers, counts, lists and near matches for sentences, tables and labels
io           Pictures and pages as files: all of one or nothing
late         Methods whose code lives in a higher layer than the class that offers them
matrices     Rows × units, however they are held: every method reads activations through this, block by block
progress     A line that tells how far long work has come: on a terminal only, and only when it takes longer than
             a moment
pytree       Walk over the containers that models take and return, in one fixed order
safetensors  The header of a safetensors file: written so that stock tools accept it, read so that no input can do
             harm
sites        Sites: the one grammar in which a tensor inside a computation is named
statistics   The table of statistics: what the recorder computes, and how views, command line and page name and
             draw it
units/       Units, samples and positions: what the dimensions of a value count, decided from the graph and never
             from sizes
version      The version of the package, where every layer can see it
zscores      Robust z-scores: how many median absolute deviations (MAD) a statistic is from what is usual
"""
