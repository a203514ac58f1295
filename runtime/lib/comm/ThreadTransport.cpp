// Ranks that are threads of one process: the receiver copies out of the sender's bytes.
#include "Transport.h"
#include <atomic>
#include <mutex>

namespace scrimp::runtime {

/// What all ranks of a world see.
struct ThreadState {
  explicit ThreadState(int ranks) : ranks(ranks), slots(static_cast<size_t>(ranks) * static_cast<size_t>(ranks)) {}

  /// The one message that may be on its way from a rank to another; the sender fills it, the receiver empties it.
  struct alignas(64) Slot {
    std::atomic<bool> isFull{false};
    const char *data = nullptr;
    int64_t bytes = 0;
  };
  Slot &slot(int from, int to) { return slots[static_cast<size_t>(from * ranks + to)]; }

  int ranks;
  std::vector<Slot> slots;
  std::atomic<bool> isAborted{false};
  std::mutex mutex; // of the reason
  std::string reason;
};

namespace {
class ThreadTransport final : public Transport {
public:
  ThreadTransport(std::shared_ptr<ThreadState> state, int rank) : state(std::move(state)), me(rank) {
    sends.reserve(static_cast<size_t>(size()));
    receives.reserve(static_cast<size_t>(size()));
  }

  const char *name() const override { return "threads"; }
  int rank() const override { return me; }
  int size() const override { return state->ranks; }

  Status post(std::span<const Message> newSends, std::span<const Message> newReceives) override {
    sends.assign(newSends.begin(), newSends.end());
    receives.assign(newReceives.begin(), newReceives.end());
    for (const Message &message : sends) {
      ThreadState::Slot &slot = state->slot(me, message.peer);
      slot.data = message.data;
      slot.bytes = message.bytes;
      slot.isFull.store(true, std::memory_order_release);
    }
    return Status::ok();
  }

  Result<bool> test() override {
    if (state->isAborted.load(std::memory_order_acquire)) {
      std::lock_guard lock(state->mutex);
      return Status::errorText(state->reason);
    }
    Status status;
    std::erase_if(receives, [&](const Message &message) {
      ThreadState::Slot &slot = state->slot(message.peer, me);
      if (status.failed() || !slot.isFull.load(std::memory_order_acquire))
        return false;
      if (slot.bytes != message.bytes) {
        status = Status::error("rank %d sends %lld bytes where rank %d expects %lld", message.peer,
                               (long long)slot.bytes, me, (long long)message.bytes);
        return false;
      }
      memcpy(message.data, slot.data, static_cast<size_t>(message.bytes));
      slot.isFull.store(false, std::memory_order_release);
      return true;
    });
    if (status.failed())
      return status;
    std::erase_if(sends, [&](const Message &message) {
      return !state->slot(me, message.peer).isFull.load(std::memory_order_acquire);
    });
    return sends.empty() && receives.empty();
  }

  std::string pending() override {
    std::string text;
    for (const Message &message : receives.empty() ? sends : receives)
      text += format("%srank %d", text.empty() ? "" : ", ", message.peer);
    return text;
  }

  void abort(const std::string &reason) override {
    std::lock_guard lock(state->mutex);
    if (!state->isAborted.load(std::memory_order_relaxed))
      state->reason = reason;
    state->isAborted.store(true, std::memory_order_release);
  }

private:
  std::shared_ptr<ThreadState> state;
  int me;
  std::vector<Message> sends, receives; // not done yet
};
} // namespace

ThreadWorld::ThreadWorld(int ranks) : state(std::make_shared<ThreadState>(ranks)) {}
ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::communicator(int rank) {
  return makeMessageCommunicator(std::make_unique<ThreadTransport>(state, rank));
}

} // namespace scrimp::runtime
