"""Results of `cutaway.generate`, its analyses and `cutaway.lm`.

attention          `Attention`: the result of `gen.attention()`
factors            `Factors`: the result of `gen.factors()` and `cutaway.lm.factorize`
generation         `Generation`: the result of `cutaway.generate`; its methods are the analyses
lens               `Lens`: the result of `gen.lens()`
logit_attribution  `LogitAttribution`: the result of `gen.logit_attribution()`
saliency           `Saliency`: the result of `gen.saliency()`; and the table of methods
similarity         `Similarity` and `Dissimilarities`: the results of `cutaway.lm.similarity` and `rdm`
token_names        Token texts as names: whitespace becomes visible, as in `web/src/pages/tokens.ts`
tokens             `Tokens`, `Steps` and `Beams`: what a model read and chose, with the scores of each choice
"""
