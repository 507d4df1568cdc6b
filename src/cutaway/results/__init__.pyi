"""Public names of `cutaway.results` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway.results.ablation import Ablation as Ablation
from cutaway.results.attention import Attention as Attention
from cutaway.results.clusters import Clusters as Clusters
from cutaway.results.comparison import Comparison as Comparison
from cutaway.results.comparison import Stability as Stability
from cutaway.results.diff import Diff as Diff
from cutaway.results.evaluation import Evaluation as Evaluation
from cutaway.results.evaluation import Layers as Layers
from cutaway.results.factors import Factors as Factors
from cutaway.results.generation import Generation as Generation
from cutaway.results.lens import Lens as Lens
from cutaway.results.lesions import Lesions as Lesions
from cutaway.results.logit_attribution import LogitAttribution as LogitAttribution
from cutaway.results.patching import Patching as Patching
from cutaway.results.ranking import Ranking as Ranking
from cutaway.results.ranking import ranked as ranked
from cutaway.results.report import Report as Report
from cutaway.results.result import Result as Result
from cutaway.results.saliency import Saliency as Saliency
from cutaway.results.similarity import Dissimilarities as Dissimilarities
from cutaway.results.similarity import Similarity as Similarity
from cutaway.results.validation import Validation as Validation
from cutaway.results.words import Histograms as Histograms
from cutaway.results.words import TopContexts as TopContexts
from cutaway.results.words import TopWords as TopWords
