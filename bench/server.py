"""Programs that bench/run.py and its like measure in turns: each answers a line of words with a line of
JSON."""

import ctypes
import json
import os
import signal
import statistics
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def end_with_us():
    """Linux: the system kills this process when the benchmark ends, however it ends, even while it is
    stopped."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Ended(Exception):
    """A program ended before it answered."""


class Server:
    """`ready`: what its first line says. A parent's peak memory is its child's until exec, and counts:
    drivers import no large library."""

    def __init__(self, *command, **environment):
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            preexec_fn=end_with_us,
        )
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise Ended(f"{' '.join(self.process.args)} ended; its message is above")
        return json.loads(line)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Train:
    """`lockstep train` in one process. Between its turns it is stopped; the step in which that happens does
    not count."""

    ready = {}

    def __init__(self, program, recipe, folder, name):
        run = os.path.join(folder, "runs", name)
        self.rows, self.metrics = 0, os.path.join(run, "metrics.jsonl")
        log = open(os.path.join(folder, name + ".log"), "w+", encoding="utf-8")
        sets = [
            f"run.storage={folder}/runs",
            f"run.name={name}",
            "train.steps=1000000",
            "eval.every_epochs=-1",
            "checkpoint.every_epochs=-1",
        ]
        self.process = subprocess.Popen(
            [program, "train", recipe, "--no-progress", *(w for s in sets for w in ("--set", s))],
            stdout=log,
            stderr=log,
            preexec_fn=end_with_us,
        )
        self.log = log
        self.wait(2)
        self.process.send_signal(signal.SIGSTOP)

    def steps(self):
        if not os.path.exists(self.metrics):
            return []
        with open(self.metrics, encoding="utf-8") as f:
            return [
                row["seconds"]
                for row in map(json.loads, (line for line in f if line.endswith("\n")))
                if row["kind"] == "step"
            ]

    def wait(self, steps):
        while len(self.steps()) < steps:
            if self.process.poll() is not None:
                self.log.seek(0)
                raise Ended(f"lockstep train ended:\n{self.log.read()}")
            time.sleep(0.02)

    def ask(self, steps):
        done = len(self.steps())
        self.process.send_signal(signal.SIGCONT)
        self.wait(done + 1 + int(steps))
        self.process.send_signal(signal.SIGSTOP)
        seconds = self.steps()[done + 1 : done + 1 + int(steps)]
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
        return {"seconds": seconds, "median": statistics.median(seconds), "peak_rss_mb": peak / 1024}

    def close(self):
        self.process.kill()
        self.process.wait()


class Runs:
    """`lockstep train` on several ranks, from exec to the end in each turn: ranks that wait for each other
    cannot be stopped between turns. Two steps do not count."""

    def __init__(self, program, recipe, folder, name, *words):
        self.command, self.folder, self.name, self.turn = (
            [program, "train", recipe, "--no-progress", *words],
            folder,
            name,
            0,
        )

    def ask(self, steps):
        self.turn += 1
        run = os.path.join(self.folder, "runs", f"{self.name}-{self.turn}")
        sets = [
            f"run.storage={self.folder}/runs",
            f"run.name={self.name}-{self.turn}",
            f"train.steps={int(steps) + 2}",
            "eval.every_epochs=-1",
            "checkpoint.every_epochs=0",
        ]
        subprocess.run(
            self.command + [w for s in sets for w in ("--set", s)],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as f:
            seconds = [row["seconds"] for row in map(json.loads, f) if row["kind"] == "step"][2:]
        with open(os.path.join(run, "result.json"), encoding="utf-8") as f:
            return {
                "seconds": seconds,
                "median": statistics.median(seconds),
                "peak_rss_mb": json.load(f)["peak_rss"] / 2**20,
            }

    def close(self):
        pass
