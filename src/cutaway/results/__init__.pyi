"""Public names of `cutaway.results` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway.results.diff import Diff as Diff
from cutaway.results.lesions import Lesions as Lesions
from cutaway.results.lm.attention import Attention as Attention
from cutaway.results.lm.factors import Factors as Factors
from cutaway.results.lm.generation import Generation as Generation
from cutaway.results.lm.lens import Lens as Lens
from cutaway.results.lm.logit_attribution import LogitAttribution as LogitAttribution
from cutaway.results.lm.saliency import Saliency as Saliency
from cutaway.results.lm.similarity import Dissimilarities as Dissimilarities
from cutaway.results.lm.similarity import Similarity as Similarity
from cutaway.results.neurons.ablation import Ablation as Ablation
from cutaway.results.neurons.clusters import Clusters as Clusters
from cutaway.results.neurons.comparison import Comparison as Comparison
from cutaway.results.neurons.comparison import Stability as Stability
from cutaway.results.neurons.evaluation import Evaluation as Evaluation
from cutaway.results.neurons.evaluation import Layers as Layers
from cutaway.results.neurons.ranking import Ranking as Ranking
from cutaway.results.neurons.ranking import ranked as ranked
from cutaway.results.neurons.report import Report as Report
from cutaway.results.neurons.words import Histograms as Histograms
from cutaway.results.neurons.words import TopContexts as TopContexts
from cutaway.results.neurons.words import TopWords as TopWords
from cutaway.results.patching import Patching as Patching
from cutaway.results.result import Result as Result
from cutaway.results.validation import Validation as Validation
