"""Other tools, each in an environment of its own.

captum_worker     Runs in captum's environment
comgra            Costs of comgra: measured, or cited from the notes
comgra_worker     Runs in comgra's environment
ecco_worker       Runs in Ecco's environment
environments      Makes the environments and runs a module inside one
explainer         Options and measurement that the captum, Ecco and inseq workers share
inseq_worker      Runs in inseq's environment
torchlens         Costs of torchlens: measured, or cited from the notes
torchlens_worker  Runs in torchlens' environment
"""
