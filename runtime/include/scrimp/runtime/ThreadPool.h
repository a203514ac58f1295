// The one thread pool: it runs the ranges of kernels and the tiles of library functions. The pool is made once; a
// launch allocates nothing. Which thread computes what is left to chance, so callers hand in work whose result does
// not depend on it.
#ifndef SCRIMP_RUNTIME_THREADPOOL_H
#define SCRIMP_RUNTIME_THREADPOOL_H

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace scrimp::runtime {

/// A reference to a callable void(int64_t begin, int64_t end, int worker); it does not own the callable.
class RangeFunction {
public:
  template <typename F>
  RangeFunction(F &callable) requires(!std::is_same_v<std::remove_const_t<F>, RangeFunction>)
      : context(const_cast<void *>(static_cast<const void *>(&callable))),
        call([](void *context, int64_t begin, int64_t end, int worker) {
          (*static_cast<F *>(context))(begin, end, worker);
        }) {}
  void operator()(int64_t begin, int64_t end, int worker) const { call(context, begin, end, worker); }

private:
  friend class ThreadPool;
  RangeFunction() = default;
  void *context = nullptr;
  void (*call)(void *, int64_t, int64_t, int) = nullptr;
};

/// Hears of the work of a pool's threads, on these.
class PoolObserver {
public:
  virtual ~PoolObserver() = default;
  /// `worker` has done a part of the job, which parallelFor has not returned from; jobs are counted.
  virtual void ran(int worker, uint64_t job, double begin, double end) = 0;
};

class ThreadPool {
public:
  /// Starts threads - 1 threads; the caller of parallelFor is the last one.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// Tells `observer` from now on; null: nobody. Not while parallelFor runs.
  void observe(PoolObserver *newObserver) { observer = newObserver; }

  int threads() const { return static_cast<int>(workers.size()) + 1; }

  /// Calls fn(begin, end, worker) for disjoint ranges that cover [0, units); each begins at a multiple of `grain`.
  /// `worker` is in [0, threads()) and no two calls that run at one time share it (it selects a workspace slot).
  /// Returns when all have returned. Only one thread may call this; calls do not nest.
  void parallelFor(int64_t units, int64_t grain, RangeFunction fn);

private:
  void work(int worker);
  bool runChunks(int worker);

  // A job is open while the low half of `ticket` (chunks not yet claimed) is not 0; the high half counts jobs. A
  // thread that claims a chunk by compare-and-swap has therefore read the fields of the very job it claims from.
  std::atomic<uint64_t> ticket{0};
  std::atomic<uint32_t> pending{0};
  std::atomic<uint32_t> epoch{0};
  std::atomic<bool> stopping{false};
  std::atomic<void *> jobContext{nullptr};
  std::atomic<void (*)(void *, int64_t, int64_t, int)> jobCall{nullptr};
  std::atomic<int64_t> jobUnits{0};
  std::atomic<int64_t> jobChunk{0};
  PoolObserver *observer = nullptr; // read by who has claimed a chunk, so after what was set before the job
  std::vector<std::thread> workers;
};

} // namespace scrimp::runtime

#endif
