"""What a recorded step attaches to models, tensors and optimizers, and reads from them.

autograd_graph  Dependency graph from autograd's graph, for compiled models that cannot be traced
backward_calls  Tells `backward()` from `torch.autograd.grad` inside a gradient hook
gradients       Gradients of a recorded step: `grad`, `grad/<loss>` per loss, and `inner_grad`
module_calls    Wraps module calls for the length of a step, without registering forward hooks
op_values       Traces a step as well: for the values of single ops and for the dependency graph
site_filter     Decides which sites of a step are recorded
step_hooks      Hooks of a recorded step: module outputs, gradients, optimizer reads and updates
unoptimized     Values and changes of parameters and buffers that no optimizer steps
updates         Copies of parameters from before an optimizer step, and their changes
"""
