"""Runs stages of scripts/gpu_check.sh: run.py FOLDER OUT STAGES.

STAGES are names between commas, "first" or "second" (the halves of a check that take one command each), or "all". Every
result is a line of OUT/results.jsonl as soon as it is known, and OUT/logs.tar.gz has what the commands of the stages
before said, so that a run that is killed still tells something. However else the run ends, report.py makes the summary.
"""
import importlib.util
import os
import pathlib
import shutil
import signal
import sys
import time
import traceback

import report
from stage import Failed, Interrupted, Missing, Run, Skipped, Stage

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Unknown(Exception):
    """A stage that there is not: exit code 2."""


def load_stages():
    path = pathlib.Path(os.environ.get("RONDO_GPU_CHECK_STAGES") or pathlib.Path(__file__).with_name("stages.py"))
    spec = importlib.util.spec_from_file_location("stages", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["stages"] = module
    spec.loader.exec_module(module)
    return module


def chosen(module, words):
    """The stages that are asked for, in the order of the list. Missing where one is unknown."""
    names = [stage[0] for stage in module.STAGES]
    wanted = names if words == "all" else module.HALVES.get(words) or words.split(",")
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise Unknown(f"no stage \"{unknown[0]}\"; there are {', '.join([*names, *module.HALVES, 'all'])}")
    # The first one says what is here and makes what the others need.
    return [stage for number, stage in enumerate(module.STAGES) if number == 0 or stage[0] in wanted]


def run_stages(run, stages):
    for name, budget_s, least_s, function in stages:
        if run.left() < least_s:
            run.record(name, "stage", "skipped",
                       message=f"{max(0, run.left()):.0f} s are left of all, and the stage needs {least_s}")
            continue
        stage = Stage(run, name, budget_s)
        try:
            function(stage)
        except (Interrupted, Missing):
            raise
        except Skipped as why:
            stage.record("stage", "skipped", message=str(why))
        except Failed as what:
            stage.record("stage", "failed", message=str(what))
        except Exception as error:
            (run.logs / f"{name}.traceback.txt").write_text(traceback.format_exc())
            stage.record("stage", "failed", message=f"the check itself failed: {type(error).__name__}: {error}")
        run.archive()


def main():
    folder, out = (pathlib.Path(word) for word in sys.argv[1:3])
    try:
        stages = chosen(load_stages(), sys.argv[3])
    except Unknown as what:
        print(f"gpu_check: error: {what}", file=sys.stderr)
        return 2
    run, began = Run(folder, out, float(os.environ.get("RONDO_GPU_CHECK_S", "540"))), time.monotonic()
    for number in SIGNALS:
        signal.signal(number, run.interrupt)
    code, message = None, ""
    try:
        run_stages(run, stages)
    except Interrupted as by:
        code, message = 128 + by.args[0], f"interrupted by {signal.Signals(by.args[0]).name}"
    except Missing as what:
        code, message = 6, str(what)
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # the summary is being written
        run.kill_children()
        if code is None:
            code = 1 if run.failures else 0
        run.record("end", "run", "ok" if code in (0, 1) else "failed", time.monotonic() - began, message=message)
        run.archive()
        report.write(out)
        shutil.rmtree(run.work, ignore_errors=True)
    if code == 6:
        print(f"gpu_check: error: {message}", file=sys.stderr)
    else:
        print(f"gpu_check: {run.failures} failed; {out}/results.md")
    return code


if __name__ == "__main__":
    sys.exit(main())
