// Numbers of cuBLASLt's enumerations. A test compares them with NVIDIA's headers, where they are.
#ifndef SCRIMP_RUNTIME_LIB_CUDA_NAMES_H
#define SCRIMP_RUNTIME_LIB_CUDA_NAMES_H

namespace scrimp::runtime::cuda {

enum BlasType : int { blasF32 = 0, blasF64 = 1, blasF16 = 2, blasBf16 = 14 };
enum BlasCompute : int { blasCompute32 = 68, blasCompute64 = 70, blasComputeTf32 = 77 };
enum BlasOperation : int { blasPlain = 0, blasTransposed = 1 };
enum BlasDesc : int {
  blasDescTransA = 3,
  blasDescTransB = 4,
  blasDescEpilogue = 7,
  blasDescBiasPointer = 8,
  blasDescAuxPointer = 11,
  blasDescAuxLd = 12,
  blasDescAuxType = 22,
  blasDescBiasType = 26
};
enum BlasLayout : int { blasLayoutBatch = 5, blasLayoutStride = 6 };
enum BlasPreference : int {
  blasPreferWorkspace = 1,
  blasPreferReductions = 3,
  blasPreferAlignA = 5,
  blasPreferAlignB = 6,
  blasPreferAlignC = 7,
  blasPreferAlignD = 8
};
enum BlasReduction : int { blasReduceComputeType = 2 };
enum BlasEpilogue : int {
  blasEpilogueDefault = 1,
  blasEpilogueRelu = 2,
  blasEpilogueBias = 4,
  blasEpilogueGelu = 32,
  blasEpilogueGeluAux = 160,
  blasEpilogueDGelu = 192,
  blasEpilogueBGradA = 256,
  blasEpilogueBGradB = 512
};

} // namespace scrimp::runtime::cuda

#endif
