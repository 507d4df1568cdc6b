"""What is replaced in torch and Python while a capture or an edit runs.

composites     Copies of Python composites (`F.softmax`) whose inner calls reach the function mode
eager          Forces compiled code to run eagerly while any capture or edit needs it
higher_order   Records higher-order operators (`torch.cond`, `scan`) as one opaque op each
install        Installs every patch; all captures and edits share one set
monkeypatch    Installs patches with the first capture of the process and removes them with the last
sharded        Records the methods of DTensors that change their distribution as one opaque op each; hides FSDP's work
torch_patches  The patches applied to torch and Python while a capture runs, and why each is needed
"""
