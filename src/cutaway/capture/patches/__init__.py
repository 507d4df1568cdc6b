"""What is replaced in torch and Python while a capture or an edit runs.

collectives     Records collectives of `torch.distributed` as one opaque op each
compiled_entry  Calls back when compiled code is about to run, so that a capture can step aside
composites      Copies of Python composites (`F.softmax`) whose inner calls reach the function mode
eager           Forces compiled code to run eagerly while any capture or edit needs it
higher_order    Records higher-order operators (`torch.cond`, `scan`) as one opaque op each
install         Installs every patch; all captures and edits share one set
monkeypatch     Installs patches with the first capture of the process and removes them with the last
own_call        Hooks for modules whose `__call__` never reaches `nn.Module.__call__`
sharded         Records the methods of DTensors that change their distribution as one opaque op each; hides FSDP's work
torch_patches   The patches applied to torch and Python while a capture runs, and why each is needed
"""
