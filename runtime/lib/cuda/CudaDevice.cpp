// A GPU of NVIDIA's behind the interface of devices. All is enqueued on one stream; the host waits in synchronize() and
// where it copies. A record is a CUDA graph, captured from the stream.
#include "../common/GemmArguments.h"
#include "../common/LinearArguments.h"
#include "BlasLt.h"
#include "LocalRank.h"
#include "Nccl.h"
#include "VerifyProducts.h"
#include "scrimp/runtime/Clock.h"
#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/Program.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace scrimp::runtime {

using namespace cuda;

// What the library has here; it runs by the device.
const LibraryFunction gemmFunction = {"gemm", verifyGemm, nullptr};
const LibraryFunction linearFunction = {"linear", verifyLinear, nullptr};

const LibraryFunction *findLibraryFunction(std::string_view name) {
  for (const LibraryFunction *function : {&gemmFunction, &linearFunction})
    if (function->name == name)
      return function;
  return nullptr;
}

std::string libraryFunctionNames() { return "gemm, linear"; }

namespace {
/// A GPU that can be used, and what is known of it.
struct Gpu {
  Ordinal ordinal = 0;
  int major = 0, minor = 0;
  std::string name;
};

class CudaDevice final : public Device {
public:
  explicit CudaDevice(const DeviceOptions &options) : options(options) {}
  ~CudaDevice() override;

  /// Finds the GPU, and makes what a program needs on it but for its arena.
  Status open(const program::Program *program);

  const char *name() const override { return "cuda"; }

  Result<char *> allocate(uint64_t bytes, uint64_t alignment) override;
  Result<char *> allocateHost(uint64_t bytes) override;
  char *checkResultAddress() override { return checkResult; }
  Status upload(char *target, const void *source, int64_t bytes) override {
    return enqueued(driver.cuMemcpyHtoDAsync_v2(addressOf(target), source, static_cast<size_t>(bytes), stream),
                    "copying to the device");
  }
  Status download(void *target, const char *source, int64_t bytes) override;
  Status downloadLater(char *target, const char *source, int64_t bytes) override {
    return enqueued(driver.cuMemcpyDtoHAsync_v2(target, addressOf(source), static_cast<size_t>(bytes), stream),
                    "copying to the host");
  }

  Result<std::unique_ptr<Communicator>> connect(Communicator &host) override;
  Status checkMemory(const program::Program *program, uint64_t communicationBytes) override;
  std::string describeMemory(const program::Program *program) const override;
  Status checkLibrary(const program::Program *) override { return Status::ok(); }
  Status verifyLibrary(const program::Program *program, std::string &summary) override {
    Result<char *> arena = allocate(program->arena_bytes(), program->alignment());
    return arena.failed() ? arena.status() : verifyProducts(program, *this, *arena, blas.describe(), summary);
  }

  Status launch(const LaunchCall &call) override;
  Status call(const LibraryFunction &function, const LibraryArguments &arguments) override;
  Status copy(char *target, const char *source, int64_t bytes) override {
    return enqueued(
        driver.cuMemcpyDtoDAsync_v2(addressOf(target), addressOf(source), static_cast<size_t>(bytes), stream),
        "copying on the device");
  }
  Status synchronize() override {
    return communicator ? poll([this] { return driver.cuStreamQuery(stream); })
                        : finished(driver.cuStreamSynchronize(stream), "the step");
  }
  Status mark(int number) override {
    return enqueued(driver.cuEventRecord(events[static_cast<size_t>(number)], stream), "marking the end of a step");
  }
  Status wait(int number) override {
    Event event = events[static_cast<size_t>(number)];
    return communicator ? poll([=, this] { return driver.cuEventQuery(event); })
                        : finished(driver.cuEventSynchronize(event), "the step");
  }

  bool canRecord() const override { return !options.checkLaunches; }
  Status startRecording() override {
    return driver.check(driver.cuStreamBeginCapture_v2(stream, captureThreadLocal), "recording a step");
  }
  Result<int> stopRecording() override;
  Status replay(int record) override {
    return driver.check(driver.cuGraphLaunch(records[static_cast<size_t>(record)], stream), "starting a step");
  }

private:
  static Address addressOf(const char *pointer) { return reinterpret_cast<Address>(pointer); }

  template <typename Query> Status poll(Query query);
  Status runOwn(const std::string &kernel, const char *source, char *target, int64_t units, Stream on);
  Status findGpu();
  Status loadModule(const program::Program *program);
  Status findFunctions(const program::Program *program);
  Status readMemory(size_t &freeBytes, size_t &allBytes) const {
    return driver.check(driver.cuMemGetInfo_v2(&freeBytes, &allBytes), "asking for the device's memory");
  }
  /// What became of something that is to be done later; with --check-launches it is waited for.
  Status enqueued(Code code, const std::string &what);
  /// A failure of a kernel is told by whatever comes after it, and by all that follows.
  Status finished(Code code, const std::string &what);

  DeviceOptions options;
  Driver driver;
  Gpu gpu;
  Context context = nullptr;
  Module module = nullptr;
  std::vector<Function> functions;              // in the order of Program.kernels
  std::map<std::string, Function> ownFunctions; // kernels of the runtime's own
  Communicator *communicator = nullptr;
  Stream stream = nullptr;
  BlasLt blas;
  std::array<Event, Device::marks> events{};
  char *checkResult = nullptr;
  std::vector<Address> memory;
  std::vector<void *> hostMemory;
  std::vector<GraphExec> records;
  std::vector<uint64_t> values; // parameters of the launch under way
  std::vector<void *> parameters;
  size_t freeAtStart = 0, allBytes = 0; // bytes of the device
};
} // namespace

CudaDevice::~CudaDevice() {
  if (!context)
    return;
  // Each fails where the device is lost, and there is nothing to be done about it.
  (void)driver.cuStreamSynchronize(stream);
  for (GraphExec record : records)
    (void)driver.cuGraphExecDestroy(record);
  for (Address address : memory)
    (void)driver.cuMemFree_v2(address);
  for (void *address : hostMemory)
    (void)driver.cuMemFreeHost(address);
  if (module)
    (void)driver.cuModuleUnload(module);
  for (Event event : events)
    if (event)
      (void)driver.cuEventDestroy_v2(event);
  if (stream)
    (void)driver.cuStreamDestroy_v2(stream);
  // The context goes with the process: the library's handle, which goes after this, still needs it.
}

Status CudaDevice::findGpu() {
  int count = 0;
  if (Status status = driver.check(driver.cuDeviceGetCount(&count), "counting GPUs"); status.failed())
    return status;
  int number = localRank();
  if (count == 0)
    return Status::error("no CUDA device: the driver finds none that this process may use (CUDA_VISIBLE_DEVICES, "
                         "nvidia-smi)");
  if (number < 0 || number >= count)
    return Status::error(
        "this is rank %d of this machine, but it may use %d GPU%s; two ranks cannot share one: start no "
        "more ranks than GPUs",
        number, count, count == 1 ? "" : "s");
  char text[256] = {};
  Status status = driver.check(driver.cuDeviceGet(&gpu.ordinal, number), "finding a GPU");
  auto read = [&](Code code) {
    if (!status.failed())
      status = driver.check(code, "asking a GPU what it is");
  };
  read(driver.cuDeviceGetName(text, sizeof(text) - 1, gpu.ordinal));
  read(driver.cuDeviceGetAttribute(&gpu.major, attributeMajor, gpu.ordinal));
  read(driver.cuDeviceGetAttribute(&gpu.minor, attributeMinor, gpu.ordinal));
  gpu.name = text;
  constexpr int least = 8;
  if (!status.failed() && gpu.major < least)
    return Status::error(
        "GPU %d is a %s of compute capability %d.%d; programs need 8.0 at least (A100, RTX 30 and later)", number, text,
        gpu.major, gpu.minor);
  return status;
}

/// The image for the very card, or for an older one of its generation; else PTX, which the driver compiles.
Status CudaDevice::loadModule(const program::Program *program) {
  const program::DeviceImage *best = nullptr;
  int bestMinor = -1;
  std::string known;
  for (const program::DeviceImage *image : items(program->images())) {
    int major = image->capability() / 10, minor = image->capability() % 10;
    known += format("%ssm_%d%s", known.empty() ? "" : ", ", image->capability(), image->is_ptx() ? " as PTX" : "");
    bool runs =
        image->is_ptx() ? image->capability() <= 10 * gpu.major + gpu.minor : major == gpu.major && minor <= gpu.minor;
    int rank = image->is_ptx() ? -1 : minor; // compiled ones first
    if (runs && (!best || rank > bestMinor)) {
      best = image;
      bestMinor = rank;
    }
  }
  std::string card = format("a %s (sm_%d%d)", gpu.name.c_str(), gpu.major, gpu.minor);
  if (!best)
    return Status::error("this program holds code for %s, which %s does not run; compile it again", known.c_str(),
                         card.c_str());
  Code code = driver.cuModuleLoadData(&module, best->data()->data());
  if (code == noBinary || code == unsupportedPtx)
    return Status::error("the driver cannot load the code for sm_%d on %s; install a newer driver", best->capability(),
                         card.c_str());
  return driver.check(code, "loading kernels for " + card);
}

Status CudaDevice::findFunctions(const program::Program *program) {
  for (const program::Kernel *kernel : items(program->kernels())) {
    std::string symbol(textOf(kernel->symbol()));
    Status status = driver.check(driver.cuModuleGetFunction(&functions.emplace_back(), module, symbol.c_str()),
                                 "finding kernel '" + symbol + "'");
    if (status.failed())
      return status;
  }
  return Status::ok();
}

Status CudaDevice::open(const program::Program *program) {
  Result<Driver> opened = Driver::open();
  if (opened.failed())
    return opened.status();
  driver = std::move(*opened);
  Status status = findGpu();
  auto then = [&](auto step) {
    if (!status.failed())
      status = step();
  };
  then([&] { return driver.check(driver.cuDevicePrimaryCtxRetain(&context, gpu.ordinal), "using " + gpu.name); });
  then([&] { return driver.check(driver.cuCtxSetCurrent(context), "using " + gpu.name); });
  then([&] { return readMemory(freeAtStart, allBytes); });
  then([&] { return driver.check(driver.cuStreamCreate(&stream, streamNonBlocking), "making a stream"); });
  for (Event &event : events)
    then([&] { return driver.check(driver.cuEventCreate(&event, eventDisableTiming), "making an event"); });
  then([&] { return loadModule(program); });
  then([&] { return findFunctions(program); });
  bool callsLibrary = false;
  for (const program::Graph *graph : items(program->graphs()))
    forEachCommand(graph->commands(), [&](const program::Command *command) {
      callsLibrary |= command->body_type() == program::CommandBody::Call;
    });
  if (callsLibrary)
    then([&] { return blas.open(options.libraries); });
  then([&] {
    Result<char *> made = allocate(sizeof(CheckResult), 256);
    if (!made.failed())
      checkResult = *made;
    return made.failed() ? made.status() : Status::ok();
  });
  return status;
}

Status CudaDevice::checkMemory(const program::Program *program, uint64_t communicationBytes) {
  size_t freeBytes = 0;
  if (Status status = readMemory(freeBytes, allBytes); status.failed())
    return status;
  uint64_t needed = program->arena_bytes() + communicationBytes;
  if (needed <= freeBytes)
    return Status::ok();
  constexpr double mib = 1 << 20;
  return Status::error(
      "this program plans %.1f MiB on the device, but of the %.1f MiB of the %s %.1f are free (%.1f "
      "before this process, whose context, kernels and libraries took the rest); end what else uses it, "
      "or recompile with --memory-budget %lldMiB",
      static_cast<double>(needed) / mib, static_cast<double>(allBytes) / mib, gpu.name.c_str(),
      static_cast<double>(freeBytes) / mib, static_cast<double>(freeAtStart) / mib,
      static_cast<long long>(freeBytes >> 20));
}

Result<std::unique_ptr<Communicator>> CudaDevice::connect(Communicator &host) {
  using Uuid = std::array<char, 16>;
  Uuid mine{};
  std::vector<Uuid> all(static_cast<size_t>(host.size()));
  Status status = driver.check(driver.cuDeviceGetUuid_v2(mine.data(), gpu.ordinal), "asking a GPU what it is");
  if (Status gathered = host.gather(&mine, all.data(), sizeof(mine)); gathered.failed())
    return gathered;
  for (int rank = 0; rank < host.size(); ++rank)
    for (int other = 0; other < rank && !status.failed(); ++other)
      if (all[static_cast<size_t>(rank)] == all[static_cast<size_t>(other)])
        status =
            Status::error("ranks %d and %d are on one GPU, a %s; start no more ranks than GPUs, and let LOCAL_RANK "
                          "tell them apart",
                          other, rank, gpu.name.c_str());
  if (status.failed())
    return status; // alike on all ranks, unless a GPU is lost
  NcclDevice forNccl{&driver, stream,
                     [this](const std::string &kernel, const char *source, char *target, int64_t units, Stream on) {
                       return runOwn(kernel, source, target, units, on);
                     },
                     [this](uint64_t bytes) { return allocate(bytes, 256); }};
  Result<std::unique_ptr<Communicator>> connected = connectNccl(forNccl, host, options.libraries);
  if (!connected.failed())
    communicator = connected->get();
  return connected;
}

/// A kernel of one buffer to another (lib/Codegen/RuntimeKernels.h).
Status CudaDevice::runOwn(const std::string &kernel, const char *source, char *target, int64_t units, Stream on) {
  Function &function = ownFunctions[kernel];
  if (!function)
    if (Status status = driver.check(driver.cuModuleGetFunction(&function, module, kernel.c_str()),
                                     "finding kernel '" + kernel + "'");
        status.failed())
      return status;
  constexpr int64_t threads = 128, mostBlocks = 65535;
  auto blocks = static_cast<unsigned>(std::min((units + threads - 1) / threads, mostBlocks));
  uint64_t arguments[] = {addressOf(source), addressOf(target), 0, 0, 0, static_cast<uint64_t>(units)};
  void *pointers[std::size(arguments)];
  for (size_t i = 0; i < std::size(arguments); ++i)
    pointers[i] = arguments + i;
  return driver.check(driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, on, pointers, nullptr),
                      "the kernel " + kernel);
}

/// Other ranks may be dead or late; whether they are, only their communicator can tell.
template <typename Query> Status CudaDevice::poll(Query query) {
  double begin = now();
  for (;;) {
    if (Code code = query(); code != notReady)
      return finished(code, "the step");
    if (Status status = communicator->progress(); status.failed())
      return status;
    if (Status status = communicator->checkTimeout(now() - begin); status.failed())
      return status;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::string CudaDevice::describeMemory(const program::Program *program) const {
  size_t freeBytes = 0, all = 0;
  if (readMemory(freeBytes, all).failed())
    return "";
  constexpr double mib = 1 << 20;
  double used = static_cast<double>(freeAtStart - std::min(freeBytes, freeAtStart)) / mib,
         arena = static_cast<double>(program->arena_bytes()) / mib;
  return format("%s: %.1f MiB, of which %.1f for context, kernels and libraries", gpu.name.c_str(), used, used - arena);
}

Result<char *> CudaDevice::allocate(uint64_t bytes, uint64_t) {
  Address address = 0;
  Code code = driver.cuMemAlloc_v2(&address, std::max<size_t>(bytes, 1));
  if (code == outOfMemory) {
    size_t freeBytes = 0, all = 0;
    (void)readMemory(freeBytes, all);
    return Status::error("the device has no %llu bytes in one piece (%zu of %zu are free); end what else uses it, or "
                         "recompile with a smaller --memory-budget",
                         (unsigned long long)bytes, freeBytes, all);
  }
  if (Status status = driver.check(code, "allocating on the device"); status.failed())
    return status;
  memory.push_back(address);
  if (Status status = enqueued(driver.cuMemsetD8Async(address, 0, bytes, stream), "clearing the device's memory");
      status.failed())
    return status;
  return reinterpret_cast<char *>(address);
}

Result<char *> CudaDevice::allocateHost(uint64_t bytes) {
  void *address = nullptr;
  if (Status status = driver.check(driver.cuMemAllocHost_v2(&address, std::max<size_t>(bytes, 1)),
                                   format("pinning %llu bytes of the host", (unsigned long long)bytes));
      status.failed())
    return status;
  hostMemory.push_back(address);
  return static_cast<char *>(address);
}

Status CudaDevice::download(void *target, const char *source, int64_t bytes) {
  Status status =
      driver.check(driver.cuMemcpyDtoHAsync_v2(target, addressOf(source), static_cast<size_t>(bytes), stream),
                   "copying to the host");
  return status.failed() ? status : synchronize();
}

Status CudaDevice::enqueued(Code code, const std::string &what) {
  return finished(!code && options.checkLaunches ? driver.cuStreamSynchronize(stream) : code, what);
}

Status CudaDevice::finished(Code code, const std::string &what) {
  Status status = driver.check(code, what);
  if (!status.failed() || options.checkLaunches)
    return status;
  return Status::error("%s; the device is lost for this process: run again with --check-launches, which names the op",
                       status.message().c_str());
}

Status CudaDevice::launch(const LaunchCall &call) {
  values.clear();
  for (char *buffer : call.buffers)
    values.push_back(addressOf(buffer));
  values.push_back(0); // units [begin, end)
  values.push_back(static_cast<uint64_t>(call.units));
  parameters.clear();
  for (uint64_t &value : values)
    parameters.push_back(&value);
  constexpr uint32_t sharedWithoutAsking = 48 << 10;
  Function function = functions[call.index];
  std::string what = options.checkLaunches ? format("the kernel of '%s'", std::string(call.where).c_str()) : "a kernel";
  if (call.shared > sharedWithoutAsking)
    if (Status status = driver.check(
            driver.cuFuncSetAttribute(function, functionMaxDynamicShared, static_cast<int>(call.shared)), what);
        status.failed())
      return status;
  return enqueued(driver.cuLaunchKernel(function, call.grid, 1, 1, call.block, 1, 1, call.shared, stream,
                                        parameters.data(), nullptr),
                  what);
}

Status CudaDevice::call(const LibraryFunction &function, const LibraryArguments &arguments) {
  Status status = function.name == "gemm" ? blas.gemm(arguments, stream) : blas.linear(arguments, stream);
  if (status.failed())
    return Status::error("%s (in '%s')", status.message().c_str(), std::string(arguments.where).c_str());
  return enqueued(success, options.checkLaunches ? format("the product of '%s'", std::string(arguments.where).c_str())
                                                 : "a product");
}

Result<int> CudaDevice::stopRecording() {
  Graph graph = nullptr;
  if (Status status = driver.check(driver.cuStreamEndCapture(stream, &graph), "recording a step"); status.failed())
    return status;
  GraphExec record = nullptr;
  Status status = driver.check(driver.cuGraphInstantiateWithFlags(&record, graph, 0), "recording a step");
  (void)driver.cuGraphDestroy(graph);
  if (status.failed())
    return status;
  records.push_back(record);
  return static_cast<int>(records.size()) - 1;
}

Result<std::unique_ptr<Device>> openDevice(const program::Program *program, ThreadPool &,
                                           const DeviceOptions &options) {
  auto device = std::make_unique<CudaDevice>(options);
  if (Status status = device->open(program); status.failed())
    return status;
  return std::unique_ptr<Device>(std::move(device));
}

} // namespace scrimp::runtime
