"""compare.py A B TOLERANCE: whether two outputs of scrimp-run agree, each number relative to its result's largest."""
import json
import sys

def numbers(value):
    return [n for item in value for n in numbers(item)] if isinstance(value, list) else [float(value)]

a, b = ([numbers(json.loads(line.replace("nan", "NaN"))) for line in open(path)] for path in sys.argv[1:3])
assert a and len(a) == len(b), "different numbers of results"
for i, (x, y) in enumerate(zip(a, b)):
    assert len(x) == len(y), f"result {i} has {len(x)} and {len(y)} elements"
    scale = max(abs(v) for v in x) or 1
    worst = max(abs(v - w) for v, w in zip(x, y)) / scale
    if not worst <= float(sys.argv[3]):
        sys.exit(f"result {i} differs by {worst:g} of its largest element")
