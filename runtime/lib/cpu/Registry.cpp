// The library functions of a processor, which an emulated device uses too.
#include "scrimp/runtime/Library.h"
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

void initializeLibrary() { openblas_set_num_threads(1); }

} // namespace scrimp::runtime
