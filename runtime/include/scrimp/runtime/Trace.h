// --trace: what a rank did when, in the Trace Event Format that chrome://tracing and Perfetto read
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). A process is a rank; its rows are
// the thread that walks the commands, the communicator, and the other threads of the pool.
#ifndef SCRIMP_RUNTIME_TRACE_H
#define SCRIMP_RUNTIME_TRACE_H

#include "scrimp/runtime/Communicator.h"
#include "scrimp/runtime/ThreadPool.h"
#include <string>
#include <vector>

namespace scrimp::runtime {

/// Records what happens on this rank between align() and the last step that is traced. Only the thread that runs the
/// program calls it, but for ran(). Names that it is given outlive it.
class Trace final : public CollectiveObserver, public PoolObserver {
public:
  using Index = uint32_t;
  static constexpr Index none = ~Index{0};

  /// Of `rank` of `ranks`, whose pool has `threads`. Holds `most` events of each kind at most; what comes later is
  /// counted and left out.
  Trace(int rank, int ranks, int threads, size_t most = 1 << 20);

  /// Relates this rank's clock to that of the first, which is where a trace's time begins. All ranks do it together.
  ///
  /// What a rank sends arrives later than it was sent, by either clock. So a rank that sends s and by then has read b
  /// of the first rank's message, sent at s0 by its clock, knows s0 - b as a lower bound of what is to be added to its
  /// clock; an upper bound is what the first rank finds alike for the way back. Several exchanges leave the narrowest
  /// interval, whose middle is taken: the error is half of it at most, however long messages take.
  Status align(Communicator &communicator);
  double clockError() const { return errorSeconds; }

  /// Begins a span: `category` is what computes it, `name` the user's name for that; `number` counts steps, iterations
  /// or is the collective that is started or waited for. Spans nest. They are NVTX ranges too, where a profiler
  /// listens.
  Index open(std::string_view category, std::string_view name, int64_t number = -1, double expected = 0);
  void close(Index index);
  void rename(Index index, std::string_view category, std::string_view name, int64_t number);
  /// A span that starts the collective `handle`, or waits for it.
  void relate(Index index, Communicator::Handle handle);

  void started(Communicator::Handle handle, const CollectiveCall &call) override;
  void began(Communicator::Handle handle) override;
  void ended(Communicator::Handle handle, int64_t sentBytes) override;
  void ran(int worker, uint64_t job, double begin, double end) override;

  /// How many events have found no room.
  int64_t dropped() const;

  /// The text of this rank's events, a comma before each, in portions of a MiB: appends one to `text` and returns
  /// whether there is more. `host` is the machine's name.
  bool nextText(const std::string &host, std::string &text);

private:
  struct Span {
    std::string_view category, name;
    double begin, end, expected;
    int64_t number;
    Communicator::Handle collective;
  };
  struct Collective {
    CollectiveCall call;
    Communicator::Handle handle;
    double begin, underWay, end;
    int64_t sentBytes;
    int lane;
  };
  struct Share { // of a span's work, on another thread of the pool
    Index span;
    uint64_t job;
    double begin, end;
  };
  struct Shares {
    std::vector<Share> list;
    int64_t left = 0;
  };

  void assignLanes();
  Collective *find(Communicator::Handle handle);
  int64_t nanoseconds(double time) const;
  void appendSpan(const Span &span, std::string &text) const;
  void appendCollective(const Collective &collective, std::string &text) const;
  void appendSlice(std::string_view name, std::string_view category, int row, double begin, double end,
                   const std::string &arguments, std::string &text) const;
  void appendFlow(char phase, Communicator::Handle handle, int row, double at, std::string &text) const;
  void appendMetadata(const std::string &host, std::string &text) const;

  int rank, ranks;
  size_t most;
  std::vector<Span> spans;             // in the order of their begins
  std::vector<Collective> collectives; // in the order of their starts
  std::vector<Shares> shares;          // by thread of the pool
  Index current = none;                // the span opened last, which the pool works on
  int64_t left = 0;
  double offset = 0, errorSeconds = 0, origin = 0; // added to the clock; half of what is unknown of that; time 0
  int lanes = 0;                                   // rows of collectives
  size_t nextItem = 0;                             // of the text
};

/// A span for as long as this lives; nothing without a trace.
class TraceSpan {
public:
  TraceSpan(Trace *trace, std::string_view category, std::string_view name, int64_t number = -1)
      : trace(trace), index(trace ? trace->open(category, name, number) : Trace::none) {}
  ~TraceSpan() {
    if (trace)
      trace->close(index);
  }
  TraceSpan(const TraceSpan &) = delete;
  TraceSpan &operator=(const TraceSpan &) = delete;
  void rename(std::string_view category, std::string_view name, int64_t number = -1) {
    if (trace)
      trace->rename(index, category, name, number);
  }

private:
  Trace *trace;
  Trace::Index index;
};

} // namespace scrimp::runtime

#endif
