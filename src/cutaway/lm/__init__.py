"""Language models: generate text, and explain it.

    gen = cutaway.generate(model, tokenizer, "1, 2, 3,")
    cutaway.lm.classify(model, tokenizer, "What a film!", target="POSITIVE")

Names are imported on first use.

    arguments           Checks of arguments that several verbs share
    attention/          Attention weights, also where a fused kernel never materializes them
    factorization/      Neuron factors: activations factorized by NMF, PCA or clustering
    generation/         Generates text, stores what the model read and chose, and describes it
    lens/               The logit lens: what each layer would have predicted
    logit_attribution/  Direct logit attribution: what each part of the model adds to a logit
    model/              Finds the structure of a language model by tracing it, and runs the model again
    patching            Activation patching: copies values of a clean run into a corrupted one, in batches
    saliency/           Saliency of input tokens: gradients, occlusion, attention rollout and flow
    similarities/       Similarity of representations: CKA, CCA, RSA
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
