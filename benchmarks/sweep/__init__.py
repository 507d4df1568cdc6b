"""Traces every architecture at hand and compares each trace with a plain run: `make sweep`.

architectures       All architectures in `transformers`, built small with random weights
attempts            Tries one way after another to build a model and run it
checks              The checks of one trace, and the verdict
config_overrides    Settings that `reduction` cannot derive, by model type
families            Where the models come from
gallery             A picture of every architecture, and a page to search them
input_overrides     Inputs of models whose forward needs more than its signature says
inputs              Inputs from the signature of forward and the configuration
packages            Packages that only the sweep uses, imported without their compiled libraries
pool                Worker processes: a crash or a timeout costs one case
reduction           Makes a configuration small by the names of its settings
small/              Small models of other fields: audio, video, graphs, agents, …
table               The verdicts as text, Markdown and JSON
timm_models         The smallest member of each model family of timm
torch_databases     torch's own databases of functions, modules and optimizers
torchaudio_models   The model families of torchaudio, reduced by hand
torchvision_models  The smallest member of each model family of torchvision
"""
