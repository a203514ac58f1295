// A stand-in for NVIDIA's driver, so that what a CUDA program asks of it is tested where there is no GPU. It keeps the
// driver's promises as far as they are used: memory that the host cannot touch, work that is done in the order of a
// stream and, while a stream is captured, only noted; every misuse ends the process with a message.
//
// A launch runs the kernel of the same name out of SCRIMP_FAKE_KERNELS, an object of `--target emulated`, thread by
// thread (Emulated.h). The device is as these variables say:
//   SCRIMP_FAKE_DEVICES   how many (1)             SCRIMP_FAKE_CAPABILITY   of each, times 10 (90)
//   SCRIMP_FAKE_VERSION   of the driver (13000)    SCRIMP_FAKE_MEMORY       bytes of each (1 GiB)
//   SCRIMP_FAKE_LAUNCH    the launch that fails, and with it all that follows
//   SCRIMP_FAKE_LOG       a file that gets a line for each launch of a graph and each kernel launched outside of one
#include "scrimp/runtime/Emulated.h"
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using Address = unsigned long long;

enum {
  success = 0,
  invalidValue = 1,
  outOfMemory = 2,
  notInitialized = 3,
  noDevice = 100,
  noBinary = 209,
  notFound = 500,
  launchFailed = 719
};

[[noreturn]] void misuse(const char *format, ...) {
  va_list list;
  va_start(list, format);
  fprintf(stderr, "fake driver: ");
  vfprintf(stderr, format, list);
  fprintf(stderr, "\n");
  va_end(list);
  _exit(99);
}

long long number(const char *variable, long long otherwise) {
  const char *text = getenv(variable);
  return text && *text ? atoll(text) : otherwise;
}

void log(const char *format, ...) {
  const char *path = getenv("SCRIMP_FAKE_LOG");
  FILE *file = path ? fopen(path, "a") : nullptr;
  if (!file)
    return;
  va_list list;
  va_start(list, format);
  vfprintf(file, format, list);
  va_end(list);
  fputc('\n', file);
  fclose(file);
}

/// Device addresses are those of the host with a bit that none of a process has.
constexpr uintptr_t bias = uintptr_t(1) << 60;
std::map<uintptr_t, std::pair<size_t, std::unique_ptr<char[]>>> memory; // by address of the device
size_t usedBytes = 0;

/// The host's address of bytes of the device, all of one allocation.
char *toHost(Address address, size_t bytes, const char *what) {
  auto after = memory.upper_bound(address);
  if (after == memory.begin())
    misuse("%s of %zu bytes at %llx, where nothing is allocated", what, bytes, address);
  auto &[begin, block] = *--after;
  if (address + bytes > begin + block.first)
    misuse("%s of %zu bytes at %llx, behind the end of an allocation of %zu", what, bytes, address, block.first);
  return block.second.get() + (address - begin);
}

using Work = std::function<int()>;
struct Graph {
  std::vector<Work> work;
};
/// A capture takes in other streams that wait for an event of it; at its end it must have waited for what they do.
struct Stream {
  bool isCapturing = false;
  Graph graph;
  Stream *origin = nullptr; // the stream whose capture it belongs to
  std::vector<Stream *> others;
  bool isAwaited = true; // by the capture that it belongs to
};
struct Event {
  Stream *stream = nullptr;
  bool isCaptured = false;
};
struct Function {
  std::string name;
};
struct Module {
  void *kernels;
  std::map<std::string, std::unique_ptr<Function>> functions;
};
int sticky = success; // what all calls say once a kernel has failed
bool isInitialized = false, hasContext = false;
long long launches = 0;

int enqueue(Stream *stream, Work work) {
  if (!hasContext)
    misuse("work without a context");
  if (sticky)
    return sticky;
  if (!stream)
    misuse("work on the default stream");
  if (Stream *origin = stream->origin) {
    stream->isAwaited = origin == stream;
    origin->graph.work.push_back(std::move(work));
    return success;
  }
  return work();
}

/// What the host waits for cannot be captured.
void requireOutside(Stream *stream, const char *what) {
  if (stream && stream->origin)
    misuse("%s while the stream is captured", what);
}

} // namespace

extern "C" {

int cuInit(unsigned flags) {
  if (flags)
    misuse("cuInit(%u)", flags);
  isInitialized = true;
  return number("SCRIMP_FAKE_DEVICES", 1) ? success : noDevice;
}
int cuDriverGetVersion(int *version) {
  return *version = static_cast<int>(number("SCRIMP_FAKE_VERSION", 13000)), success;
}
int cuGetErrorName(int code, const char **name) {
  return *name = code == launchFailed  ? "CUDA_ERROR_LAUNCH_FAILED"
                 : code == outOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
                                       : "CUDA_ERROR",
         success;
}
int cuGetErrorString(int code, const char **text) {
  return *text = code == launchFailed  ? "unspecified launch failure"
                 : code == outOfMemory ? "out of memory"
                                       : "error",
         success;
}
int cuDeviceGetCount(int *count) {
  return *count = static_cast<int>(number("SCRIMP_FAKE_DEVICES", 1)), isInitialized ? success : notInitialized;
}
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, success; }
int cuDeviceGetName(char *name, int length, int ordinal) {
  return snprintf(name, static_cast<size_t>(length), "Fake GPU %d", ordinal), success;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
  long long capability = number("SCRIMP_FAKE_CAPABILITY", 90);
  *value = static_cast<int>(attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0);
  return success;
}
int cuDeviceGetUuid_v2(char *uuid, int ordinal) { return memset(uuid, ordinal, 16), success; }
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = &hasContext, success; }
int cuCtxSetCurrent(void *context) { return hasContext = context != nullptr, success; }
int cuMemGetInfo_v2(size_t *freeBytes, size_t *all) {
  *all = static_cast<size_t>(number("SCRIMP_FAKE_MEMORY", 1 << 30));
  *freeBytes = *all - usedBytes;
  return success;
}
int cuMemAlloc_v2(Address *address, size_t bytes) {
  if (!bytes)
    return invalidValue;
  if (usedBytes + bytes > static_cast<size_t>(number("SCRIMP_FAKE_MEMORY", 1 << 30)))
    return outOfMemory;
  constexpr size_t alignment = 256;
  auto block = std::make_unique<char[]>(bytes + alignment);
  memset(block.get(), 0x5a, bytes + alignment); // what is allocated is not cleared
  uintptr_t host = (reinterpret_cast<uintptr_t>(block.get()) + alignment - 1) / alignment * alignment;
  // The map's begin is where the block begins, so that offsets in both agree.
  size_t shift = host - reinterpret_cast<uintptr_t>(block.get());
  memory.emplace(reinterpret_cast<uintptr_t>(block.get()) + bias, std::pair(bytes + shift, std::move(block)));
  usedBytes += bytes;
  *address = host + bias;
  return success;
}
int cuMemFree_v2(Address address) {
  auto after = memory.upper_bound(address);
  if (after == memory.begin())
    misuse("frees what is not allocated");
  memory.erase(--after);
  return success;
}
int cuMemAllocHost_v2(void **address, size_t bytes) { return *address = calloc(bytes, 1), success; }
int cuMemFreeHost(void *address) { return free(address), success; }
int cuMemsetD8Async(Address address, unsigned char value, size_t bytes, Stream *stream) {
  char *host = toHost(address, bytes, "memset");
  return enqueue(stream, [=] { return memset(host, value, bytes), success; });
}
int cuMemcpyHtoDAsync_v2(Address target, const void *source, size_t bytes, Stream *stream) {
  char *host = toHost(target, bytes, "upload");
  return enqueue(stream, [=] { return memcpy(host, source, bytes), success; });
}
int cuMemcpyDtoHAsync_v2(void *target, Address source, size_t bytes, Stream *stream) {
  const char *host = toHost(source, bytes, "download");
  return enqueue(stream, [=] { return memcpy(target, host, bytes), success; });
}
int cuMemcpyDtoDAsync_v2(Address target, Address source, size_t bytes, Stream *stream) {
  char *to = toHost(target, bytes, "copy");
  const char *from = toHost(source, bytes, "copy");
  return enqueue(stream, [=] { return memcpy(to, from, bytes), success; });
}

/// The driver takes ELF for its very cards, and PTX, which is text.
int cuModuleLoadData(Module **module, const void *image) {
  const char *kernels = getenv("SCRIMP_FAKE_KERNELS");
  kernels = kernels && *kernels ? kernels : nullptr;
  bool isElf = memcmp(image, "\177ELF", 4) == 0;
  if (!isElf && !strstr(static_cast<const char *>(image), ".version"))
    return noBinary;
  log("module %s", isElf ? "cubin" : "ptx");
  *module = new Module{kernels ? dlopen(kernels, RTLD_NOW | RTLD_LOCAL) : nullptr, {}};
  if (kernels && !(*module)->kernels)
    misuse("%s", dlerror());
  return success;
}
int cuModuleUnload(Module *module) { return delete module, success; }
int cuModuleGetFunction(Function **function, Module *module, const char *name) {
  if (module->kernels && !dlsym(module->kernels, name))
    return notFound;
  auto &made = module->functions[name];
  if (!made)
    made = std::make_unique<Function>(Function{name});
  *function = made.get();
  return success;
}
int cuFuncSetAttribute(Function *, int, int) { return success; }

int cuLaunchKernel(Function *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,
                   unsigned blockZ, unsigned, Stream *stream, void **parameters, void **extra) {
  if (gridY != 1 || gridZ != 1 || blockY != 1 || blockZ != 1 || !gridX || !blockX || blockX > 1024 || extra)
    misuse("a launch of %u x %u x %u blocks of %u x %u x %u threads", gridX, gridY, gridZ, blockX, blockY, blockZ);
  static void *const kernels = dlopen(getenv("SCRIMP_FAKE_KERNELS"), RTLD_NOW | RTLD_LOCAL);
  auto kernel = reinterpret_cast<scrimp_kernel>(dlsym(kernels, function->name.c_str()));
  // How many parameters a kernel takes is beside it; the runtime's own have two.
  auto *count = static_cast<const int64_t *>(dlsym(kernels, (function->name + "_buffers").c_str()));
  if (!kernel)
    misuse("no kernel '%s'", function->name.c_str());
  // Behind the buffers the two that switch a launch off, and the units.
  size_t size = static_cast<size_t>(count ? *count : 2) + 2;
  std::vector<char *> buffers(size);
  std::vector<uint64_t> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    Address address = *static_cast<Address *>(parameters[i]);
    if (!address && i + 2 >= size)
      continue;
    buffers[i] = toHost(address, 0, "a buffer of a launch");
    auto after = --memory.upper_bound(address);
    bytes[i] = after->first + after->second.first - address;
  }
  int64_t begin = *static_cast<int64_t *>(parameters[size]), end = *static_cast<int64_t *>(parameters[size + 1]);
  if (begin)
    misuse("a launch that begins at unit %lld", static_cast<long long>(begin));
  if (!stream->origin)
    log("launch %s", function->name.c_str());
  return enqueue(stream, [=, name = function->name] {
    if (++launches == number("SCRIMP_FAKE_LAUNCH", -1))
      return sticky = launchFailed;
    std::string problem = scrimp::runtime::runEmulatedBlocks({kernel, buffers, bytes, end, gridX, blockX}, 0, gridX);
    if (!problem.empty())
      misuse("kernel %s: %s", name.c_str(), problem.c_str());
    return static_cast<int>(success);
  });
}

int cuStreamCreate(Stream **stream, unsigned flags) {
  if (flags != 1)
    misuse("a stream that waits for the default stream");
  return *stream = new Stream, success;
}
int cuStreamDestroy_v2(Stream *stream) {
  requireOutside(stream, "a stream is destroyed");
  return delete stream, success;
}
int cuStreamSynchronize(Stream *stream) {
  requireOutside(stream, "the host waits");
  return sticky;
}
int cuStreamQuery(Stream *stream) {
  requireOutside(stream, "the host asks");
  return sticky;
}
int cuStreamWaitEvent(Stream *stream, Event *event, unsigned) {
  if (!event->stream)
    misuse("a stream waits for an event that was not recorded");
  Stream *origin = event->isCaptured ? event->stream->origin : nullptr;
  if (event->isCaptured && !origin)
    misuse("a stream waits for an event of a capture that is over");
  if (origin && !stream->origin) {
    stream->origin = origin;
    origin->others.push_back(stream);
  } else if (origin && stream == origin) {
    event->stream->isAwaited = true;
  } else if (stream->origin && !origin) {
    misuse("a captured stream waits for an event from outside");
  }
  return sticky;
}
int cuStreamBeginCapture_v2(Stream *stream, int) {
  requireOutside(stream, "another capture begins");
  stream->isCapturing = true;
  stream->origin = stream;
  stream->graph = {};
  return sticky;
}
int cuStreamEndCapture(Stream *stream, Graph **graph) {
  if (!stream->isCapturing)
    misuse("a capture ends that has not begun");
  for (Stream *other : stream->others) {
    if (!other->isAwaited)
      misuse("a capture ends that has not waited for another stream");
    other->origin = nullptr;
  }
  stream->others.clear();
  stream->isCapturing = false;
  stream->origin = nullptr;
  *graph = new Graph(std::move(stream->graph));
  return sticky;
}
int cuGraphInstantiateWithFlags(Graph **record, Graph *graph, unsigned long long) {
  return *record = new Graph(*graph), sticky;
}
int cuGraphLaunch(Graph *record, Stream *stream) {
  log("graph of %zu", record->work.size());
  return enqueue(stream, [=] {
    for (const Work &work : record->work)
      if (int code = work())
        return code;
    return static_cast<int>(success);
  });
}
int cuGraphExecDestroy(Graph *record) { return delete record, success; }
int cuGraphDestroy(Graph *graph) { return delete graph, success; }
int cuEventCreate(Event **event, unsigned) { return *event = new Event, success; }
int cuEventDestroy_v2(Event *event) { return delete event, success; }
int cuEventRecord(Event *event, Stream *stream) {
  *event = {stream, stream->origin != nullptr};
  return sticky;
}
int cuEventQuery(Event *) { return sticky; }
int cuEventSynchronize(Event *) { return sticky; }

/// For the stand-in of the library: enqueues what it does, and where bytes of the device are.
int scrimp_fake_enqueue(Stream *stream, Work *work) { return enqueue(stream, *work); }
char *scrimp_fake_host(Address address, size_t bytes) { return toHost(address, bytes, "a matrix"); }

} // extern "C"
