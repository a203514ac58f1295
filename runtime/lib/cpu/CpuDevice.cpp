// Kernels and calls on the threads of the pool.
#include "scrimp/runtime/Arena.h"
#include "scrimp/runtime/BlasCheck.h"
#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/MemoryLimit.h"
#include <cstring>

namespace scrimp::runtime {

namespace {
class CpuDevice final : public Device {
public:
  explicit CpuDevice(ThreadPool &pool) : pool(pool) {}

  const char *name() const override { return "cpu"; }

  bool sharesMemory() const override { return true; }
  Result<char *> allocate(uint64_t bytes, uint64_t alignment) override {
    if (Status status = arenas.emplace_back(std::make_unique<Arena>())->allocate(bytes, alignment); status.failed())
      return status;
    return arenas.back()->base();
  }
  Result<char *> allocateHost(uint64_t bytes) override {
    constexpr uint64_t line = 64;
    return allocate((bytes + line - 1) / line * line, line);
  }
  Status upload(char *target, const void *source, int64_t bytes) override {
    memcpy(target, source, static_cast<size_t>(bytes));
    return Status::ok();
  }
  Status download(void *target, const char *source, int64_t bytes) override {
    memcpy(target, source, static_cast<size_t>(bytes));
    return Status::ok();
  }

  /// The bytes of the plan are all touched. A bare process takes 6 MiB at least.
  Status checkMemory(const program::Program *program, uint64_t communicationBytes) override {
    constexpr int64_t bare = 6 << 20;
    int64_t needed = static_cast<int64_t>(program->arena_bytes() + communicationBytes) + bare;
    for (const MemoryLimit &limit : findMemoryLimits())
      if (needed > limit.bytes)
        return Status::error("this program needs %.1f MiB at least, of which %.1f are planned, but %s allows %.1f MiB; "
                             "recompile with --memory-budget %lldMiB",
                             static_cast<double>(needed) / (1 << 20),
                             static_cast<double>(program->arena_bytes()) / (1 << 20), limit.source.c_str(),
                             static_cast<double>(limit.bytes) / (1 << 20), static_cast<long long>(limit.bytes >> 20));
    return Status::ok();
  }
  Status checkLibrary(const program::Program *program) override {
    initializeLibrary();
    return checkBlas(program);
  }
  Status verifyLibrary(const program::Program *program, std::string &summary) override {
    Arena arena;
    if (Status status = arena.allocate(program->arena_bytes(), program->alignment()); status.failed())
      return status;
    return verifyLibraryCalls(program, arena.base(), pool, summary);
  }

  Status launch(const LaunchCall &call) override {
    auto body = [&](int64_t begin, int64_t end, int) { call.kernel(call.buffers.data(), begin, end); };
    pool.parallelFor(call.units, call.grain, body);
    return Status::ok();
  }
  Status call(const LibraryFunction &function, const LibraryArguments &arguments) override {
    function.run(arguments, pool);
    return Status::ok();
  }
  Status copy(char *target, const char *source, int64_t bytes) override {
    auto body = [&](int64_t begin, int64_t end, int) {
      memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
    };
    pool.parallelFor(bytes, 1 << 18, body);
    return Status::ok();
  }

private:
  ThreadPool &pool;
  std::vector<std::unique_ptr<Arena>> arenas;
};
} // namespace

std::unique_ptr<Device> makeCpuDevice(ThreadPool &pool) { return std::make_unique<CpuDevice>(pool); }

} // namespace scrimp::runtime
