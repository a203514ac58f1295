// What the ranks of a run say to each other. One interface; the results' bits are the same behind every one of them,
// because sums are taken in the order of the ranks (program.fbs, Collective).
//
//   self      one process
//   threads   ranks that are threads of one process, for tests (ThreadWorld)
//   mpi       processes that mpirun or srun started (openCommunicator)
//
// Collectives do not block: start() hands out a handle, wait() returns when that one is done, and progress() in between
// gets on with all that are under way. Only the thread that made a communicator calls it. Every rank starts the same
// collectives in the same order. Where a call fails, so do all later ones: the run is over.
//
// NCCL fits behind this as it stands. start() makes the communicator's stream wait for an event that the compute stream
// has reached and enqueues the operation (a sum as all-to-all, a kernel that adds in order, all-gather: bits then do
// not depend on NCCL's rings); the handle stands for an event recorded behind it. wait() makes the compute stream wait
// for that event (cudaStreamWaitEvent) and does not stop the host. progress() asks ncclCommGetAsyncError, so a failure
// is told by a later call than that which met it, as MPI's are; the host's own waits (agree, gather, waitAll)
// synchronise. abort() is ncclCommAbort.
#ifndef SCRIMP_RUNTIME_COMMUNICATOR_H
#define SCRIMP_RUNTIME_COMMUNICATOR_H

#include "scrimp/runtime/DType.h"
#include "scrimp/runtime/Status.h"
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace scrimp::runtime {

/// A collective on bytes of this rank (program.fbs, Collective, says what each kind does).
struct CollectiveCall {
  program::CollectiveKind kind = program::CollectiveKind::all_reduce_sum;
  DType dtype = DType::f32, wire = DType::f32;
  int root = 0;
  int64_t elements = 0; // n; of reduce_scatter and all_gather L
  const char *source = nullptr;
  char *target = nullptr;
  std::string_view name; // for messages
  bool isCounted = true; // in the traffic; what the runtime itself says is not

  bool isSum() const {
    return kind == program::CollectiveKind::all_reduce_sum || kind == program::CollectiveKind::reduce_scatter;
  }
  bool reduces() const { return isSum() || kind == program::CollectiveKind::all_reduce_max; }
};

/// A command's call, but for its addresses.
CollectiveCall callOf(const program::Collective *collective);

/// The calls of all commands of a program.
std::vector<CollectiveCall> collectivesOf(const program::Program *program);

/// What a rank has sent since the run began, and how long it has waited for others.
struct Traffic {
  int64_t elements = 0, bytes = 0, messages = 0;
  double waitedSeconds = 0;
};

/// Hears of the collectives of a communicator, on its thread. With NCCL the times are those of the events around them.
class CollectiveObserver {
public:
  virtual ~CollectiveObserver() = default;
  virtual void started(int64_t handle, const CollectiveCall &call) = 0;
  /// Those before it are done.
  virtual void began(int64_t handle) = 0;
  virtual void ended(int64_t handle, int64_t sentBytes) = 0;
};

class Communicator {
public:
  /// Counts the collectives of a communicator from 1 on; 0 is done.
  using Handle = int64_t;

  virtual ~Communicator() = default;
  virtual const char *name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Makes the buffers that such calls need beside their sources and targets: no later call allocates. Other calls work
  /// too, in more and smaller messages.
  virtual Status reserve(std::span<const CollectiveCall> calls) = 0;
  /// How many bytes they have.
  virtual uint64_t bufferBytes() const = 0;
  /// Seconds after which a wait for other ranks fails.
  virtual void setTimeout(double seconds) = 0;

  /// Source and target belong to the collective until wait() has returned.
  virtual Status start(const CollectiveCall &call, Handle &handle) = 0;
  virtual Status progress() = 0;
  /// Of a communicator of a device: fails where that has waited for other ranks for longer than they have.
  virtual Status checkTimeout(double) const { return Status::ok(); }
  /// Whether a device may record collectives, which it then starts itself (Device::startRecording).
  virtual bool canRecord() const { return false; }
  virtual Status wait(Handle handle) = 0;
  virtual Status waitAll() = 0;

  /// Ends the run on all ranks, also where they wait or are stuck. Of processes, this one too: it does not return then.
  virtual void abort(const std::string &reason) = 0;
  /// Says goodbye: all ranks do so at the end of a run that none has aborted.
  virtual void finish() = 0;

  const Traffic &traffic() const { return sent; }
  /// What a device has sent that ran a record again.
  void countReplay(const Traffic &again) {
    sent.elements += again.elements;
    sent.bytes += again.bytes;
    sent.messages += again.messages;
  }
  /// Tells `observer` from now on; null: nobody.
  void observe(CollectiveObserver *newObserver) { observer = newObserver; }

  /// Collects `bytes` of every rank, in their order, in `all`. Blocks.
  Status gather(const void *mine, void *all, int64_t bytes);
  /// `value` becomes the largest of all ranks'. Blocks.
  Status agree(int64_t &value);
  /// Copies `bytes` of the rank `root` to all. Blocks.
  Status share(void *data, int64_t bytes, int root);

protected:
  Traffic sent;
  CollectiveObserver *observer = nullptr;
};

/// A world of one.
std::unique_ptr<Communicator> makeSelfCommunicator();

/// Ranks that are threads: each takes its communicator, which is then its alone.
class ThreadWorld {
public:
  explicit ThreadWorld(int ranks);
  ~ThreadWorld();
  std::unique_ptr<Communicator> communicator(int rank);

private:
  std::shared_ptr<struct ThreadState> state;
};

} // namespace scrimp::runtime

#endif
