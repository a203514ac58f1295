// Launches on an emulated device; the library's calls are those of a processor.
#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/Emulated.h"
#include <mutex>

namespace scrimp::runtime {

namespace {
class EmulatedDevice final : public Device {
public:
  explicit EmulatedDevice(ThreadPool &pool) : pool(pool), host(makeCpuDevice(pool)) {}

  const char *name() const override { return "emulated"; }

  Status launch(const LaunchCall &call) override {
    EmulatedLaunch launch{call.kernel, call.buffers, call.bytes, call.units, call.grid, call.block};
    std::mutex mutex; // of the problem
    std::string problem;
    auto body = [&](int64_t begin, int64_t end, int) {
      std::string found = runEmulatedBlocks(launch, static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
      if (found.empty())
        return;
      std::lock_guard lock(mutex);
      if (problem.empty())
        problem = found;
    };
    pool.parallelFor(call.grid, 1, body);
    if (problem.empty())
      return Status::ok();
    return Status::error("the kernel of '%s': %s", std::string(call.where).c_str(), problem.c_str());
  }

  void call(const LibraryFunction &function, const LibraryArguments &arguments) override {
    host->call(function, arguments);
  }
  void copy(char *target, const char *source, int64_t bytes) override { host->copy(target, source, bytes); }

private:
  ThreadPool &pool;
  std::unique_ptr<Device> host;
};
} // namespace

std::unique_ptr<Device> makeEmulatedDevice(ThreadPool &pool) { return std::make_unique<EmulatedDevice>(pool); }

} // namespace scrimp::runtime
