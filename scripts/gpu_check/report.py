"""Makes OUT/results.md and OUT/results.json from OUT/results.jsonl: report.py OUT."""
import json
import pathlib
import sys

COLUMNS = 7  # of figures in one table; the others stand in the last one
WORDS = {"ok": "ok", "failed": "**failed**", "skipped": "skipped"}


def read(path):
    """The lines that are whole: the last one may be cut short."""
    results = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            results.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return results


def number(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int) and abs(value) >= 10000:
        return f"{value:,}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def table(results):
    keys = []
    for result in results:
        keys += [key for key in result["figures"] if key not in keys]
    shown, others = (keys, []) if len(keys) <= COLUMNS else (keys[:COLUMNS], keys[COLUMNS:])
    said = any(result["message"] for result in results) or bool(others)
    head = ["case", "result", *shown, *(["remarks"] if said else [])]
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for result in results:
        cells = [number(result["case"]), WORDS.get(result["status"], result["status"])]
        cells += [number(result["figures"][key]) if key in result["figures"] else "" for key in shown]
        remarks = [number(result["message"])] if result["message"] else []
        remarks += [f"{key} {number(result['figures'][key])}" for key in others if key in result["figures"]]
        yield "| " + " | ".join(cells + (["; ".join(remarks)] if said else [])) + " |"


def markdown(results):
    ended = next((result for result in results if result["stage"] == "end"), None)
    results = [result for result in results if result["stage"] != "end"]
    counts = {status: sum(result["status"] == status for result in results) for status in WORDS}
    yield "# GPU check"
    yield ""
    yield f"{counts['ok']} ok, {counts['failed']} failed, {counts['skipped']} skipped" + (
        f", in {ended['seconds']:.0f} s." if ended else ".")
    if ended is None:
        yield "The run was cut short: what is below is what it had found."
    elif ended["message"]:
        yield f"The run ended early: {ended['message']}."
    failed = [result for result in results if result["status"] == "failed"]
    if failed:
        yield ""
        yield "Failed:"
        yield ""
        for result in failed:
            yield f"- {result['stage']}, {number(result['case'])}: {number(result['message'])}"
    for stage in dict.fromkeys(result["stage"] for result in results):
        yield ""
        yield f"## {stage}"
        yield ""
        yield from table([result for result in results if result["stage"] == stage])


def write(out):
    results = read(out / "results.jsonl")
    (out / "results.md").write_text("\n".join(markdown(results)) + "\n", encoding="utf-8")
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    if not (folder / "results.jsonl").exists():
        print(f"gpu_check: error: {folder} has no results.jsonl; scripts/gpu_check.sh run writes it", file=sys.stderr)
        sys.exit(6)
    write(folder)
    print(f"{folder}/results.md")
