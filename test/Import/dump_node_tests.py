#!/usr/bin/env python3
"""Writes the node tests of pip's onnx as files, in the layout of Debian's libonnx-testdata.

    python dump_node_tests.py FOLDER      # needs pip's onnx; 15 seconds
    scrimp-import --node-tests FOLDER --exceptions test/Import/node-tests-newer.txt
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

root = pathlib.Path(sys.argv[1])
for case in collect_testcases(None):
    if case.model is None or len(case.data_sets) < 1:
        continue
    if max((o.version for o in case.model.opset_import if o.domain in ("", "ai.onnx")), default=0) > 23:
        # The newest opset is beyond what Scrimp reads, but few ops changed in it: read those as opset 23.
        for opset in case.model.opset_import:
            if opset.domain in ("", "ai.onnx"):
                opset.version = 23
    folder = root / case.name / "test_data_set_0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / "model.onnx").write_bytes(case.model.SerializeToString())
    for kind, values in zip(("input", "output"), case.data_sets[0]):
        for i, value in enumerate(values):
            if isinstance(value, onnx.TensorProto):
                tensor = value
            elif isinstance(value, (np.ndarray, np.generic)):
                try:
                    tensor = numpy_helper.from_array(np.asarray(value))
                except Exception:  # element types of their own
                    continue
            else:
                continue
            (folder / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())
