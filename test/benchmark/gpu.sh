#!/bin/sh
# Executables on a GPU: made where the compiler is, carried to where the GPU is, compared and timed there.
#
#   gpu.sh prepare FOLDER [BUILD]       here: programs, data and losses of the CPU; FOLDER is all that is carried
#   gpu.sh run FOLDER [RESULTS]         there: needs python3 alone (PyTorch with CUDA is compared where it is there)
#   gpu.sh dry-run FOLDER [BUILD]       both here, small, on stand-ins for NVIDIA's libraries (test/FakeCuda)
#
# `run` takes less than 8 minutes, writes RESULTS/gpu.json (default: FOLDER/results) and prints tables for RESULTS.md. It exits with 1 if
# a bar was missed or a part failed. gpu.py tells the rest.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
exec "${PYTHON:-python3}" "$here/gpu.py" "$@"
