#!/usr/bin/env python3
"""planner.py BUILD [WORD...] - the time that `lockstep plan` predicts for a step, beside that of the step.

One host: the ranks of this machine. Two hosts: two network namespaces with a core of this machine each, and a cable
of 1 Gbit/s between them (tbf). A machine of one core, a user who is not root, or a missing tool leaves those out,
and says so. Kernels and collectives are measured first, in a cache of its own; then each case is planned, and
trained for STEPS steps. A processor that is shared, or whose clock changes, computes the same kernel in times that
differ by half within an hour. So all of it is done in ROUNDS rounds, each with kernels measured anew, and the medians
of the rounds are compared: predicted, and the median step of each round. The least and the greatest of the rounds are
printed beside them. Measure on a machine that does nothing else. WORDs choose cases; ROUNDS is in the environment."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROUNDS = int(os.environ.get("ROUNDS", "5"))
STEPS, SKIPPED, RATE = 14, 3, "1gbit"
LEFT, RIGHT = "10.79.3.1", "10.79.3.2"
RECIPE = """
model: {type: vit, image_size: 28, patch_size: 7, in_channels: 1, layers: 6, heads: 4, hidden_size: 256, 
        mlp_size: 512, classes: 10}
data: {type: shapes}
train: {global_batch: 128, micro_batch: 32, epochs: 1000}
parallel: {units: "class:EncoderBlock"}
eval: {every_epochs: 0}
checkpoint: {every_epochs: 0}
"""
# name, hosts, ranks of a host, settings
CASES = [
    ("fsdp  1 rank", 1, 1, ["parallel.data=fsdp"]),
    ("fsdp  2 ranks", 1, 2, ["parallel.data=fsdp"]),
    ("fsdp  4 ranks", 1, 4, ["parallel.data=fsdp"]),
    ("tp    2 ranks", 1, 2, ["parallel.mesh={dp: 1, tp: 2}"]),
    ("fsdp  2 hosts x 1", 2, 1, ["parallel.data=fsdp"]),
    ("ddp   2 hosts x 1", 2, 1, ["parallel.data=ddp"]),
    ("ddp   2 hosts x 2", 2, 2, ["parallel.data=ddp"]),
    ("tp    2 hosts x 2", 2, 2, ["parallel.mesh={dp: 2, tp: 2}"]),
]


def run(command, **more):
    """Ends the program where a command fails, with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        sys.exit(f"planner.py: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def why_one_host():
    if len(os.sched_getaffinity(0)) < 2:
        return "two hosts need two cores"
    if os.geteuid():
        return "only root may make network namespaces"
    for tool in ("ip", "tc", "unshare", "taskset", "mpirun"):
        if not shutil.which(tool):
            return f"there is no {tool} (Debian: iproute2 util-linux openmpi-bin)"
    return ""


def alone():
    """Starts this program again with mounts and processes of its own, so that nothing is left behind."""
    if os.environ.get("LOCKSTEP_BENCH_ALONE") != "yes":
        os.environ["LOCKSTEP_BENCH_ALONE"] = "yes"
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]
        os.execvp("unshare", unshare + [sys.executable] + sys.argv)
    run(["mount", "-t", "tmpfs", "none", "/run"])


def make_hosts(work):
    for name in ("left", "right"):
        run(["ip", "netns", "add", name])
    cable = ["ip", "link", "add", "eth-left", "netns", "left", "type", "veth", "peer", "name", "eth-right"]
    run(cable + ["netns", "right"])
    for name, address in (("left", LEFT), ("right", RIGHT)):
        run(["ip", "-n", name, "link", "set", "lo", "up"])
        run(["ip", "-n", name, "addr", "add", address + "/24", "dev", "eth-" + name])
        run(["ip", "-n", name, "link", "set", "eth-" + name, "up"])
        shape = f"tc -n {name} qdisc add dev eth-{name} root tbf rate {RATE} burst 256kb latency 20ms"
        run(shape.split())
    cores = sorted(os.sched_getaffinity(0))
    agent = os.path.join(work, "agent")
    with open(agent, "w", encoding="utf-8") as f:  # what mpirun takes for ssh: HOST COMMAND...
        f.write("#!/bin/sh\nshift\nexec ip netns exec right taskset -c %d unshare --uts sh -c " % cores[1])
        f.write("'hostname right; exec sh -c \"$0\"' \"$*\"\n")
    os.chmod(agent, 0o755)
    return cores


def on_hosts(work, cores, each, command):
    """The command on two hosts, `each` ranks on each."""
    mpi = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe"]
    mpi += ["--mca", "plm_rsh_agent", os.path.join(work, "agent"), "--mca", "btl", "tcp,self"]
    for kind in ("btl_tcp", "oob_tcp"):
        mpi += ["--mca", kind + "_if_include", "10.79.3.0/24"]
    mpi += ["--host", f"{LEFT}:{each},{RIGHT}:{each}", "-n", str(2 * each)]
    host = ["ip", "netns", "exec", "left", "taskset", "-c", str(cores[0]), "unshare", "--uts", "sh", "-c"]
    return run(host + ['hostname left; exec "$@"', "sh"] + mpi + command, cwd=work)


def steps_of(work, name):
    with open(os.path.join(work, "runs", name, "metrics.jsonl"), encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    return [row["seconds"] for row in rows if row["kind"] == "step"][SKIPPED:]


def measure_machine(lockstep, work, cores):
    """Kernels of this machine, and two.yaml of the two hosts, both measured anew."""
    shutil.rmtree(os.environ["LOCKSTEP_CACHE"], ignore_errors=True)
    run([lockstep, "launch", "--workers", "2", lockstep, "doctor"], cwd=work)
    if cores:
        on_hosts(work, cores, 2, [lockstep, "doctor", "--write-machine", "two.yaml"])


def predict_and_train(lockstep, work, cores, case):
    """The predicted time of a step and the median of those trained, in ms."""
    _, hosts, each, settings = case
    common = ["--workers", str(hosts * each)]
    for text in settings + ([] if hosts == 1 else ["threads=1"]):
        common += ["--set", text]
    place = ["--machine", "two.yaml", "--ranks-per-host", str(each)] if hosts > 1 else []
    plan = json.loads(run([lockstep, "plan", "step.yaml", "--json", "--measure"] + common + place, cwd=work))
    shutil.rmtree(os.path.join(work, "runs", "case"), ignore_errors=True)
    train = [lockstep, "train", "step.yaml", "-q", "--set", "run.name=case", "--set", f"train.steps={STEPS}"] + common
    if hosts > 1:
        on_hosts(work, cores, each, train)
    else:
        run(train, cwd=work)
    return 1e3 * plan["rank"]["seconds"], 1e3 * statistics.median(steps_of(work, "case"))


def table(cases, found, rounds):
    print(f"\nmilliseconds, medians of {rounds} rounds (least to greatest)")
    print(f"{'case':20} {'predicted':>22} {'measured':>22}   predicted / measured")
    for case in cases:
        predicted, measured = zip(*found[case[0]])
        cells = []
        for times in (predicted, measured):
            cells.append("%5.0f (%.0f to %.0f)" % (statistics.median(times), min(times), max(times)))
        ratio = statistics.median(predicted) / statistics.median(measured)
        print("%-20s %22s %22s %10.2f" % (case[0], cells[0], cells[1], ratio))


def main():
    lockstep = os.path.abspath(os.path.join(sys.argv[1], "lockstep"))
    only = sys.argv[2:]
    why = why_one_host()
    if not why:
        alone()
    cases = []
    for case in CASES:
        if only and not any(word in case[0] for word in only):
            continue
        if case[1] > 1 and why:
            print(f"{case[0]:20} skipped: {why}")
            continue
        cases.append(case)
    with tempfile.TemporaryDirectory(prefix="lockstep-planner-") as work:
        os.environ |= {
            "LOCKSTEP_CACHE": os.path.join(work, "cache"),
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "NO_COLOR": "1",
        }
        with open(os.path.join(work, "step.yaml"), "w", encoding="utf-8") as f:
            f.write(RECIPE)
        cores = None if why else make_hosts(work)
        found = {case[0]: [] for case in cases}
        for number in range(ROUNDS):
            measure_machine(lockstep, work, cores)
            for case in cases:
                found[case[0]].append(predict_and_train(lockstep, work, cores, case))
                row = found[case[0]][-1]
                print("round %d of %d  %-20s %6.0f %6.0f ms" % ((number + 1, ROUNDS, case[0]) + row), flush=True)
        if cores:
            with open(os.path.join(work, "two.yaml"), encoding="utf-8") as f:
                print(f.read())
        table(cases, found, ROUNDS)


main()
