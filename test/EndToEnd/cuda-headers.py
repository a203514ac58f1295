"""What the runtime declares of NVIDIA's interfaces is what their headers say, and their libraries have every function.

    python cuda-headers.py FOLDER SOURCE TOOLKIT BUILD"""

import ctypes
import pathlib
import re
import sys

import harness
from harness import check, run

SOURCE, TOOLKIT, BUILD = map(pathlib.Path, sys.argv[2:5])
del sys.argv[2:5]
ROOM, NVTX = SOURCE / "runtime/lib/cuda", SOURCE / "runtime/include/scrimp/runtime/Nvtx.h"

# Ours, and theirs.
NUMBERS = {
    "blasF32": "CUDA_R_32F", "blasF64": "CUDA_R_64F", "blasF16": "CUDA_R_16F", "blasBf16": "CUDA_R_16BF",
    "blasCompute32": "CUBLAS_COMPUTE_32F", "blasCompute64": "CUBLAS_COMPUTE_64F",
    "blasComputeTf32": "CUBLAS_COMPUTE_32F_FAST_TF32", "blasPlain": "CUBLAS_OP_N", "blasTransposed": "CUBLAS_OP_T",
    "blasDescTransA": "CUBLASLT_MATMUL_DESC_TRANSA", "blasDescTransB": "CUBLASLT_MATMUL_DESC_TRANSB",
    "blasDescEpilogue": "CUBLASLT_MATMUL_DESC_EPILOGUE", "blasDescBiasPointer": "CUBLASLT_MATMUL_DESC_BIAS_POINTER",
    "blasDescBiasType": "CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE",
    "blasDescAuxPointer": "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER", "blasDescAuxLd": "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD",
    "blasDescAuxType": "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE", "blasLayoutBatch": "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT",
    "blasLayoutStride": "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET",
    "blasPreferWorkspace": "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES",
    "blasPreferReductions": "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK",
    "blasPreferAlignA": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES", "blasPreferAlignB": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES",
    "blasPreferAlignC": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES", "blasPreferAlignD": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES",
    "blasReduceComputeType": "CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE", "blasEpilogueDefault": "CUBLASLT_EPILOGUE_DEFAULT",
    "blasEpilogueRelu": "CUBLASLT_EPILOGUE_RELU", "blasEpilogueBias": "CUBLASLT_EPILOGUE_BIAS",
    "blasEpilogueGelu": "CUBLASLT_EPILOGUE_GELU", "blasEpilogueGeluAux": "CUBLASLT_EPILOGUE_GELU_AUX",
    "blasEpilogueDGelu": "CUBLASLT_EPILOGUE_DGELU", "blasEpilogueBGradA": "CUBLASLT_EPILOGUE_BGRADA",
    "blasEpilogueBGradB": "CUBLASLT_EPILOGUE_BGRADB",
    "success": "CUDA_SUCCESS", "outOfMemory": "CUDA_ERROR_OUT_OF_MEMORY", "noDevice": "CUDA_ERROR_NO_DEVICE",
    "noBinary": "CUDA_ERROR_NO_BINARY_FOR_GPU", "unsupportedPtx": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "notReady": "CUDA_ERROR_NOT_READY", "attributeMajor": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
    "attributeMinor": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
    "functionMaxDynamicShared": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", "streamNonBlocking": "CU_STREAM_NON_BLOCKING",
    "nvtxCallbacks": "NVTX_ETID_CALLBACKS", "nvtxVersionInfo": "NVTX_ETID_VERSIONINFO", "nvtxCore": "NVTX_CB_MODULE_CORE",
    "nvtxPushA": "NVTX_CBID_CORE_RangePushA", "nvtxPop": "NVTX_CBID_CORE_RangePop", "nvtxFunctions": "NVTX_CBID_CORE_SIZE",
    "ncclInProgress": "::ncclInProgress", "ncclOfInt8": "::ncclInt8", "eventDisableTiming": "CU_EVENT_DISABLE_TIMING", "captureThreadLocal": "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL",
}  # fmt: skip


def functions(header, macro):
    """The names that a list of X(...) in one of our headers holds."""
    text = (ROOM / header).read_text()
    text = text[text.index(f"#define {macro}(X)") :]
    return re.findall(r"\b((?:cu|cublasLt|nccl)[A-Z]\w+), ?\(|X\([^,()]+,\s*((?:cublasLt|nccl)\w+),", text[: text.index("\n\n")])


def names(header, macro):
    found = [a or b for a, b in functions(header, macro)]
    check(len(found) > 5, f"{header}: {found}")
    return found


def headers(folder):
    """Every enumerator of ours has the value of theirs, and all of ours are compared."""
    ours = set()
    for header in (ROOM / "Names.h", ROOM / "Driver.h", ROOM / "Nccl.h", NVTX):
        text = re.sub(r"//.*|/\*.*?\*/", "", header.read_text())
        for body in re.findall(r"enum[\w\s:]*\{([^}]*)\}", text):
            ours |= set(re.findall(r"(\w+) = ", body))
    check(ours == set(NUMBERS), f"not compared: {sorted(ours ^ set(NUMBERS))}")
    asserts = "\n".join(f'static_assert(int(o::{a}) == int({b}), "{a}");' for a, b in NUMBERS.items())
    has_nccl = (TOOLKIT / "include/nccl.h").exists()
    asserts = "\n".join(line for line in asserts.split("\n") if has_nccl or "o::nccl" not in line)
    sizes = "static_assert(sizeof(o::Algorithm) == sizeof(cublasLtMatmulAlgo_t));\n" + "\n".join(
        f"static_assert(offsetof(o::Heuristic, {a}) == offsetof(cublasLtMatmulHeuristicResult_t, {b}));"
        for a, b in (("algorithm", "algo"), ("workspaceBytes", "workspaceSize"), ("state", "state"), ("reserved", "reserved"))
    )
    (folder / "t.cpp").write_text(
        f'#include "{ROOM}/BlasLt.h"\n#include "{ROOM}/Names.h"\n#include <cstddef>\n#include <cuda.h>\n#include <cublasLt.h>\n'
        f'#include "{NVTX}"\n#include <nvtx3/nvToolsExt.h>\n'
        + (f'#include "{ROOM}/Nccl.h"\n#include <nccl.h>\nstatic_assert(sizeof(scrimp::runtime::cuda::NcclId) == sizeof(ncclUniqueId));\n' if has_nccl else "") +
        f"namespace o {{ using namespace scrimp::runtime; using namespace scrimp::runtime::cuda; }}\n{asserts}\n{sizes}\n"
    )
    run(["c++", "-std=c++20", "-fsyntax-only", f"-I{TOOLKIT}/include", f"-I{SOURCE}/runtime/include",
         f"-I{BUILD}/runtime/include", folder / "t.cpp"])  # fmt: skip


def libraries(folder):
    """Functions are where the program looks for them. The driver's own library comes with a GPU; the toolkit has a stub of it."""
    found = 0
    for header, macro, pattern in (("Driver.h", "SCRIMP_DRIVER_FUNCTIONS", "stubs/libcuda.so"),
                                   ("BlasLt.h", "SCRIMP_BLASLT_FUNCTIONS", "libcublasLt.so.1?"),
                                   ("Nccl.h", "SCRIMP_NCCL_FUNCTIONS", "libnccl.so.2")):  # fmt: skip
        for file in [*TOOLKIT.glob(f"lib64/{pattern}"), *TOOLKIT.glob(f"lib/{pattern}")][:1]:
            library = ctypes.CDLL(str(file))
            missing = [name for name in names(header, macro) if not hasattr(library, name)]
            check(not missing, f"{file} lacks {missing}")
            found += 1
    return f"{found} libraries"


if __name__ == "__main__":
    harness.main([headers, libraries])
