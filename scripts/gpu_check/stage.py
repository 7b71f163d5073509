"""What the stages of scripts/gpu_check.sh are given: cases that are recorded as they end, commands with logs and limits."""
import concurrent.futures
import contextlib
import dataclasses
import io
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
TAIL_S = 8  # kept free for ending what runs and for the summary
LARGEST_LOG = 256 << 10  # bytes of a file in the archive: its end
NOT_KEPT = ("corpus", "inductor")  # of the folder of work


class Interrupted(Exception):
    """A signal, by its number."""


class Missing(Exception):
    """Without this nothing can be checked: exit code 6."""


class Failed(Exception):
    """What a case found; its text goes into the results."""


class Skipped(Exception):
    """Why a case was not run; its text goes into the results."""


@dataclasses.dataclass
class Ended:
    """How a command ended. code: None where it was killed for taking too long; cut: because the stage's time was up."""
    code: int | None
    output: str
    seconds: float
    log: pathlib.Path
    cut: bool = False

    def expect(self, code=0):
        if self.code == code:
            return self
        if self.cut:
            raise Skipped(f"the stage's time was up after {self.seconds:.0f} s (logs/{self.log.name})")
        last = next((line for line in reversed(self.output.splitlines()) if line.strip()), "no output")
        how = f"did not end within {self.seconds:.3g} s" if self.code is None else f"exit code {self.code}"
        raise Failed(f"{how}, not {code}: {last[:300]} (logs/{self.log.name})")


class Run:
    """OUT holds a few files and no folder, so that it can be brought home from anywhere: results.jsonl, which grows as
    cases end; logs.tar.gz, made anew after every stage; and the summary."""

    def __init__(self, folder, out, limit_s):
        self.folder, self.out = folder.resolve(), out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="rondo_gpu_check."))
        self.logs = self.work / "logs"
        self.logs.mkdir()
        self.results = open(self.out / "results.jsonl", "w", encoding="utf-8")
        self.end = time.monotonic() + limit_s - min(TAIL_S, limit_s / 10)
        self.lock = threading.Lock()
        self.children, self.failures, self.stopping = set(), 0, False
        self.deferring, self.pending = 0, None

    def interrupt(self, number, _):
        """The handler of signals that end the check."""
        if self.deferring:
            self.pending = number
            return
        raise Interrupted(number)

    @contextlib.contextmanager
    def whole(self):
        """What is done in it a signal does not cut in two. Signals are the main thread's."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.deferring += 1
        try:
            yield
        finally:
            self.deferring -= 1
        if self.pending is not None and not self.deferring:
            number, self.pending = self.pending, None
            raise Interrupted(number)

    def record(self, stage, case, status, seconds=0.0, figures=None, message=""):
        line = {"stage": stage, "case": case, "status": status, "seconds": round(seconds, 3),
                "figures": figures or {}, "message": message}
        with self.whole(), self.lock:
            self.failures += status == "failed"
            self.results.write(json.dumps(line) + "\n")
            self.results.flush()
            os.fsync(self.results.fileno())
            print(f"[{stage}] {case}: {status}" + (f" ({message})" if message else ""), flush=True)

    def archive(self):
        """What the commands said, and what is left of the folders of runs, into OUT/logs.tar.gz."""
        made = self.out / ".logs.tar.gz"
        with self.whole(), tarfile.open(made, "w:gz", compresslevel=3) as archive:
            for path in sorted(self.work.rglob("*")):
                name = path.relative_to(self.work)
                if path.is_symlink() or not path.is_file() or name.parts[0] in NOT_KEPT or "checkpoint" in name.parts:
                    continue
                with open(path, "rb") as file:
                    file.seek(max(0, path.stat().st_size - LARGEST_LOG))
                    content = file.read(LARGEST_LOG)
                info = tarfile.TarInfo(str(name))
                info.size, info.mtime = len(content), path.stat().st_mtime
                archive.addfile(info, io.BytesIO(content))
        made.rename(self.out / "logs.tar.gz")

    def kill_children(self):
        with self.lock:
            self.stopping = True
            for child in self.children:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def left(self):
        return self.end - time.monotonic()


class Stage:
    """What a stage's function is given."""

    def __init__(self, run, name, budget_s):
        self.run, self.name = run, name
        self.end = min(run.end, time.monotonic() + budget_s)
        self.work = run.work
        self.at_once = 1  # cases that run beside each other

    def left(self):
        return self.end - time.monotonic()

    def record(self, case, status, seconds=0.0, figures=None, message=""):
        self.run.record(self.name, case, status, seconds, figures, message)

    def case(self, name, function, needs_s=0.0):
        """Runs function(), which returns figures or raises Failed or Skipped. False: it did not succeed."""
        if self.left() < needs_s or self.run.stopping:
            self.record(name, "skipped", message=f"{max(0, self.left()):.0f} s are left of the stage's time")
            return False
        began, figures, status, message = time.monotonic(), None, "ok", ""
        try:
            figures = function()
        except Skipped as why:
            status, message = "skipped", str(why)
        except Failed as what:
            status, message = "failed", str(what)
        except (Interrupted, Missing):
            raise
        except Exception as error:  # of the check itself: the other cases may still tell something
            (self.run.logs / f"{self.log_name(name)}.traceback.txt").write_text(traceback.format_exc())
            status, message = "failed", f"the check itself failed: {type(error).__name__}: {error}"
        if self.run.stopping and status == "failed":  # its processes were ended with the check
            status, message = "skipped", "the check was ended"
        self.record(name, status, time.monotonic() - began, figures, message)
        return status == "ok"

    def cases(self, functions, at_once, needs_s=0.0):
        """Several cases, by name, beside each other, each with its share of the CPUs. Not for what is timed."""
        self.at_once = at_once
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            try:
                waiting = {pool.submit(self.case, name, function, needs_s) for name, function in functions.items()}
                while waiting:  # in short waits, so that a signal is noticed
                    done, waiting = concurrent.futures.wait(waiting, 0.2, concurrent.futures.FIRST_COMPLETED)
                    for future in done:
                        future.result()
            except BaseException:
                self.run.kill_children()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        self.at_once = 1

    def log_name(self, name):
        return "".join(c if c.isalnum() else "_" for c in f"{self.name}.{name}").strip("_")

    def start(self, name, words, environment=None):
        """A process in a session of its own, its output in a log. Returns it and the log."""
        threads = {"OMP_NUM_THREADS": str(max(1, os.cpu_count() // self.at_once))} if self.at_once > 1 else {}
        log = self.run.logs / f"{self.log_name(name)}.txt"
        with open(log, "w", encoding="utf-8") as output:
            output.write(f"$ {shlex.join(map(str, words))}\n")
            output.flush()
            with self.run.whole(), self.run.lock:
                if self.run.stopping:
                    raise Skipped("the check is ending")
                child = subprocess.Popen([str(word) for word in words], cwd=ROOT, stdout=output,
                                         stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                         start_new_session=True, env={**os.environ, **threads, **(environment or {})})
                self.run.children.add(child)
        return child, log

    def finish(self, child, log, began, limit_s):
        code, cut = None, False
        try:
            code = child.wait(max(0.1, min(limit_s, self.left())))
        except subprocess.TimeoutExpired:
            cut = self.left() <= 0
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)  # whatever is left of it
            except ProcessLookupError:
                pass
            child.wait()
            with self.run.lock:
                self.run.children.discard(child)
        text = log.read_text(encoding="utf-8", errors="replace").partition("\n")[2]
        return Ended(code, text, time.monotonic() - began, log, cut)

    def command(self, name, words, limit_s=600.0, environment=None):
        began = time.monotonic()
        child, log = self.start(name, words, environment)
        return self.finish(child, log, began, limit_s)
