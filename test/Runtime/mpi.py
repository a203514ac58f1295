"""Processes that mpirun starts, by each MPI that is here: the conformance suite, and runs of the test program
(test/Unit/runtime/TestProgram.h) that are compared with one process and ended in every way.

usage: mpi.py BUILD LAUNCHERS conformance|runs|trouble      LAUNCHERS: comma-separated"""
import glob
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import numpy

build, launchers, what = sys.argv[1], sys.argv[2].split(","), sys.argv[3]
unit = os.path.join(build, "test", "Unit")
train = os.path.join(unit, "runtime", "scrimp-test-ranks")
environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   OMPI_MCA_hwloc_base_binding_policy="none")
folder = tempfile.TemporaryDirectory(prefix="scrimp-mpi-")
root = folder.name


def path(name):
    return os.path.join(root, name)


def data(name, samples):
    numpy.save(path(f"x{name}.npy"), numpy.sin(numpy.arange(samples * 4, dtype=numpy.float32)).reshape(samples, 4))
    numpy.save(path(f"labels{name}.npy"), (numpy.arange(samples) * 7 % 10).astype(numpy.int64))
    return ["--threads", "1", "--data", f"x={path(f'x{name}.npy')}", f"labels={path(f'labels{name}.npy')}"]


# A machine that is busy with other things may take a hundred times as long as an idle one; a hang is still told from that.
LIMIT = 240


def run(command, limit=LIMIT, **variables):
    """(status, stdout, stderr, seconds). Past the limit this ends in an exception: a hang fails the test."""
    start = time.time()
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=dict(environment, **variables))
    return done.returncode, done.stdout, done.stderr, time.time() - start


def ours(text):
    """The lines that our executable wrote, among those of mpirun."""
    return [line for line in text.splitlines() if line.startswith("scrimp-test-ranks: ")]


def files(name):
    found = sorted(glob.glob(path(name) + "/*.safetensors"))
    assert len(found) == 2, (name, found)
    return [open(each, "rb").read() for each in found]


def losses(name):
    return [json.loads(line)["loss"] for line in open(path(name))]


def conformance():
    for launcher, ranks in itertools.product(launchers, (2, 3, 4)):
        status, out, err, _ = run([launcher, "-n", str(ranks), os.path.join(unit, "comm", "scrimp-comm-tests")], 300)
        assert status == 0 and out.count("PASSED") == ranks, (launcher, ranks, out, err)


def shown(name, ranks):
    """A trace of all ranks: each has its steps, and a collective is done nowhere before it has begun everywhere."""
    trace = json.load(open(name))
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    error = trace["otherData"]["clock_error_us"]
    assert 0 < error < 1e5, error
    collectives = {}
    for rank in range(ranks):
        mine = [event for event in slices if event["pid"] == rank]
        steps = [event["name"] for event in mine if event["cat"] == "step"]
        assert steps == ["step 2", "step 3", "step 4"], (name, rank, steps)
        for event in mine:
            if "sent_bytes" in event["args"]:
                collectives.setdefault(event["args"]["collective"], []).append((event["ts"], event["ts"] + event["dur"]))
    assert len(collectives) == 9, (name, collectives)
    for number, spans in collectives.items():
        assert len(spans) == ranks and min(end for _, end in spans) >= max(begin for begin, _ in spans) - 2 * error - 0.01, (name, number, spans)


def runs():
    inputs = data("", 10)
    flags = inputs + ["--steps", "7"]
    # Neither alone nor as the only rank does it load MPI.
    for command in ([train], *([launcher, "-n", "1", train] for launcher in launchers)):
        status, _, err, _ = run(command + flags + ["--metrics", path("one.jsonl")], LD_DEBUG="libs")
        assert status == 0 and "libopenblas" in err and "libmpi" not in err, (command, err)
    expected = losses("one.jsonl")
    for ranks in (2, 3):
        saved = []
        for launcher in ["threads"] + launchers:
            command, variables = [launcher, "-n", str(ranks), train], {}
            if launcher == "threads":
                command, variables = [train], {"SCRIMP_TEST_THREADS": str(ranks)}
            name = f"{os.path.basename(launcher)}-{ranks}"
            trace = ["--trace", path(name + ".json")]
            status, out, err, _ = run(command + flags + trace + ["--save", path(name), "--metrics", path(name + "-{rank}.jsonl")], **variables)
            assert status == 0 and not ours(err) and out.count("7 steps: loss") == 1, (name, out, err)
            for rank in range(ranks):
                found = losses(f"{name}-{rank}.jsonl")
                assert numpy.allclose(found, expected, rtol=1e-5, atol=0), (name, rank, found, expected)
            saved.append(files(name + "/step-000007"))
            shown(path(name + ".json"), ranks)
        assert all(each == saved[0] for each in saved), ranks

    other = data("2", 12)
    for launcher in launchers:
        two = lambda first, second: [launcher, "-n", "1", train] + first + [":", "-n", "1", train] + second
        cases = [
            (two(flags, inputs + ["--steps", "9"]), "error: ranks differ in the number of steps: 7 on rank 0, 9 on rank 1; give all ranks "
             "the same flags and the same data", {}),
            (two(flags, other + ["--steps", "7"]), "error: ranks differ in the number of training samples: 10 on rank 0, 12 on rank 1; give "
             "all ranks the same flags and the same data", {}),
            (two(flags, flags + ["--lr", "x"]), "error: rank 1: Could not convert: --lr = x; see --help", {}),
            ([launcher, "-n", "3", train] + flags, "error: this program was compiled for 2 ranks, but 3 were started; start it with mpirun -n 2 "
             "./scrimp-test-ranks, or recompile with --world 3", {"SCRIMP_TEST_WORLD": "2"}),
            ([launcher, "-n", "2", train] + flags, "error: 2 processes were started together, but their MPI library cannot be loaded: "
             "/none/libmpi.so: cannot open shared object file: No such file or directory; install it "
             f"({'Debian' + chr(39) + 's libopenmpi3' if 'open' in launcher else 'Debian' + chr(39) + 's libmpich12'}), or name it in "
             "SCRIMP_MPI=/path/to/libmpi.so", {"SCRIMP_MPI": "/none/libmpi.so"}),
        ]
        for command, message, variables in cases:
            status, out, err, _ = run(command, **variables)
            assert status != 0 and ours(err) == ["scrimp-test-ranks: " + message], (launcher, message, out, err)
    # Executables of different programs: rank 1's has another number of ranks.
    status, _, err, _ = run([launchers[0], "-n", "1", train] + flags + [":", "-n", "1", "env", "SCRIMP_TEST_WORLD=5", train] + flags)
    assert status != 0 and ours(err) == [
        "scrimp-test-ranks: error: ranks differ in the number of ranks that their executables were compiled for: 2 on rank 0, 5 on rank 1; "
        "start all ranks from one executable"], err
    other = ["env", "SCRIMP_TEST_MODEL=other", train]
    status, _, err, _ = run([launchers[0], "-n", "1", train] + flags + [":", "-n", "1"] + other + flags)
    assert status != 0 and len(ours(err)) == 1 and re.fullmatch(
        r"scrimp-test-ranks: error: ranks differ in the programs of their executables \(hash\): [0-9a-f]{16} on rank 0, [0-9a-f]{16} on rank 1; "
        "start all ranks from one executable", ours(err)[0]), err
    for rank in "01":
        status, _, err, _ = run([train] + flags, RANK=rank, WORLD_SIZE="2")
        told = ["scrimp-test-ranks: error: RANK and WORLD_SIZE are set, as torchrun does, but ranks on CPUs talk by MPI; start them with "
                "mpirun -n 2, or srun, instead"]
        assert status == 1 and ours(err) == (told if rank == "0" else []), err


def newest(name):
    return sorted(glob.glob(path(name) + "/step-*"))[-1]


def trouble():
    flags = data("", 10)
    for launcher in launchers:
        ranks = lambda *more: [launcher, "-n", "3", train, *flags, *more]
        name = os.path.basename(launcher)
        status, out, err, _ = run(ranks("--steps", "12", "--save", path(name)))
        assert status == 0, (out, err)
        whole = files(name + "/step-000012")

        # A signal to one rank: all save the same step.
        status, out, err, _ = run(ranks("--steps", "100000", "--save", path(name + "-term")), SCRIMP_TEST_AT="2:5:term")
        assert status == 0, (out, err)
        assert ours(err) == ["scrimp-test-ranks: warning: stopped by a signal (Terminated) after step 5, which is saved"], err
        assert newest(name + "-term").endswith("step-000005")

        # Dead, gone without a word, or stuck: all end, and what was saved before goes on to the same weights.
        # The timeout is well above what a busy machine keeps a rank that is alive waiting, and well below the default.
        for kind, words in (("kill", None), ("leave", None), ("hang", "did not come to ")):
            save = ["--save", path(f"{name}-{kind}"), "--save-every", "2"]
            status, out, err, seconds = run(ranks("--steps", "12", "--comm-timeout", "8", *save), SCRIMP_TEST_AT=f"1:6:{kind}")
            assert status != 0 and seconds < LIMIT / 2, (kind, seconds, out, err)
            assert not words or any(f"rank 1 {words}" in line for line in ours(err)), (launcher, kind, out, err)
            assert newest(f"{name}-{kind}").endswith("step-000004"), newest(f"{name}-{kind}")
            status, out, err, _ = run(ranks("--steps", "12", "--resume", path(f"{name}-{kind}"), *save))
            assert status == 0, (kind, out, err)
            assert files(f"{name}-{kind}/step-000012") == whole, kind

        # SIGKILL from outside, at any moment; at SCRIMP_KILLS of them.
        save = ["--save", path(name + "-any"), "--save-every", "1", "--keep", "3"]
        resume = []
        for attempt in range(int(os.environ.get("SCRIMP_KILLS", 4))):
            process = subprocess.Popen(ranks("--steps", "1000000", *save, *resume), env=environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True, start_new_session=True)
            before = newest(name + "-any") if resume else None
            deadline = time.time() + LIMIT
            while not glob.glob(path(name + "-any") + "/step-*") or newest(name + "-any") == before:
                assert time.time() < deadline and process.poll() is None, process.stderr.read()
                time.sleep(0.01)
            time.sleep(random.random() * 0.3)
            victims = [int(each) for each in os.listdir("/proc") if each.isdigit() and is_rank(each, path(name + "-any"))]
            assert len(victims) == 3, victims
            os.kill(random.choice(victims), signal.SIGKILL)
            process.wait(timeout=LIMIT)
            process.stderr.close()
            assert process.returncode != 0
            resume = ["--resume", path(name + "-any")]
        last = newest(name + "-any")
        step = int(last[-6:])
        status, out, err, _ = run(ranks("--steps", str(step + 1), "--save", path(name + "-any"), *resume))
        assert status == 0, (out, err)


def is_rank(process, word):
    try:
        command = open(f"/proc/{process}/cmdline").read().split("\0")
    except OSError:
        return False
    return command[0] == train and word in command


{"conformance": conformance, "runs": runs, "trouble": trouble}[what]()
