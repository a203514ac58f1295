#!/usr/bin/env python3
"""What sharing out costs: GPT 4x256 on two ranks of one thread each, beside two processes that know nothing of each other.

    python3 test/benchmark/ranks.py [--rounds 11] [--steps 6] [--launcher mpirun.openmpi] [--venv PATH]

The two ranks train a batch of 16 x 256 together, each process one of 8 x 256 alone. In every round the pair, then the ranks of
stages 0, 1, 2 and 3 run, in the opposite order in every second round; seconds are the median over the steps but the first of the
slower of the two. Prints the ratio within a round to the pair, its median and range, and what a step sends and waits for.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

from budget import BIN, EXPORT, ROOT

ENVIRONMENT = dict(
    os.environ,
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    OMPI_MCA_hwloc_base_binding_policy="none",
)


def run(command, folder, steps, copies=1):
    """Seconds of a step of the slower of all, and the last step's record."""
    arguments = ["--steps", str(steps + 1), "--threads", "1", "--data", f"ids={folder}/ids.npy", "--data", f"labels={folder}/labels.npy"]
    started = [
        subprocess.Popen(
            [*command, *arguments, "--metrics", f"{folder}/{i}-{{rank}}.jsonl"], env=ENVIRONMENT, stdout=subprocess.DEVNULL
        )
        for i in range(copies)
    ]
    assert all(process.wait() == 0 for process in started)
    names = [f"{folder}/{i}-0.jsonl" for i in range(copies)] if copies > 1 else [f"{folder}/0-{r}.jsonl" for r in (0, 1)]
    records = [[json.loads(line) for line in open(name)] for name in names]
    slowest = [max(r["seconds"] for r in step) for step in zip(*records)][1:]
    return statistics.median(slowest), records[0][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--launcher", default="mpirun.openmpi")
    parser.add_argument("--venv", default=os.path.join(ROOT, "build", "benchmark-venv"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        executables = {}
        for batch in (8, 16):
            part = f"{folder}/{batch}"
            os.mkdir(part)
            open(f"{part}/export.py", "w").write(EXPORT)
            subprocess.run(
                [f"{options.venv}/bin/python", f"{part}/export.py", f"{ROOT}/tools/scrimp-export", part, "gpt", str(batch)],
                check=True,
            )
            for stage in ("alone",) if batch == 8 else (0, 1, 2, 3):
                executables[stage] = f"{part}/{stage}"
                flags = [] if stage == "alone" else ["--world", "2", "--zero", str(stage)]
                subprocess.run(
                    [f"{BIN}/scrimp-compile", f"{part}/model.onnx", "-o", executables[stage], "--quiet", "--workers", "1", *flags],
                    check=True,
                )
        ratios, told = {stage: [] for stage in range(4)}, {}
        for round in range(options.rounds):
            order = ["alone", 0, 1, 2, 3]
            seconds = {}
            for stage in order if round % 2 == 0 else reversed(order):
                if stage == "alone":
                    seconds[stage], _ = run([executables[stage]], f"{folder}/8", options.steps, copies=2)
                else:
                    command = [options.launcher, "-n", "2", executables[stage]]
                    seconds[stage], told[stage] = run(command, f"{folder}/16", options.steps)
            for stage in range(4):
                ratios[stage].append(seconds[stage] / seconds["alone"])
        print(f"GPT 4x256, batch 8 x 256 a rank, {options.launcher}: a step alone {seconds['alone']:.3f} s")
        for stage in range(4):
            r, t = ratios[stage], told[stage]
            print(
                f"  stage {stage}: {statistics.median(r):.3f} ({min(r):.3f} to {max(r):.3f}); arena "
                f"{t['arena_bytes'] / 2**20:.1f} MiB, sends {t['sent_bytes'] / 2**20:.1f} MiB, waits {t['comm_wait_seconds']:.3f} s"
            )


if __name__ == "__main__":
    main()
