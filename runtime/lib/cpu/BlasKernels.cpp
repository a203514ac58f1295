#include "scrimp/runtime/BlasKernels.h"

#include <cblas.h>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

void scrimp::runtime::useFastBlasKernels(char **argv) {
#ifdef __x86_64__
  if (std::getenv("OPENBLAS_CORETYPE") || std::string_view(openblas_get_corename()) != "Prescott")
    return;
  __builtin_cpu_init();
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")))
    return;
  setenv("OPENBLAS_CORETYPE", avx512 ? "SkylakeX" : "Haswell", /*overwrite=*/1);
  execv("/proc/self/exe", argv); // Returns only if it failed: then go on with the kernels at hand.
#else
  (void)argv;
#endif
}
