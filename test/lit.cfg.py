"""lit configuration: textual tests beside this file, GoogleTest programs from the build tree."""
import os
import shutil
import subprocess

import lit.formats

config.name = "scrimp"
config.suffixes = [".mlir", ".test", ".fbs"]
config.excludes = ["models", "benchmark", "FakeCuda", "Inputs", "lit.cfg.py"]
config.test_source_root = os.path.join(config.scrimp_source_dir, "test")
config.test_exec_root = os.path.join(config.scrimp_build_dir, "test")
config.test_format = lit.formats.ShTest(execute_external=False)

tools = os.path.join(config.scrimp_build_dir, "bin")
config.environment["PATH"] = os.pathsep.join([tools, config.llvm_tools_dir, os.environ["PATH"]])
for name in ("CUDA_HOME", "SCRIMP_TORCH_PYTHON", "SCRIMP_ALL_MODELS", "HOME", "LD_LIBRARY_PATH"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%models", os.path.join(config.test_source_root, "models")))
config.substitutions.append(("%source", config.scrimp_source_dir))
config.substitutions.append(("%build", config.scrimp_build_dir))
# Debian's Python has Debian's numpy; another that stands first on PATH may have none.
config.substitutions.append(("%python", "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"))

# Tests that need more than Scrimp turn on where it is there.
ptxas = shutil.which("ptxas") or shutil.which("ptxas", path=os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin"))
if ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", ptxas))
toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
if os.path.exists(os.path.join(toolkit, "include", "cublasLt.h")):
    config.available_features.add("cuda-toolkit")
    config.substitutions.append(("%cuda_toolkit", toolkit))
if os.path.exists(os.path.join(toolkit, "nvvm", "libdevice", "libdevice.10.bc")):  # functions of f64
    config.available_features.add("libdevice")
torch_python = os.environ.get("SCRIMP_TORCH_PYTHON", "")
if torch_python and subprocess.run([torch_python, "-c", "import torch, safetensors"], capture_output=True).returncode == 0:
    config.available_features.add("torch")
    config.substitutions.append(("%torch_python", torch_python))
node_tests = "/usr/share/libonnx-testdata/data/node"
if os.path.isdir(node_tests):
    config.available_features.add("onnx-testdata")
    config.substitutions.append(("%node_tests", node_tests))
launchers = [shutil.which(name) for name in ("mpirun.openmpi", "mpirun.mpich")]
if any(launchers):
    config.available_features.add("mpi")
    config.substitutions.append(("%mpi_launchers", ",".join(filter(None, launchers))))
if config.sanitize:
    config.available_features.add("sanitize")
