"""Imports every model of test/models and interprets it in fp64: the loss must be PyTorch's first one in fp64.

    check_models.py scrimp-import test/models [name...]

Files in double hold every constant exactly when scrimp-export wrote them; others hold some rounded to float32.
Also: the parameters carry the names of the module's state_dict, apart from those that an exporter lost.
"""
import json
import pathlib
import re
import subprocess
import sys

tool, root, only = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
# Names that the default exporter folds away, by file (see README.md beside this file).
FOLDED = {
    "bert": {"bert.embeddings.position_embeddings.weight", "bert.embeddings.token_type_embeddings.weight"},
    "gpt2": {"transformer.wpe.weight"}, "vit": {"vit.embeddings.cls_token"}, "frozen": {"right.weight", "right.bias"},
}
failures = 0
for reference in sorted([*root.glob("*/reference.json"), *root.glob("cases/*/reference.json")]):
    folder = reference.parent
    if only and folder.name not in only:
        continue
    ref = json.loads(reference.read_text())
    for model in sorted(folder.glob("*.onnx")):
        if "fresh" in model.name or "-loss" in model.name:  # other weights, another loss
            continue
        exported = model.name.startswith("export")
        loss = [] if exported else ["--loss", ref["loss"]]
        data = sum((["--data", f"{name}={folder / file}"] for name, file in ref["inputs"].items()), [])
        bytes_ = model.read_bytes()
        arguments = [tool, str(model), *loss, *data]
        for _ in range(4):  # symbolic dimensions are all the batch
            result = subprocess.run([*arguments, "--evaluate"], capture_output=True, text=True)
            unbound = re.search(r"with --dim (\S+)=N", result.stderr)
            if not unbound:
                break
            arguments += ["--dim", f"{unbound[1]}={ref['batch']}"]
        problems = []
        weightless = ref["weights"] != "in the files"
        if result.returncode and not (weightless and "has no value in the file" in result.stderr):
            problems.append(result.stderr.strip())
        if not result.returncode:
            loss_value, want = float(result.stdout.split()[1]), ref["fp64"]["loss"][0]
            bound = 1e-13 if model.name == "export.f64.onnx" else 1e-9
            if abs(loss_value - want) > bound * abs(want):
                problems.append(f"loss {loss_value!r}, expected {want!r} within {bound}")
        text = subprocess.run(arguments, capture_output=True, text=True).stdout
        names = set()
        for argument in re.split(r"%arg\d+: ", text.split(") -> (")[0])[1:]:
            if "scrimp.param" in argument or "scrimp.state" in argument:
                names.add(re.search(r'scrimp.name = "([^"]+)"', argument)[1])
                aliases = re.search(r"scrimp.aliases = \[([^\]]*)\]", argument)
                names |= set(re.findall(r'"([^"]+)"', aliases[1])) if aliases else set()
        wanted = {n for n in ref["fp64"]["weight_norms"] if ref.get("tensors", {}).get(n, "parameter") != "buffer"}
        wanted = {n for n in wanted if "inv_freq" not in n and (exported or "running_" not in n)}
        if "-opt" in model.name:
            wanted -= FOLDED.get(folder.name, set())
        if folder.name == "resnet18" and "-opt" in model.name:
            wanted = {n for n in wanted if "conv" in n or n == "fc.weight"}  # and the zero bias of fc
        if folder.name == "bert":  # a second name for the decoder's bias, which only scrimp-export records
            wanted -= set() if exported else {"cls.predictions.bias"}
        if wanted - names:
            problems.append(f"lacks {sorted(wanted - names)[:5]}")
        if problems:
            failures += 1
            print(f"{folder.name}/{model.name}: {'; '.join(problems)}")
        else:
            print(f"{folder.name}/{model.name}: ok")
sys.exit(failures != 0)
