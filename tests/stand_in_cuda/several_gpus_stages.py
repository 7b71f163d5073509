"""The stage "several GPUs" of scripts/gpu_check.sh alone, for its test: without what needs a GPU and without its timings."""
import importlib.util
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("stages", ROOT / "scripts/gpu_check/stages.py")
sys.modules["stages"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["stages"])
import several


def corpus(stage):
    (stage.work / "corpus").mkdir()
    shutil.copy(ROOT / "ARCHITECTURE.md", stage.work / "corpus" / "text.txt")


# The stand-in computes nothing: only planned memory has the same bits in two runs.
several.COMPARED_WAYS = ("replay", "cudagraph")
several.TIMED_WAYS = ("cudagraph",)
several.SPEED = {"debug model": (several.LLAMA, []), "6 layers of DeepSeek-V3 16B": (several.DEEPSEEK, [])}
STAGES = [("corpus", 10, 1, corpus), ("several GPUs", 600, 1, several.check)]
HALVES = {}
