"""Public names of `cutaway.lm` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway.lm.factorization.factorize import factored as factored
from cutaway.lm.factorization.factorize import factorize as factorize
from cutaway.lm.factorization.factors import factors as factors
from cutaway.lm.generation.classify import classify as classify
from cutaway.lm.generation.classify import fill as fill
from cutaway.lm.generation.generate import generate as generate
from cutaway.lm.generation.prompts import Template as Template
from cutaway.lm.model.anatomy import anatomy as anatomy
from cutaway.lm.patching import patch as patch
from cutaway.lm.similarities.rsa import rdm as rdm
from cutaway.lm.similarities.similarity import similarity as similarity
