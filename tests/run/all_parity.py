"""All comparisons of models with transformers: python3 all_parity.py RONDO. See parity.py.

One process, since it takes seconds to import transformers. A family alone: python3 llama_parity.py RONDO.
"""
import importlib
import pathlib

import generate_parity
import hub_folders
import torch
from parity import compare_families, in_scratch

FAMILIES = [importlib.import_module(file.stem).FAMILY
            for file in sorted(pathlib.Path(__file__).parent.glob("*_parity.py"))
            if file.stem not in ("all_parity", "generate_parity")]


def compare_everything(rondo, scratch):
    failures = compare_families(FAMILIES, rondo, scratch)
    for compare in (generate_parity.compare, hub_folders.check_all):
        torch.manual_seed(1)
        failures += compare(rondo, scratch / compare.__module__)
    return failures


if __name__ == "__main__":
    in_scratch(compare_everything)
