"""Stages in the place of those of scripts/gpu_check.sh, for its test."""
import time

from stage import Failed, Skipped


def first(stage):
    def fails():
        raise Failed("it was told to")

    def is_skipped():
        raise Skipped("nothing to try")
    stage.case("passes", lambda: {"answer": 42, "share": 0.5})
    stage.case("fails", fails)
    stage.case("is | skipped", is_skipped)
    stage.case("breaks", lambda: 1 / 0)
    stage.case("a command that is too slow", lambda: stage.command("slow", ["sleep", "60"], 0.3).expect() and {})
    stage.cases({f"beside {i}": lambda: time.sleep(0.2) for i in range(3)}, at_once=3)


def long(stage):
    stage.case("sleeps", lambda: stage.command("sleeps", ["sleep", "61.5"]).expect() and {})
    stage.case("comes too late", dict, needs_s=5)


STAGES = [("begin", 10, 0, first), ("long", 60, 0, long), ("never begun", 60, 30, first)]
HALVES = {"first": ["long"], "second": ["never begun"]}
