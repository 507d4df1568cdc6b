"""Language models: what they wrote, and why.

    gen = cutaway.generate(model, tokenizer, "1, 2, 3,")
    cutaway.lm.classify(model, tokenizer, "What a film!", target="POSITIVE")

Nothing is imported until it is used.

    attention/          Attention weights, also where a fused kernel never materializes them
    factorization/      Neuron factors: activations factorized by NMF, PCA or clustering
    generation/         Generates text, keeps what the model read and chose, and describes it
    lens/               The logit lens: what each layer would have predicted
    logit_attribution/  Direct logit attribution: what each part of the model adds to a logit
    model/              The structure of a language model, found by tracing it, and how it is run again
    patching            Where a language model holds what makes two prompts differ: values of one put into the other,
                        many at a time
    saliency/           Saliency of input tokens: gradients, occlusion, rollout
    similarities/       Similarity of representations: CKA, CCA, RSA
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
