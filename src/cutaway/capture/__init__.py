"""The only code that watches torch: the function mode, module hooks, gradients."""
