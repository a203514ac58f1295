// Launches on an emulated device; the library's calls are those of a processor. Its memory is the host's, but its
// addresses are not: where host code uses one, the process faults, as it would with a device's.
#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/Emulated.h"
#include <functional>
#include <mutex>

namespace scrimp::runtime {

namespace {
/// No address of a process has this bit alone of the high ones.
constexpr uintptr_t bias = uintptr_t(1) << 60;

char *toDevice(char *host) { return reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(host) + bias); }
char *toHost(const char *device) {
  return device ? reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(device) - bias) : nullptr;
}

class EmulatedDevice final : public Device {
public:
  explicit EmulatedDevice(ThreadPool &pool) : pool(pool), host(makeCpuDevice(pool)) {}

  const char *name() const override { return "emulated"; }

  Result<char *> allocate(uint64_t bytes, uint64_t alignment) override {
    Result<char *> memory = host->allocate(bytes, alignment);
    return memory.failed() ? memory : toDevice(*memory);
  }
  Result<char *> allocateHost(uint64_t bytes) override { return host->allocateHost(bytes); }
  char *checkResultAddress() override { return toDevice(reinterpret_cast<char *>(&found)); }
  Status upload(char *target, const void *source, int64_t bytes) override {
    return perform([=, this] { return host->upload(toHost(target), source, bytes); });
  }
  Status download(void *target, const char *source, int64_t bytes) override {
    return host->download(target, toHost(source), bytes);
  }
  Status downloadLater(char *target, const char *source, int64_t bytes) override {
    return perform([=, this] { return download(target, source, bytes); });
  }
  char *forCommunicator(char *address) override { return toHost(address); }

  Status checkMemory(const program::Program *program, uint64_t communicationBytes) override {
    return host->checkMemory(program, communicationBytes);
  }
  Status checkLibrary(const program::Program *program) override { return host->checkLibrary(program); }
  Status verifyLibrary(const program::Program *program, std::string &summary) override {
    return host->verifyLibrary(program, summary);
  }

  Status launch(const LaunchCall &call) override {
    if (!isRecording)
      return run(call, call.buffers);
    // The pointers of a repeat move on.
    std::vector<char *> buffers(call.buffers.begin(), call.buffers.end());
    return perform([=, this] { return run(call, buffers); });
  }
  Status call(const LibraryFunction &function, const LibraryArguments &arguments) override {
    if (!isRecording)
      return run(function, arguments, arguments.buffers);
    std::vector<char *> buffers(arguments.buffers.begin(), arguments.buffers.end());
    return perform([=, this, &function] { return run(function, arguments, buffers); });
  }
  Status copy(char *target, const char *source, int64_t bytes) override {
    return perform([=, this] { return host->copy(toHost(target), toHost(source), bytes); });
  }

  bool canRecord() const override { return true; }
  Status startRecording() override {
    isRecording = true;
    records.emplace_back();
    return Status::ok();
  }
  Result<int> stopRecording() override {
    isRecording = false;
    return static_cast<int>(records.size()) - 1;
  }
  Status replay(int record) override {
    for (const auto &action : records[static_cast<size_t>(record)])
      if (Status status = action(); status.failed())
        return status;
    return Status::ok();
  }

private:
  template <typename Action> Status perform(Action action) {
    if (!isRecording)
      return action();
    records.back().push_back(action);
    return Status::ok();
  }

  std::span<char *const> translate(std::span<char *const> buffers) {
    translated.clear();
    for (char *buffer : buffers)
      translated.push_back(toHost(buffer));
    return translated;
  }

  Status run(const LaunchCall &call, std::span<char *const> buffers) {
    EmulatedLaunch launch{call.kernel, translate(buffers), call.bytes, call.units, call.grid, call.block};
    std::mutex mutex; // of the problem
    std::string problem;
    auto body = [&](int64_t begin, int64_t end, int) {
      std::string blocks = runEmulatedBlocks(launch, static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
      if (blocks.empty())
        return;
      std::lock_guard lock(mutex);
      if (problem.empty())
        problem = blocks;
    };
    pool.parallelFor(call.grid, 1, body);
    if (problem.empty())
      return Status::ok();
    return Status::error("the kernel of '%s': %s", std::string(call.where).c_str(), problem.c_str());
  }
  Status run(const LibraryFunction &function, LibraryArguments arguments, std::span<char *const> buffers) {
    arguments.buffers = translate(buffers);
    return host->call(function, arguments);
  }

  ThreadPool &pool;
  std::unique_ptr<Device> host;
  CheckResult found;
  std::vector<char *> translated; // of the call under way
  bool isRecording = false;
  std::vector<std::vector<std::function<Status()>>> records;
};
} // namespace

std::unique_ptr<Device> makeEmulatedDevice(ThreadPool &pool) { return std::make_unique<EmulatedDevice>(pool); }

} // namespace scrimp::runtime
