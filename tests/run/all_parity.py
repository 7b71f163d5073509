"""All models against transformers: python3 all_parity.py RONDO. See parity.py.

One process, since it takes seconds to import transformers. A family alone: python3 llama_parity.py RONDO.
"""
import importlib
import pathlib

from parity import compare_all

if __name__ == "__main__":
    compare_all(*(importlib.import_module(file.stem).FAMILY
                  for file in sorted(pathlib.Path(__file__).parent.glob("*_parity.py"))
                  if file.stem not in ("all_parity", "generate_parity")))
