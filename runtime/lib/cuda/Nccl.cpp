// Collectives are enqueued on a stream of their own, behind what the program's stream has done when they start; a wait
// makes the program's stream wait, not the host. So a step can be recorded with them.
#include "Nccl.h"
#include <algorithm>
#include <cstring>
#include <vector>

namespace scrimp::runtime::cuda {

using program::CollectiveKind;

namespace {

class NcclCommunicator final : public Communicator {
public:
  NcclCommunicator(const NcclDevice &device, int rank, int ranks) : device(device), me(rank), ranks(ranks) {}
  ~NcclCommunicator() override;

  Status open(Communicator &host, const std::string &folder);

  const char *name() const override { return "nccl"; }
  int rank() const override { return me; }
  int size() const override { return ranks; }
  Status reserve(std::span<const CollectiveCall> calls) override;
  uint64_t bufferBytes() const override { return incomingBytes + outgoingBytes; }
  void setTimeout(double seconds) override { timeout = seconds; }
  Status start(const CollectiveCall &call, Handle &handle) override;
  Status progress() override;
  bool canRecord() const override { return true; }
  Status wait(Handle handle) override;
  Status checkTimeout(double waited) const override;
  Status waitAll() override { return wait(started); }
  void abort(const std::string &) override {
    if (comm)
      (void)ncclCommAbort(comm);
    comm = nullptr;
  }
  void finish() override {}

private:
  struct Span {
    int64_t begin, end;
    int64_t length() const { return end - begin; }
  };
  /// Bytes for what is received in a round, at most, and as much again for what is sent where it is rounded.
  static constexpr int64_t mostReceived = 64 << 20;

  Status check(NcclCode code, const char *what) const;
  Status run(const CollectiveCall &call);
  Status reduce(const CollectiveCall &call);
  Status reduceRound(const CollectiveCall &call, int64_t round, int64_t chunk);
  /// Sends bytes to each rank and receives bytes from each, itself among them.
  template <typename Send, typename Receive> Status exchange(Send send, Receive receive, const char *what);
  Span pieceOf(const CollectiveCall &call, int rank) const;
  void count(const CollectiveCall &call, int64_t elements, DType type);

  NcclDevice device;
  const int me, ranks;
  SharedLibrary library;
  NcclComm comm = nullptr;
  Stream stream = nullptr;
  char *incoming = nullptr, *outgoing = nullptr; // on the device
  uint64_t incomingBytes = 0, outgoingBytes = 0;
  Handle started = 0;
  double timeout = 600;
  std::string last;        // the collective that was started last
  std::vector<Event> ends; // of the last collectives, by handle
  Event begin = nullptr;

#define SCRIMP_DECLARE(type, name, parameters) type(*name) parameters = nullptr;
  SCRIMP_NCCL_FUNCTIONS(SCRIMP_DECLARE)
#undef SCRIMP_DECLARE
};

} // namespace

NcclCommunicator::~NcclCommunicator() {
  if (comm)
    (void)ncclCommDestroy(comm);
  for (Event event : ends)
    (void)device.driver->cuEventDestroy_v2(event);
  if (begin)
    (void)device.driver->cuEventDestroy_v2(begin);
  if (stream)
    (void)device.driver->cuStreamDestroy_v2(stream);
}

Status NcclCommunicator::check(NcclCode code, const char *what) const {
  if (!code)
    return Status::ok();
  return Status::error("NCCL on rank %d: %s: %s (%s)", me, what, ncclGetErrorString(code), ncclGetLastError(comm));
}

Status NcclCommunicator::open(Communicator &host, const std::string &folder) {
  Result<SharedLibrary> opened = SharedLibrary::open({"libnccl.so.2"}, folder, "connects GPUs");
  Status status = opened.failed() ? opened.status() : Status::ok();
  if (!status.failed())
    library = std::move(*opened);
#define SCRIMP_BIND(type, name, parameters)                                                                            \
  if (!status.failed())                                                                                                \
    status = library.bind(#name, name);
  SCRIMP_NCCL_FUNCTIONS(SCRIMP_BIND)
#undef SCRIMP_BIND
  constexpr int least = 21800;
  int version = 0;
  if (!status.failed())
    status = check(ncclGetVersion(&version), "asking for the version");
  if (!status.failed() && version < least)
    status = Status::error("'%s' is NCCL %d.%d.%d; this program needs 2.18 at least", library.path().c_str(),
                           version / 10000, version / 100 % 100, version % 100);
  NcclId id{};
  if (!status.failed() && me == 0)
    status = check(ncclGetUniqueId(&id), "beginning");
  // Where one cannot, none may wait for it.
  int64_t fails = status.failed();
  if (Status agreed = host.agree(fails); agreed.failed())
    return agreed;
  if (fails)
    return status.failed() ? status : Status::error("another rank cannot use NCCL");
  if (Status shared = host.share(&id, sizeof(id), 0); shared.failed())
    return shared;
  if (status = check(ncclCommInitRank(&comm, ranks, id, me), "connecting the GPUs"); status.failed())
    return status;
  constexpr size_t underWay = 256;
  ends.resize(underWay);
  const Driver &driver = *device.driver;
  Code code = driver.cuStreamCreate(&stream, streamNonBlocking);
  for (Event &event : ends)
    code = code ? code : driver.cuEventCreate(&event, eventDisableTiming);
  code = code ? code : driver.cuEventCreate(&begin, eventDisableTiming);
  return driver.check(code, "making a stream for what ranks exchange");
}

/// As of messages on a CPU: a piece of the elements for each rank, which it reduces.
NcclCommunicator::Span NcclCommunicator::pieceOf(const CollectiveCall &call, int rank) const {
  if (call.kind == CollectiveKind::reduce_scatter)
    return {rank * call.elements, (rank + 1) * call.elements};
  int64_t each = call.elements / ranks, larger = call.elements % ranks;
  int64_t first = rank * each + std::min<int64_t>(rank, larger);
  return {first, first + each + (rank < larger)};
}

Status NcclCommunicator::reserve(std::span<const CollectiveCall> calls) {
  // A round has at least an element of each rank.
  int64_t in = ranks * static_cast<int64_t>(sizeof(double)), out = 0;
  for (const CollectiveCall &call : calls) {
    if (!call.reduces())
      continue;
    int64_t piece = pieceOf(call, 0).length();
    int64_t needed = std::min(std::max(mostReceived, in), ranks * piece * elementBytes(call.wire));
    in = std::max(in, needed);
    if (call.wire != call.dtype)
      out = std::max(out, needed);
  }
  auto grow = [&](char *&buffer, uint64_t &bytes, int64_t needed) {
    if (static_cast<int64_t>(bytes) >= needed)
      return Status::ok();
    Result<char *> made = device.allocate(static_cast<uint64_t>(needed));
    if (made.failed())
      return made.status();
    buffer = *made;
    bytes = static_cast<uint64_t>(needed);
    return Status::ok();
  };
  Status status = grow(incoming, incomingBytes, in);
  return status.failed() || !out ? status : grow(outgoing, outgoingBytes, std::max(in, out));
}

void NcclCommunicator::count(const CollectiveCall &call, int64_t elements, DType type) {
  if (!call.isCounted || !elements)
    return;
  sent.elements += elements;
  sent.bytes += elements * elementBytes(type);
  ++sent.messages;
}

Status NcclCommunicator::progress() {
  NcclCode state = 0;
  if (Status status = check(ncclCommGetAsyncError(comm, &state), "asking how it is"); status.failed())
    return status;
  return state == ncclInProgress ? Status::ok() : check(state, "another rank or the network failed");
}

Status NcclCommunicator::checkTimeout(double waited) const {
  if (waited <= timeout)
    return Status::ok();
  return Status::error(
      "another rank did not come to what all exchange within %g seconds (the last that was started here is "
      "%s); see whether all are alive, or give a longer --comm-timeout",
      timeout, last.c_str());
}

Status NcclCommunicator::start(const CollectiveCall &call, Handle &handle) {
  last = format("%s '%s'", program::EnumNameCollectiveKind(call.kind), std::string(call.name).c_str());
  handle = ++started;
  const Driver &driver = *device.driver;
  Event end = ends[static_cast<size_t>(handle) % ends.size()];
  Status status = driver.check(driver.cuEventRecord(begin, device.stream), "starting a collective");
  if (!status.failed())
    status = driver.check(driver.cuStreamWaitEvent(stream, begin, 0), "starting a collective");
  if (!status.failed())
    status = run(call);
  if (!status.failed())
    status = driver.check(driver.cuEventRecord(end, stream), "starting a collective");
  if (status.failed())
    return Status::error("%s (in %s '%s')", status.message().c_str(), program::EnumNameCollectiveKind(call.kind),
                         std::string(call.name).c_str());
  return status;
}

Status NcclCommunicator::wait(Handle handle) {
  if (!handle)
    return Status::ok();
  const Driver &driver = *device.driver;
  return driver.check(driver.cuStreamWaitEvent(device.stream, ends[static_cast<size_t>(handle) % ends.size()], 0),
                      "waiting for a collective");
}

Status NcclCommunicator::run(const CollectiveCall &call) {
  auto bytes = static_cast<size_t>(call.elements * elementBytes(call.dtype));
  if (!bytes)
    return Status::ok();
  if (call.reduces())
    return reduce(call);
  if (call.kind == CollectiveKind::all_gather) {
    for (int rank = 0; rank < ranks - 1; ++rank)
      count(call, call.elements, call.dtype);
    return check(ncclAllGather(call.source, call.target, bytes, ncclOfInt8, comm, stream), "gathering");
  }
  if (me == call.root)
    count(call, call.elements, call.dtype);
  return check(ncclBroadcast(call.source, call.target, bytes, ncclOfInt8, call.root, comm, stream), "broadcasting");
}

template <typename Send, typename Receive>
Status NcclCommunicator::exchange(Send send, Receive receive, const char *what) {
  Status status = check(ncclGroupStart(), what);
  auto then = [&](NcclCode code) {
    if (!status.failed())
      status = check(code, what);
  };
  for (int step = 0; step < ranks; ++step) {
    int to = (me + step) % ranks, from = (me - step + ranks) % ranks;
    if (auto [data, bytes] = send(to); bytes)
      then(ncclSend(data, bytes, ncclOfInt8, to, comm, stream));
    if (auto [data, bytes] = receive(from); bytes)
      then(ncclRecv(data, bytes, ncclOfInt8, from, comm, stream));
  }
  then(ncclGroupEnd());
  return status;
}

Status NcclCommunicator::reduce(const CollectiveCall &call) {
  int64_t piece = pieceOf(call, 0).length(), each = elementBytes(call.wire);
  int64_t chunk = std::max<int64_t>(static_cast<int64_t>(incomingBytes) / (each * ranks), 1);
  if (call.wire != call.dtype && outgoingBytes < incomingBytes)
    return Status::error("no room was reserved for what is rounded");
  for (int64_t round = 0; round * chunk < piece; ++round)
    if (Status status = reduceRound(call, round, chunk); status.failed())
      return status;
  return Status::ok();
}

/// Every rank gets what all others have of its piece, reduces it, and of an all_reduce sends it to all.
Status NcclCommunicator::reduceRound(const CollectiveCall &call, int64_t round, int64_t chunk) {
  bool narrows = call.wire != call.dtype, gathers = call.kind != CollectiveKind::reduce_scatter;
  int64_t each = elementBytes(call.dtype), wireEach = elementBytes(call.wire);
  std::string wire = dtypeName(call.wire), type = dtypeName(call.dtype);
  auto roundOf = [&](int rank) -> Span {
    Span piece = pieceOf(call, rank);
    return {std::min(piece.begin + round * chunk, piece.end), std::min(piece.begin + (round + 1) * chunk, piece.end)};
  };
  auto slot = [&](char *buffer, int rank) { return buffer + rank * chunk * wireEach; };
  Span mine = roundOf(me);
  int64_t first = gathers ? 0 : pieceOf(call, me).begin; // of the target
  for (int rank = 0; narrows && rank < ranks; ++rank)
    if (Span theirs = roundOf(rank); theirs.length())
      if (Status status = device.run("exchange_cast_" + type + "_" + wire, call.source + theirs.begin * each,
                                     slot(outgoing, rank), theirs.length(), stream);
          status.failed())
        return status;
  using Bytes = std::pair<char *, size_t>;
  auto bytesOf = [&](Span span) { return static_cast<size_t>(span.length() * wireEach); };
  Status status = exchange(
      [&](int rank) -> Bytes {
        Span theirs = roundOf(rank);
        if (rank != me)
          count(call, theirs.length(), call.wire);
        return {narrows ? slot(outgoing, rank) : const_cast<char *>(call.source) + theirs.begin * each,
                bytesOf(theirs)};
      },
      [&](int rank) -> Bytes {
        return {incoming + rank * mine.length() * wireEach, bytesOf(mine)};
      },
      "exchanging");
  if (status.failed())
    return status;
  bool roundsSum = narrows && gathers; // what is sent of it
  char *sum = roundsSum ? outgoing : call.target + (mine.begin - first) * each;
  std::string kernel = call.kind == CollectiveKind::all_reduce_max
                           ? "exchange_max_" + type
                           : "exchange_sum_" + wire + "_" + (roundsSum ? wire : type);
  if (mine.length())
    status = device.run(kernel, incoming, sum, mine.length(), stream);
  if (status.failed() || !gathers)
    return status;
  status = exchange(
      [&](int rank) -> Bytes {
        if (rank == me && !narrows)
          return {nullptr, 0}; // it is there
        if (rank != me)
          count(call, mine.length(), call.wire);
        return {sum, bytesOf(mine)};
      },
      [&](int rank) -> Bytes {
        Span theirs = roundOf(rank);
        if (rank == me && !narrows)
          return {nullptr, 0};
        return {narrows ? slot(incoming, rank) : call.target + theirs.begin * each, bytesOf(theirs)};
      },
      "sending sums");
  for (int rank = 0; narrows && rank < ranks && !status.failed(); ++rank)
    if (Span theirs = roundOf(rank); theirs.length())
      status = device.run("exchange_cast_" + wire + "_" + type, slot(incoming, rank), call.target + theirs.begin * each,
                          theirs.length(), stream);
  return status;
}

Result<std::unique_ptr<Communicator>> connectNccl(const NcclDevice &device, Communicator &host,
                                                  const std::string &folder) {
  auto communicator = std::make_unique<NcclCommunicator>(device, host.rank(), host.size());
  if (Status status = communicator->open(host, folder); status.failed())
    return status;
  return std::unique_ptr<Communicator>(std::move(communicator));
}

} // namespace scrimp::runtime::cuda
