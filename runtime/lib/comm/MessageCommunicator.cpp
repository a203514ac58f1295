// Collectives out of messages between pairs of ranks, alike over every transport.
//
// The elements are cut into a piece per rank. A reduction sends every rank its piece of what this one has; the rank
// adds up, in the order of the ranks, and for an all_reduce sends the sums to all: 2 (N - 1) / N of the elements are
// sent by each rank, the least possible. A broadcast scatters the pieces from the root; then, as an all_gather, every
// rank sends its piece to all. Pieces are exchanged in rounds, as large as the buffers for what is received. Of fewer
// elements than ranks, each rank sends all to all and adds up by itself: so each waits for each, and the one that does
// not come is the one that is named.
//
// One collective is under way at a time, the others queue: all ranks start them in one order, so none waits for one
// that another has not come to, and one set of buffers serves all.
#include "Reduce.h"
#include "Transport.h"
#include "scrimp/runtime/Clock.h"
#include "scrimp/runtime/communication.h"
#include <algorithm>
#include <chrono>
#include <sched.h>
#include <thread>

namespace scrimp::runtime {

using program::CollectiveKind;

CollectiveCall callOf(const program::Collective *collective) {
  CollectiveCall call;
  call.kind = collective->kind();
  call.dtype = collective->dtype();
  call.wire = collective->wire();
  call.root = static_cast<int>(collective->root());
  const program::Range *counted =
      call.kind == CollectiveKind::reduce_scatter ? collective->target() : collective->source();
  call.elements = static_cast<int64_t>(counted->bytes()) / elementBytes(call.dtype);
  if (collective->location())
    call.name = {collective->location()->c_str(), collective->location()->size()};
  return call;
}

static void collect(const flatbuffers::Vector<flatbuffers::Offset<program::Command>> *list,
                    std::vector<CollectiveCall> &calls) {
  for (flatbuffers::uoffset_t i = 0; list && i < list->size(); ++i) {
    const program::Command *command = list->Get(i);
    if (const program::Collective *collective = command->body_as_Collective())
      calls.push_back(callOf(collective));
    else if (const program::Repeat *repeat = command->body_as_Repeat())
      collect(repeat->commands(), calls);
  }
}

std::vector<CollectiveCall> collectivesOf(const program::Program *program) {
  std::vector<CollectiveCall> calls;
  for (flatbuffers::uoffset_t i = 0; program->graphs() && i < program->graphs()->size(); ++i)
    collect(program->graphs()->Get(i)->commands(), calls);
  return calls;
}

/// A collective of the runtime's own.
static Status runNow(Communicator &communicator, CollectiveKind kind, DType type, int64_t elements, const void *source,
                     void *target, std::string_view name, int root = 0) {
  CollectiveCall call;
  call.kind = kind;
  call.dtype = call.wire = type;
  call.root = root;
  call.elements = elements;
  call.source = static_cast<const char *>(source);
  call.target = static_cast<char *>(target);
  call.name = name;
  call.isCounted = false;
  Communicator::Handle handle;
  Status status = communicator.start(call, handle);
  return status.failed() ? status : communicator.wait(handle);
}

Status Communicator::gather(const void *mine, void *all, int64_t bytes) {
  return runNow(*this, CollectiveKind::all_gather, DType::i8, bytes, mine, all, "what ranks tell each other");
}

Status Communicator::agree(int64_t &value) {
  return runNow(*this, CollectiveKind::all_reduce_max, DType::i64, 1, &value, &value, "what ranks agree on");
}

Status Communicator::share(void *data, int64_t bytes, int root) {
  return runNow(*this, CollectiveKind::broadcast, DType::i8, bytes, data, data, "what one rank tells the others", root);
}

namespace {

class MessageCommunicator final : public Communicator {
public:
  explicit MessageCommunicator(std::unique_ptr<Transport> transport)
      : transport(std::move(transport)), me(this->transport->rank()), ranks(this->transport->size()) {
    size_t peers = static_cast<size_t>(ranks);
    sends.reserve(peers);
    receives.reserve(peers);
    parts.resize(peers);
    queue.resize(queueLength);
    received.resize(static_cast<size_t>(leastReceivedBytes * (ranks - 1)));
  }

  const char *name() const override { return transport->name(); }
  int rank() const override { return me; }
  int size() const override { return ranks; }
  Status reserve(std::span<const CollectiveCall> calls) override;
  uint64_t bufferBytes() const override { return received.size() + outgoing.size(); }
  void setTimeout(double seconds) override { timeout = seconds; }
  Status start(const CollectiveCall &call, Handle &handle) override;
  Status progress() override { return done == started ? Status::ok() : advance(); }
  Status wait(Handle handle) override;
  Status waitAll() override { return wait(started); }
  void abort(const std::string &reason) override { transport->abort(reason); }
  void finish() override { transport->finish(); }

private:
  // A round's messages: first every rank gets its piece, then it sends its own to all.
  enum class Phase { scatter, gather };
  struct Span {
    int64_t begin, end;
    int64_t length() const { return end - begin; }
  };
  static constexpr size_t queueLength = 256;
  static constexpr int spinsBeforeYield = 200, spinsBeforeSleep = 2000;

  const CollectiveCall &current() const { return queue[static_cast<size_t>(done) % queueLength]; }
  bool hasParts() const {
    return current().kind == CollectiveKind::reduce_scatter || current().kind == CollectiveKind::all_gather;
  }
  bool narrows() const { return current().wire != current().dtype; }
  bool isWhole() const { return !hasParts() && current().elements < ranks; }
  bool scatters() const { return current().kind != CollectiveKind::all_gather; }
  bool gathers() const { return current().kind != CollectiveKind::reduce_scatter && !isWhole(); }
  Span pieceOf(int rank) const;
  Span roundOf(int rank) const;
  char *sourceAt(int64_t element) const;
  char *targetAt(int64_t element) const;
  char *buffer(std::vector<char> &bytes, int rank) const;
  void send(int rank, char *data, int64_t elements, bool isWire);
  void receive(int rank, char *data, int64_t elements, bool isWire);

  Status advance();
  void begin();
  Status postScatter();
  Status postGather();
  void endScatter();
  void endGather();
  Status fail(Status status) { return failure = std::move(status); }

  std::unique_ptr<Transport> transport;
  const int me, ranks;
  double timeout = 600;
  Status failure;

  std::vector<CollectiveCall> queue; // a ring
  Handle started = 0, done = 0;      // the collective under way is done + 1, at `done` of the ring
  bool isUnderWay = false;
  Phase phase = Phase::scatter;
  int64_t round = 0, rounds = 0, chunk = 0; // of the collective under way; chunk: elements of a piece in one round
  double postedAt = 0;
  int64_t sentBefore = 0; // bytes, when the collective under way began

  std::vector<Message> sends, receives;
  std::vector<const char *> parts;
  std::vector<char> received, outgoing; // of a round's elements, as they are sent
};

} // namespace

Status MessageCommunicator::reserve(std::span<const CollectiveCall> calls) {
  int64_t in = static_cast<int64_t>(received.size()), out = 0;
  for (const CollectiveCall &call : calls) {
    if (!call.reduces() || ranks == 1)
      continue;
    int64_t elements = call.elements * (call.kind == CollectiveKind::reduce_scatter ? ranks : 1);
    int64_t needed = receivedBytes(ranks, elements, elementBytes(call.wire));
    in = std::max(in, needed);
    if (call.wire != call.dtype)
      out = std::max(out, needed);
  }
  received.resize(static_cast<size_t>(in));
  outgoing.resize(out ? received.size() : 0);
  return Status::ok();
}

Status MessageCommunicator::start(const CollectiveCall &call, Handle &handle) {
  if (failure.failed())
    return failure;
  if (started - done == static_cast<Handle>(queueLength))
    if (Status status = wait(done + 1); status.failed())
      return status;
  // A buffer for what narrows is made where reserve() has heard of none.
  if (call.wire != call.dtype && outgoing.size() < received.size()) {
    if (Status status = waitAll(); status.failed())
      return status;
    outgoing.resize(received.size());
  }
  queue[static_cast<size_t>(started) % queueLength] = call;
  handle = ++started;
  if (observer)
    observer->started(handle, call);
  return advance();
}

Status MessageCommunicator::wait(Handle handle) {
  if (failure.failed())
    return failure;
  if (handle <= done)
    return Status::ok();
  double begin = now();
  for (int spins = 0;; ++spins) {
    if (Status status = advance(); status.failed())
      return status;
    if (handle <= done)
      break;
    if (spins < spinsBeforeYield)
      continue;
    // Whoever is late may need this processor; who is very late, all of its time.
    if (spins < spinsBeforeSleep)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    double waited = now() - std::max(begin, postedAt);
    // Ranks that wait for the same one do not all speak at once: the first to speak ends the others.
    if (waited > timeout + std::min(0.1 * me, 2.0))
      return fail(
          Status::error("%s did not come to %s '%s' within %g seconds; see whether it is alive, or give a longer "
                        "--comm-timeout",
                        transport->pending().c_str(), program::EnumNameCollectiveKind(current().kind),
                        std::string(current().name).c_str(), timeout));
  }
  sent.waitedSeconds += now() - begin;
  return Status::ok();
}

/// Does all that can be done without waiting.
Status MessageCommunicator::advance() {
  if (failure.failed())
    return failure;
  while (done < started) {
    if (!isUnderWay) {
      if (observer)
        observer->began(done + 1);
      sentBefore = sent.bytes;
      begin();
      isUnderWay = true;
    } else {
      Result<bool> isDone = transport->test();
      if (isDone.failed())
        return fail(isDone.status());
      if (!*isDone)
        return Status::ok();
      phase == Phase::scatter ? endScatter() : endGather();
      if (phase == Phase::scatter && gathers()) {
        phase = Phase::gather;
      } else {
        phase = scatters() ? Phase::scatter : Phase::gather;
        ++round;
      }
    }
    if (round == rounds) {
      ++done;
      isUnderWay = false;
      if (observer)
        observer->ended(done, sent.bytes - sentBefore);
      continue;
    }
    sends.clear();
    receives.clear();
    if (Status status = phase == Phase::scatter ? postScatter() : postGather(); status.failed())
      return fail(status);
    postedAt = now();
  }
  return Status::ok();
}

/// Prepares the first round, and does what needs no other rank.
void MessageCommunicator::begin() {
  const CollectiveCall &call = current();
  int64_t each = elementBytes(call.dtype);
  int64_t piece = hasParts() || isWhole() ? call.elements : (call.elements + ranks - 1) / ranks;
  chunk = Transport::mostBytes / each;
  if (call.reduces() && ranks > 1) {
    chunk = static_cast<int64_t>(received.size()) / (elementBytes(call.wire) * (ranks - 1));
    chunk -= chunk > 64 ? chunk % 64 : 0;
  }
  rounds = (piece + chunk - 1) / chunk;
  round = 0;
  phase = scatters() ? Phase::scatter : Phase::gather;
  bool isRoot = call.kind == CollectiveKind::broadcast && call.root == me;
  if ((call.kind == CollectiveKind::all_gather || isRoot) && rounds) {
    int64_t first = hasParts() ? pieceOf(me).begin : 0;
    // They are the same bytes, or disjoint.
    if (call.source != targetAt(first))
      memcpy(targetAt(first), call.source, static_cast<size_t>(call.elements * each));
  }
}

MessageCommunicator::Span MessageCommunicator::pieceOf(int rank) const {
  const CollectiveCall &call = current();
  if (hasParts())
    return {rank * call.elements, (rank + 1) * call.elements};
  if (isWhole())
    return {0, call.elements};
  int64_t each = call.elements / ranks, larger = call.elements % ranks;
  int64_t begin = rank * each + std::min<int64_t>(rank, larger);
  return {begin, begin + each + (rank < larger)};
}

/// What this round has of a rank's piece.
MessageCommunicator::Span MessageCommunicator::roundOf(int rank) const {
  Span piece = pieceOf(rank);
  return {std::min(piece.begin + round * chunk, piece.end), std::min(piece.begin + (round + 1) * chunk, piece.end)};
}

/// Elements are counted over all pieces; the shorter side of a reduce_scatter or all_gather holds this rank's alone.
char *MessageCommunicator::sourceAt(int64_t element) const {
  if (current().kind == CollectiveKind::all_gather)
    element -= pieceOf(me).begin;
  return const_cast<char *>(current().source) + element * elementBytes(current().dtype);
}
char *MessageCommunicator::targetAt(int64_t element) const {
  if (current().kind == CollectiveKind::reduce_scatter)
    element -= pieceOf(me).begin;
  return current().target + element * elementBytes(current().dtype);
}

/// Where a buffer has a round's elements for or of another rank.
char *MessageCommunicator::buffer(std::vector<char> &bytes, int rank) const {
  return bytes.data() + (rank - (rank > me)) * chunk * elementBytes(current().wire);
}

void MessageCommunicator::send(int rank, char *data, int64_t elements, bool isWire) {
  if (!elements)
    return;
  int64_t bytes = elements * elementBytes(isWire ? current().wire : current().dtype);
  sends.push_back({rank, data, bytes});
  if (!current().isCounted)
    return;
  sent.elements += elements;
  sent.bytes += bytes;
  ++sent.messages;
}

void MessageCommunicator::receive(int rank, char *data, int64_t elements, bool isWire) {
  if (elements)
    receives.push_back({rank, data, elements * elementBytes(isWire ? current().wire : current().dtype)});
}

/// A rank begins with the one behind it, so that not all send to the first at once.
Status MessageCommunicator::postScatter() {
  const CollectiveCall &call = current();
  Span mine = roundOf(me);
  for (int step = 1; step < ranks; ++step) {
    int to = (me + step) % ranks, from = (me - step + ranks) % ranks;
    Span theirs = roundOf(to);
    if (call.kind == CollectiveKind::broadcast) {
      if (me == call.root)
        send(to, sourceAt(theirs.begin), theirs.length(), false);
      else if (from == call.root)
        receive(from, targetAt(mine.begin), mine.length(), false);
      continue;
    }
    char *data = sourceAt(theirs.begin);
    if (narrows()) {
      narrow(call.wire, reinterpret_cast<const float *>(data), buffer(outgoing, to), theirs.length());
      data = buffer(outgoing, to);
    }
    send(to, data, theirs.length(), true);
    receive(from, buffer(received, from), mine.length(), true);
  }
  return transport->post(sends, receives);
}

void MessageCommunicator::endScatter() {
  if (!current().reduces())
    return;
  Span mine = roundOf(me);
  for (int rank = 0; rank < ranks; ++rank)
    parts[static_cast<size_t>(rank)] = rank == me ? sourceAt(mine.begin) : buffer(received, rank);
  reduceInOrder(current(), parts, me, targetAt(mine.begin), mine.length());
}

Status MessageCommunicator::postGather() {
  const CollectiveCall &call = current();
  bool isBroadcast = call.kind == CollectiveKind::broadcast;
  Span mine = roundOf(me);
  char *data = targetAt(mine.begin);
  if (narrows() && ranks > 1) {
    narrow(call.wire, reinterpret_cast<const float *>(data), outgoing.data(), mine.length());
    data = outgoing.data();
  }
  for (int step = 1; step < ranks; ++step) {
    int to = (me + step) % ranks, from = (me - step + ranks) % ranks;
    Span theirs = roundOf(from);
    if (!isBroadcast || to != call.root)
      send(to, data, mine.length(), true);
    if (!isBroadcast || me != call.root)
      receive(from, narrows() ? buffer(received, from) : targetAt(theirs.begin), theirs.length(), true);
  }
  return transport->post(sends, receives);
}

void MessageCommunicator::endGather() {
  if (!narrows())
    return;
  for (int rank = 0; rank < ranks; ++rank)
    if (Span theirs = roundOf(rank); rank != me)
      widen(current().wire, buffer(received, rank), reinterpret_cast<float *>(targetAt(theirs.begin)), theirs.length());
}

std::unique_ptr<Communicator> makeMessageCommunicator(std::unique_ptr<Transport> transport) {
  return std::make_unique<MessageCommunicator>(std::move(transport));
}

namespace {
/// There is nobody to talk to.
class SelfTransport final : public Transport {
public:
  const char *name() const override { return "self"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Status post(std::span<const Message>, std::span<const Message>) override { return Status::ok(); }
  Result<bool> test() override { return true; }
  std::string pending() override { return "nobody"; }
  void abort(const std::string &) override {}
};
} // namespace

std::unique_ptr<Communicator> makeSelfCommunicator() {
  return makeMessageCommunicator(std::make_unique<SelfTransport>());
}

} // namespace scrimp::runtime
