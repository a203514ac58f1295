// A vendor's library that is opened while the program runs.
#ifndef SCRIMP_RUNTIME_LIB_CUDA_SHAREDLIBRARY_H
#define SCRIMP_RUNTIME_LIB_CUDA_SHAREDLIBRARY_H

#include "scrimp/runtime/Status.h"
#include <string>
#include <vector>

namespace scrimp::runtime::cuda {

/// Stays open until the process ends: a vendor's library may have threads of its own.
class SharedLibrary {
public:
  SharedLibrary() = default;
  /// Opens the first of `names` that is found: in `folder` where one is given, else where the loader looks, and then in
  /// what pip has installed (nvidia/*/lib of the site-packages of python3, in PYTHONPATH or VIRTUAL_ENV). Fails, saying
  /// where it looked; `use` says what for.
  static Result<SharedLibrary> open(const std::vector<std::string> &names, const std::string &folder, const char *use);

  /// The file it was found as.
  const std::string &path() const { return file; }
  /// Null if it has no such symbol.
  void *find(const char *symbol) const;
  /// Sets `function` to the symbol; fails if there is none.
  template <typename Function> Status bind(const char *symbol, Function &function) const {
    function = reinterpret_cast<Function>(find(symbol));
    return function ? Status::ok() : missing(symbol);
  }

private:
  Status missing(const char *symbol) const;

  void *handle = nullptr;
  std::string file;
};

} // namespace scrimp::runtime::cuda

#endif
