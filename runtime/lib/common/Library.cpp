// The registry of library functions.
#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/Program.h"
#include <cblas.h>

namespace scrimp::runtime {

template <typename Visit> static void forEachFunction(Visit visit) {
  visit(gemmFunction);
  visit(linearFunction);
  for (const LibraryFunction &function : conv2dFunctions)
    visit(function);
  for (const LibraryFunction &function : attentionFunctions)
    visit(function);
}

const LibraryFunction *findLibraryFunction(std::string_view name) {
  const LibraryFunction *found = nullptr;
  forEachFunction([&](const LibraryFunction &function) {
    if (function.name == name)
      found = &function;
  });
  return found;
}

std::string libraryFunctionNames() {
  std::string names;
  forEachFunction([&](const LibraryFunction &function) {
    if (!names.empty())
      names += ", ";
    names += function.name;
  });
  return names;
}

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
  if (call.types())
    arguments.types = {call.types()->data(), call.types()->size()};
  arguments.workers = program.workers();
  arguments.bf16Dot = usesBf16Dot(&program);
}

void initializeLibrary() { openblas_set_num_threads(1); }

} // namespace scrimp::runtime
