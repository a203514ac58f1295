// A profiler that listens to NVTX: writes the ranges of the program, as they begin and end, to the file SCRIMP_FAKE_NVTX.
// What it knows of the program is what NVIDIA's nvtxTypes.h says.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

using Function = void (*)();
struct Callbacks {
  size_t bytes;
  int (*getModuleFunctionTable)(int module, Function ***table, unsigned *size);
};
struct Version {
  size_t bytes;
  uint32_t version, reserved;
  void (*setInjectionVersion)(uint32_t version);
};
enum { callbacksTable = 1, versionTable = 3, coreModule = 1, cudaModule = 2, rangePushA = 9, rangePop = 11 };

FILE *file;

int push(const char *name) {
  fprintf(file, "push %s\n", name);
  fflush(file);
  return 0;
}

int pop() {
  fprintf(file, "pop\n");
  fflush(file);
  return 0;
}

} // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*getTable)(uint32_t)) {
  const char *path = getenv("SCRIMP_FAKE_NVTX");
  file = path ? fopen(path, "a") : nullptr;
  if (!file)
    return 0;
  auto version = static_cast<const Version *>(getTable(versionTable));
  auto callbacks = static_cast<const Callbacks *>(getTable(callbacksTable));
  if (!version || version->bytes < sizeof(Version) || version->version != 3 || !callbacks || getTable(7))
    return 0;
  version->setInjectionVersion(3);
  Function **table = nullptr;
  unsigned size = 0;
  if (callbacks->getModuleFunctionTable(cudaModule, &table, &size) ||
      !callbacks->getModuleFunctionTable(coreModule, &table, &size) || size <= rangePop)
    return 0;
  *table[rangePushA] = reinterpret_cast<Function>(push);
  *table[rangePop] = reinterpret_cast<Function>(pop);
  return 1;
}
