#include "scrimp/Eval/Ranks.h"

#include "scrimp/Dialect/Scrimp.h"

#include <condition_variable>
#include <mutex>
#include <thread>

using namespace mlir;
using namespace mlir::scrimp;

namespace {
/// Passes the turn from rank to rank. All members are guarded by `mutex`; the rank whose turn it is runs alone.
class Ranks {
public:
  explicit Ranks(int64_t world) : states(world) {}

  LogicalResult run(llvm::function_ref<LogicalResult(int64_t rank)> evaluate) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < states.size(); ++rank)
      threads.emplace_back([this, rank, evaluate] { runRank(rank, evaluate); });
    for (std::thread &thread : threads)
      thread.join();
    return success(!hasFailed);
  }

  FailureOr<RankValues> exchange(Operation *op, int64_t rank, const HostTensor &mine);
  size_t size() const { return states.size(); }

private:
  struct State {
    Operation *waitsIn = nullptr; // the collective
    HostTensor given;
    RankValues received;
    bool hasEnded = false;
  };

  void runRank(int64_t rank, llvm::function_ref<LogicalResult(int64_t rank)> evaluate);
  void passTurn(int64_t from);
  void meet();

  std::mutex mutex;
  std::condition_variable turnPassed;
  std::vector<State> states;
  int64_t turn = 0;
  bool hasFailed = false;
};
} // namespace

static thread_local Ranks *currentRanks = nullptr;
static thread_local int64_t current = 0, equalRanks = 1;

void Ranks::runRank(int64_t rank, llvm::function_ref<LogicalResult(int64_t rank)> evaluate) {
  std::unique_lock lock(mutex);
  turnPassed.wait(lock, [&] { return turn == rank; });
  if (!hasFailed) {
    currentRanks = this;
    current = rank;
    lock.unlock(); // the others wait for their turn
    bool isDone = succeeded(evaluate(rank));
    lock.lock();
    hasFailed |= !isDone;
  }
  states[rank].hasEnded = true;
  passTurn(rank);
}

/// The next rank that can go on has the turn. When all wait, what they wait for happens.
void Ranks::passTurn(int64_t from) {
  auto canRun = [&](const State &state) { return !state.hasEnded && (!state.waitsIn || hasFailed); };
  if (llvm::none_of(states, canRun))
    meet();
  for (size_t i = 1; i <= states.size(); ++i) {
    turn = (from + i) % states.size();
    if (canRun(states[turn]))
      break;
  }
  turnPassed.notify_all();
}

/// No rank runs: all wait in one collective, which then has its values, or some never get any.
void Ranks::meet() {
  auto waiting = llvm::find_if(states, [](const State &state) { return state.waitsIn != nullptr; });
  if (waiting == states.end())
    return; // all have ended
  Operation *op = waiting->waitsIn;
  for (auto [rank, state] : llvm::enumerate(states)) {
    if (state.waitsIn == op)
      continue;
    InFlightDiagnostic diag = op->emitOpError()
                              << "waits for ever on rank " << waiting - states.begin() << ": rank " << rank << " ";
    if (state.waitsIn) {
      diag << "is in '" << state.waitsIn->getName() << "'";
      diag.attachNote(state.waitsIn->getLoc()) << "the collective of rank " << rank;
    } else {
      diag << "has ended";
    }
    hasFailed = true;
    return;
  }
  auto values = std::make_shared<std::vector<HostTensor>>();
  for (State &state : states)
    values->push_back(std::move(state.given));
  for (State &state : states) {
    state.received = values;
    state.waitsIn = nullptr;
  }
}

FailureOr<RankValues> Ranks::exchange(Operation *op, int64_t rank, const HostTensor &mine) {
  std::unique_lock lock(mutex);
  State &state = states[rank];
  state.waitsIn = op;
  state.given = mine;
  passTurn(rank);
  turnPassed.wait(lock, [&] { return turn == rank; });
  state.waitsIn = nullptr;
  if (hasFailed)
    return failure();
  return std::move(state.received);
}

LogicalResult mlir::scrimp::evalOnRanks(int64_t world, llvm::function_ref<LogicalResult(int64_t rank)> evaluate) {
  return Ranks(world).run(evaluate);
}

FailureOr<RankValues> mlir::scrimp::exchange(Operation *op, int64_t world, const HostTensor &mine) {
  int64_t running = currentRanks ? currentRanks->size() : equalRanks;
  if (running != world)
    return op->emitOpError() << "is for " << world << " ranks, but " << running << (running == 1 ? " runs" : " run");
  if (!currentRanks)
    return std::make_shared<const std::vector<HostTensor>>(world, mine);
  return currentRanks->exchange(op, current, mine);
}

EqualRanks::EqualRanks(int64_t world) : outer(std::exchange(equalRanks, world)) {}
EqualRanks::~EqualRanks() { equalRanks = outer; }

int64_t mlir::scrimp::currentRank() { return current; }
