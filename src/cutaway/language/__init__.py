"""Language: what a language model wrote, and why. `cutaway.generate` is the verb, `cutaway.lm` the namespace."""
