// The pool: chunks are claimed by compare-and-swap; idle threads spin briefly, then sleep on a futex
// (std::atomic::wait).
#include "scrimp/runtime/ThreadPool.h"
#include "scrimp/runtime/Clock.h"
#include <algorithm>

namespace scrimp::runtime {

static void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// About 20 us: longer than the gap between two commands, shorter than a time slice.
static constexpr int spins = 400;

ThreadPool::ThreadPool(int threads) {
  workers.reserve(std::max(threads - 1, 0));
  for (int worker = 1; worker < threads; ++worker)
    workers.emplace_back([this, worker] { work(worker); });
}

ThreadPool::~ThreadPool() {
  stopping.store(true);
  epoch.fetch_add(1);
  epoch.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::work(int worker) {
  for (;;) {
    uint32_t seen = epoch.load(std::memory_order_acquire);
    if (stopping.load(std::memory_order_relaxed))
      return;
    runChunks(worker);
    for (int i = 0; i < spins && epoch.load(std::memory_order_relaxed) == seen; ++i)
      relax();
    epoch.wait(seen, std::memory_order_acquire);
  }
}

bool ThreadPool::runChunks(int worker) {
  bool any = false;
  for (;;) {
    uint64_t current = ticket.load(std::memory_order_acquire);
    uint32_t left = static_cast<uint32_t>(current);
    if (left == 0)
      return any;
    void *context = jobContext.load(std::memory_order_relaxed);
    auto *call = jobCall.load(std::memory_order_relaxed);
    int64_t units = jobUnits.load(std::memory_order_relaxed), chunk = jobChunk.load(std::memory_order_relaxed);
    if (!ticket.compare_exchange_weak(current, current - 1, std::memory_order_acq_rel))
      continue;
    // Chunks are claimed from the front: the first claim sees all of them left.
    int64_t chunks = (units + chunk - 1) / chunk;
    int64_t begin = (chunks - left) * chunk;
    double start = observer ? now() : 0;
    call(context, begin, std::min(begin + chunk, units), worker);
    if (observer)
      observer->ran(worker, current >> 32, start, now());
    any = true;
    if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1)
      pending.notify_one();
  }
}

void ThreadPool::parallelFor(int64_t units, int64_t grain, RangeFunction fn) {
  if (units <= 0)
    return;
  grain = std::max<int64_t>(grain, 1);
  int64_t grains = (units - 1) / grain + 1;
  if (workers.empty() || grains == 1) {
    fn(0, units, 0);
    return;
  }
  // Four chunks a thread even out unequal threads and still amortise a claim.
  int64_t chunk = std::max<int64_t>(grains / (4 * threads()), 1) * grain;
  int64_t chunks = (units - 1) / chunk + 1;
  while (chunks > UINT32_MAX / 2) {
    chunk *= 2;
    chunks = (units - 1) / chunk + 1;
  }
  jobContext.store(fn.context, std::memory_order_relaxed);
  jobCall.store(fn.call, std::memory_order_relaxed);
  jobUnits.store(units, std::memory_order_relaxed);
  jobChunk.store(chunk, std::memory_order_relaxed);
  pending.store(static_cast<uint32_t>(chunks), std::memory_order_relaxed);
  uint64_t job = (ticket.load(std::memory_order_relaxed) >> 32) + 1;
  ticket.store(job << 32 | static_cast<uint64_t>(chunks), std::memory_order_release);
  epoch.fetch_add(1, std::memory_order_release);
  epoch.notify_all();

  runChunks(0);
  for (int i = 0; i < spins * 4 && pending.load(std::memory_order_acquire) != 0; ++i)
    relax();
  for (uint32_t left; (left = pending.load(std::memory_order_acquire)) != 0;)
    pending.wait(left, std::memory_order_acquire);
}

} // namespace scrimp::runtime
