"""Cost of explaining what a language model wrote.

explanations  Saliency and lens beside captum, inseq and Ecco
gpt2          The language model, its tokenizer and prompt, the same under any version of transformers
"""
