// The program's side of NVTX: a table of functions that a profiler's library fills.
#include "scrimp/runtime/Nvtx.h"
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

namespace scrimp::runtime {

using Function = void (*)();

/// NvtxExportTableCallbacks and NvtxExportTableVersionInfo of nvtxTypes.h.
struct CallbackTable {
  size_t bytes;
  int (*getFunctions)(int module, Function ***table, unsigned *size);
};
struct VersionTable {
  size_t bytes;
  uint32_t version, reserved;
  void (*setProfilerVersion)(uint32_t version);
};

/// What the profiler has filled in; null where it does not care.
static Function functions[nvtxFunctions];

/// Where to write each function: of those without a module's table the profiler learns that there are none.
static int getFunctions(int module, Function ***table, unsigned *size) {
  static Function *slots[nvtxFunctions + 1]; // the last is null
  if (module != nvtxCore)
    return 0;
  for (int i = 1; i < nvtxFunctions; ++i) // 0 is none of them
    slots[i] = &functions[i];
  *table = slots;
  if (size)
    *size = nvtxFunctions;
  return 1;
}

static const void *getTable(uint32_t number) {
  static const CallbackTable callbacks = {sizeof(CallbackTable), getFunctions};
  static const VersionTable version = {sizeof(VersionTable), 3, 0, [](uint32_t) {}};
  return number == nvtxCallbacks     ? static_cast<const void *>(&callbacks)
         : number == nvtxVersionInfo ? &version
                                     : nullptr;
}

Status Nvtx::open() {
  static bool isOpen = false;
  const char *path = getenv("NVTX_INJECTION64_PATH");
  if (isOpen || !path || !*path)
    return Status::ok();
  isOpen = true;
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return Status::error("NVTX_INJECTION64_PATH is '%s', which cannot be loaded: %s", path, dlerror());
  using Initialize = int (*)(const void *(*getTable)(uint32_t));
  auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  if (!initialize)
    return Status::error("NVTX_INJECTION64_PATH is '%s', which has no InitializeInjectionNvtx2", path);
  if (!initialize(getTable))
    return Status::error("NVTX_INJECTION64_PATH is '%s', which did not start", path);
  return Status::ok();
}

void Nvtx::begin(std::string_view name, int64_t number) {
  auto push = reinterpret_cast<int (*)(const char *)>(functions[nvtxPushA]);
  if (!push)
    return;
  char text[256];
  int length = static_cast<int>(name.size());
  if (number < 0)
    snprintf(text, sizeof(text), "%.*s", length, name.data());
  else
    snprintf(text, sizeof(text), "%.*s %lld", length, name.data(), (long long)number);
  push(text);
}

void Nvtx::end() {
  if (auto pop = reinterpret_cast<int (*)()>(functions[nvtxPop]))
    pop();
}

} // namespace scrimp::runtime
