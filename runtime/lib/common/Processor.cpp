// Whether this processor runs what the program was compiled for.
#include "scrimp/runtime/Program.h"

namespace scrimp::runtime {

/// False also for what we cannot ask for.
static bool hasFeature(std::string_view name) {
#ifdef __x86_64__
  __builtin_cpu_init();
#define SCRIMP_FEATURE(FEATURE)                                                                                        \
  if (name == FEATURE)                                                                                                 \
    return __builtin_cpu_supports(FEATURE) != 0;
  SCRIMP_FEATURE("sse4.2")
  SCRIMP_FEATURE("popcnt")
  SCRIMP_FEATURE("avx")
  SCRIMP_FEATURE("f16c")
  SCRIMP_FEATURE("avx2")
  SCRIMP_FEATURE("fma")
  SCRIMP_FEATURE("bmi")
  SCRIMP_FEATURE("bmi2")
  SCRIMP_FEATURE("avx512f")
  SCRIMP_FEATURE("avx512cd")
  SCRIMP_FEATURE("avx512bw")
  SCRIMP_FEATURE("avx512dq")
  SCRIMP_FEATURE("avx512vl")
  SCRIMP_FEATURE("avx512ifma")
  SCRIMP_FEATURE("avx512vbmi")
  SCRIMP_FEATURE("avx512vbmi2")
  SCRIMP_FEATURE("avx512vnni")
  SCRIMP_FEATURE("avx512bitalg")
  SCRIMP_FEATURE("avx512vpopcntdq")
  SCRIMP_FEATURE("avx512bf16")
  SCRIMP_FEATURE("avx512fp16")
#undef SCRIMP_FEATURE
#endif
  return false;
}

Status checkProcessor(const program::Program *program) {
  std::string missing;
  for (const flatbuffers::String *feature : items(program->cpu_features()))
    if (!hasFeature(textOf(feature)))
      missing += (missing.empty() ? "" : ", ") + std::string(textOf(feature));
  if (missing.empty())
    return Status::ok();
  return Status::error(
      "compiled for the processor %s, of whose instructions this one lacks %s; recompile here, or with "
      "--march x86-64-v2 for any",
      std::string(textOf(program->cpu())).c_str(), missing.c_str());
}

} // namespace scrimp::runtime
