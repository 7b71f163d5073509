"""Gradients of experts, for parity.py: transformers keeps those of a layer in two tensors, and saves one for each expert
and matrix."""
import torch


def gradients_as_saved(model):
    """Gradients by the names that the files have."""
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
    """An expert's gradient is measured with those of its layer's experts: one of few tokens is sums of few."""
    layer, _, tail = name.partition(".experts.")
    if not tail:
        return [name]
    matrix = name.split(".")[-2]
    return [other for other in names if other.startswith(layer + ".experts.") and other.split(".")[-2] == matrix]
