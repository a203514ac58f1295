// What a module is compiled for, once and again; and what nothing can be compiled for.
// RUN: scrimp-opt %s --scrimp-attach-target=workers=3 | FileCheck %s --check-prefix=CPU
// RUN: scrimp-opt %s --scrimp-attach-target=workers=3 --scrimp-attach-target=kind=emulated | FileCheck %s --check-prefix=EMULATED
// RUN: scrimp-opt %s --scrimp-attach-target="kind=cuda tf32" | FileCheck %s --check-prefix=TF32
// RUN: not scrimp-opt %s --scrimp-attach-target=tf32 2>&1 | FileCheck %s --check-prefix=CPUTF32
// RUN: not scrimp-opt %s --scrimp-attach-target=kind=tpu 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not scrimp-opt %s --scrimp-attach-target=workers=0 2>&1 | FileCheck %s --check-prefix=THREADS

// CPU: module attributes {scrimp.target = #scrimp.target<cpu, workers = 3>}
// EMULATED: module attributes {scrimp.target = #scrimp.target<emulated>}
// TF32: module attributes {scrimp.target = #scrimp.target<cuda, tf32 = true>}
// CPUTF32: error: cannot be compiled: a CPU has no TF32; it is of cuda and emulated
// UNKNOWN: error: unknown target 'tpu'; there are cpu, emulated and cuda
// THREADS: error: cannot be compiled: a program needs a thread, found workers = 0
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
