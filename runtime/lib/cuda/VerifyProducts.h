// --verify on a GPU: what the library computes, beside plain sums on the host.
#ifndef SCRIMP_RUNTIME_LIB_CUDA_VERIFYPRODUCTS_H
#define SCRIMP_RUNTIME_LIB_CUDA_VERIFYPRODUCTS_H

#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/Program.h"

namespace scrimp::runtime::cuda {

/// Runs each different library call of the program on random values in its own bytes of `arena`, which it overwrites, and
/// compares a sample of each result, corners included, with sums in f64. `library` names it in messages. On success
/// `summary` says what was compared.
Status verifyProducts(const program::Program *program, Device &device, char *arena, const std::string &library,
                      std::string &summary);

} // namespace scrimp::runtime::cuda

#endif
