"""Gradients of experts, for parity.py. transformers has two tensors per layer, and saves one tensor per expert
and matrix."""
import torch


def gradients_as_saved(model):
    """Returns the gradients by the names in the files."""
    gradients = {}
    for name, parameter in model.named_parameters():
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        stem, _, leaf = name.rpartition(".")
        if leaf not in ("gate_up_proj", "down_proj"):
            gradients[name] = grad
            continue
        for expert, of_expert in enumerate(grad):
            parts = {"down_proj": of_expert}
            if leaf == "gate_up_proj":
                parts = dict(zip(("gate_proj", "up_proj"), of_expert.chunk(2)))
            for part, value in parts.items():
                gradients[f"{stem}.{expert}.{part}.weight"] = value
    return gradients


def measured_with(name, names):
    """Measures an expert's gradient with all experts of its layer, since an expert with few tokens has small sums."""
    layer, _, tail = name.partition(".experts.")
    if not tail:
        return [name]
    matrix = name.split(".")[-2]
    return [other for other in names if other.startswith(layer + ".experts.") and other.split(".")[-2] == matrix]
