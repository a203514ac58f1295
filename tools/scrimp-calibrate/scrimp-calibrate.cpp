// scrimp-calibrate: what this machine does in a second, as JSON, for the estimates of scrimp-compile and scrimp-plan
// (--device). It runs the library functions and the thread pool of compiled programs; about a second in all.
#include "scrimp/runtime/Library.h"
#include "scrimp/runtime/workspace.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace scrimp::runtime;

/// Seconds of the fastest of several runs: other processes only ever make one slower.
static double fastest(const std::function<void()> &body) {
  using Clock = std::chrono::steady_clock;
  body();
  double best = HUGE_VAL;
  Clock::time_point begin = Clock::now();
  for (int i = 0; i < 100 && (i < 3 || Clock::now() - begin < std::chrono::milliseconds(150)); ++i) {
    Clock::time_point start = Clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

/// Operations a second of a matrix product of that type, large enough for every thread.
template <typename T> static double measureProducts(DType type, ThreadPool &pool) {
  constexpr int64_t n = 768;
  std::vector<T> a(n * n, T(.5)), b(n * n, T(.25)), c(n * n);
  char *buffers[] = {reinterpret_cast<char *>(a.data()), reinterpret_cast<char *>(b.data()),
                     reinterpret_cast<char *>(c.data())};
  const uint64_t bytes[] = {n * n * sizeof(T), n * n * sizeof(T), n * n * sizeof(T)};
  const int64_t ints[] = {1, n, n, n, 0, 0, n * n, n * n, n * n, 0};
  LibraryArguments arguments;
  arguments.buffers = buffers;
  arguments.bytes = bytes;
  arguments.ints = ints;
  arguments.dtype = type;
  const LibraryFunction *gemm = findLibraryFunction("gemm");
  return 2.0 * n * n * n / fastest([&] { gemm->run(arguments, pool); });
}

/// The same of bf16 operands with an f32 result, as a program for this processor computes it.
static double measureNarrowProducts(ThreadPool &pool) {
  constexpr int64_t n = 768;
  constexpr GemmCall call{1, n, n, n, 0, 0, n * n, n * n, n * n, 0};
  const std::vector<int64_t> ints{call.batch,   call.m,       call.n,       call.k,       call.transA,
                                  call.transB,  call.strideA, call.strideB, call.strideC, call.accumulate};
  std::vector<uint16_t> a(n * n, 0x3f00), b(n * n, 0x3e80); // .5 and .25
  std::vector<float> c(n * n);
  std::vector<char> workspace(gemmWorkspaceBytes(call, pool.threads()) + 64);
  char *aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64);
  char *buffers[] = {reinterpret_cast<char *>(a.data()), reinterpret_cast<char *>(b.data()),
                     reinterpret_cast<char *>(c.data()), aligned};
  const uint64_t bytes[] = {n * n * 2, n * n * 2, n * n * 4, static_cast<uint64_t>(workspace.size() - 64)};
  const DType types[] = {DType::bf16, DType::bf16, DType::f32};
  LibraryArguments arguments;
  arguments.buffers = buffers;
  arguments.bytes = bytes;
  arguments.ints = ints;
  arguments.dtype = DType::f32;
  arguments.types = types;
#ifdef __x86_64__
  arguments.bf16Dot = __builtin_cpu_supports("avx512bf16");
#endif
  const LibraryFunction *gemm = findLibraryFunction("gemm");
  return 2.0 * n * n * n / fastest([&] { gemm->run(arguments, pool); });
}

/// Bytes a second that elementwise work reads and writes where no cache helps.
static double measureMemory(ThreadPool &pool) {
  constexpr int64_t count = 8 << 20;
  std::vector<float> x(count, 1.0f), y(count);
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      y[i] = x[i] * 1.5f + 1.0f;
  };
  return 2.0 * count * sizeof(float) / fastest([&] { pool.parallelFor(count, 1 << 14, body); });
}

/// Operations a second of arithmetic on elements in the cache.
static double measureArithmetic(ThreadPool &pool) {
  constexpr int64_t block = 2048, blocks = 256;
  std::vector<float> x(block * blocks, 1.0f);
  auto body = [&](int64_t begin, int64_t end, int) {
    for (int64_t unit = begin; unit < end; ++unit) {
      float *data = x.data() + unit * block;
      for (int round = 0; round < 64; ++round)
        for (int64_t i = 0; i < block; ++i)
          data[i] = data[i] * 0.999f + 0.001f;
    }
  };
  return 2.0 * 64 * block * blocks / fastest([&] { pool.parallelFor(blocks, 1, body); });
}

/// Seconds of a command that has next to nothing to do.
static double measureLaunch(ThreadPool &pool) {
  auto body = [](int64_t, int64_t, int) {};
  constexpr int rounds = 1000;
  return fastest([&] {
           for (int i = 0; i < rounds; ++i)
             pool.parallelFor(64, 1, body);
         }) /
         rounds;
}

int main(int argc, char **argv) {
  int threads = std::max(1u, std::thread::hardware_concurrency());
  if (argc == 3 && !strcmp(argv[1], "--threads")) {
    const char *end = argv[2] + strlen(argv[2]);
    auto [rest, error] = std::from_chars(argv[2], end, threads);
    if (error != std::errc() || rest != end || threads < 1 || threads > 4096) {
      fprintf(stderr, "scrimp-calibrate: error: --threads must be 1 to 4096, found '%s'\n", argv[2]);
      return 2;
    }
  } else if (argc > 1) {
    bool help = argc == 2 && !strcmp(argv[1], "--help");
    fprintf(help ? stdout : stderr, "Measures this machine for --device. Usage: scrimp-calibrate [--threads N] > cpu.json\n");
    return help ? 0 : 2;
  }
  initializeLibrary();
  ThreadPool pool(threads);
  double products = measureProducts<float>(DType::f32, pool), twice = measureProducts<double>(DType::f64, pool);
  printf("{\"name\": \"cpu\", \"threads\": %d, \"library_flops_16\": %.3g, \"library_flops_32\": %.3g, "
         "\"library_flops_64\": %.3g,\n \"kernel_flops\": %.3g, \"bytes\": %.3g, \"launch_seconds\": %.3g, "
         "\"capacity_bytes\": %lld}\n",
         threads, measureNarrowProducts(pool), products, twice, measureArithmetic(pool), measureMemory(pool), measureLaunch(pool),
         static_cast<long long>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
  return 0;
}
