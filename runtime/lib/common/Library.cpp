// What every library call is given.
#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/Program.h"

namespace scrimp::runtime {

bool usesBf16Dot(const program::Program *program) {
  for (const flatbuffers::String *feature : items(program->cpu_features()))
    if (textOf(feature) == "avx512bf16")
      return true;
  return false;
}

void setScalarArguments(LibraryArguments &arguments, const program::Call &call, const program::Program &program) {
  if (call.ints())
    arguments.ints = {call.ints()->data(), call.ints()->size()};
  if (call.floats())
    arguments.floats = {call.floats()->data(), call.floats()->size()};
  arguments.dtype = call.dtype();
  arguments.where = textOf(call.location());
  if (call.types())
    arguments.types = {call.types()->data(), call.types()->size()};
  arguments.workers = program.workers();
  arguments.bf16Dot = usesBf16Dot(&program);
  arguments.forCuda = program.target() == program::Target::cuda;
  arguments.tf32 = call.tf32();
}

std::string keyOf(const program::Call &call) {
  std::string key = call.function()->str() + " " + dtypeName(call.dtype());
  for (DType type : items(call.types()))
    key += std::string(" ") + dtypeName(type);
  for (int64_t value : items(call.ints()))
    key += " " + std::to_string(value);
  return key;
}

} // namespace scrimp::runtime
