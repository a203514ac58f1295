// Kernels and calls on the threads of the pool, and the choice of a device.
#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/Program.h"
#include <cstring>

namespace scrimp::runtime {

namespace {
class CpuDevice final : public Device {
public:
  explicit CpuDevice(ThreadPool &pool) : pool(pool) {}

  const char *name() const override { return "cpu"; }

  Status launch(const LaunchCall &call) override {
    auto body = [&](int64_t begin, int64_t end, int) { call.kernel(call.buffers.data(), begin, end); };
    pool.parallelFor(call.units, call.grain, body);
    return Status::ok();
  }
  void call(const LibraryFunction &function, const LibraryArguments &arguments) override {
    function.run(arguments, pool);
  }
  void copy(char *target, const char *source, int64_t bytes) override {
    auto body = [&](int64_t begin, int64_t end, int) {
      memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
    };
    pool.parallelFor(bytes, 1 << 18, body);
  }

private:
  ThreadPool &pool;
};
} // namespace

std::unique_ptr<Device> makeCpuDevice(ThreadPool &pool) { return std::make_unique<CpuDevice>(pool); }

Result<std::unique_ptr<Device>> openDevice(const program::Program *program, ThreadPool &pool) {
  switch (program->target()) {
  case program::Target::cpu:
    return makeCpuDevice(pool);
  case program::Target::emulated:
    return makeEmulatedDevice(pool);
  case program::Target::cuda:
    break;
  }
  return Status::error("this program is for %s, which this runtime cannot run",
                       program::EnumNameTarget(program->target()));
}

} // namespace scrimp::runtime
