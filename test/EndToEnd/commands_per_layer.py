"""How many commands a layer takes on a device, forward and backward, updates and norms apart; a call of the library is one.
And how many launches update parameters: where updates wait for the norm, one for 8 members of a bucket; elsewhere some gradients
are not kept so long.

usage: commands_per_layer.py FOLDER     the compiler is in PATH

Four layers minus two, so that nothing counts that a model has once. Fewer is better; more is a change to look at."""

import collections
import re
import sys

from harness import check, fresh_folder, run
from large import gpt, llama

# By model and precision: the most that a layer takes.
MOST = {
    ("gpt", "fp32"): 21,
    ("gpt", "bf16"): 22,
    ("llama", "fp32"): 44,
    ("llama", "bf16"): 48,
}
MODELS = {
    "gpt": lambda layers: gpt(layers, "batch", 32, 64, 4, 128),
    "llama": lambda layers: llama(layers, "batch", 32, 64, 4, 2, 96, 128),
}
UPDATES = 5  # of two layers: two for each, as one takes 8 members, and one for the rest
COMMAND = re.compile(r"scrimp\.cmd\.(launch|call|copy|collective|check_finite)\b(.*) loc\((.*)\)$")


def commands_of(text):
    """The kinds of the commands of @train, with the place that each has in the model."""
    names = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.M))

    def place(location):
        return re.sub(r"#loc\d+", lambda m: place(names[m[0]]) if m[0] in names else m[0], location)

    graph = text[text.index("scrimp.cmd.graph @train") :]
    graph = graph[: graph.find("scrimp.cmd.graph", 1)]
    return [(m[1], m[2], place(m[3])) for m in map(COMMAND.search, graph.split("\n")) if m]


def updates_of(text):
    """The launches that write parameters."""
    parameters = [(int(b), int(b) + int(n)) for b, n in re.findall(r'scrimp\.cmd\.segment "parameters" \[(\d+) : (\d+)\]', text)]
    check(len(parameters) == 1, f"{parameters}")
    begin, end = parameters[0]

    def writes(what):
        buffers = re.findall(r"(\d+) : \d+", what[: what.index("]")])
        reads = int((re.search(r"reads = (\d+)", what) or [0, "0"])[1])
        return any(begin <= int(b) < end for b in buffers[reads:])

    return sum(kind == "launch" and writes(what) for kind, what, _ in commands_of(text))


folder = fresh_folder(sys.argv[1])
for (model, precision), most in MOST.items():
    counts = []
    for layers in (2, 4):
        path, out = folder / f"{model}{layers}.onnx", folder / f"{model}-{layers}-{precision}.mlir"
        path.write_bytes(MODELS[model](layers))
        run(["scrimp-compile", path, "--data", "ids", "--data", "labels", "--dim", "batch=2", "--quiet", "--target", "cuda",
             "--precision", precision, "--emit", "commands", "-o", out])  # fmt: skip
        commands = commands_of(out.read_text())
        check(any('"update"' in where for _, _, where in commands), f"{model}: no command is of an update")
        if layers == 2:
            early = updates_of(out.read_text())
            check(early <= UPDATES + 2, f"{model} {precision}: {early} launches update parameters")
            run(["scrimp-compile", path, "--data", "ids", "--data", "labels", "--dim", "batch=2", "--quiet", "--target", "cuda",
                 "--clip-grad-norm", "--precision", precision, "--emit", "commands", "-o", out])  # fmt: skip
            late = updates_of(out.read_text())
            check(late == UPDATES, f"{model} {precision}: {late} launches update parameters that wait for the norm")
            print(f"{model} {precision}: {early} launches update parameters, {late} behind the norm")
        counts.append([c for c in commands if '"update"' not in c[2]])
    each = (len(counts[1]) - len(counts[0])) / 2
    kinds = collections.Counter(kind for kind, _, where in counts[1] if re.search(r"\b(h|layers)\.2\b", where))
    print(f"{model} {precision}: {each:g} commands a layer, {dict(kinds)}")
    check(each <= most, f"{model} {precision}: a layer takes {each:g} commands, expected {most} at most")
