// One suite for all communicators: every kind of collective, with every type, over lengths that nothing divides, gives
// the bits of a plain loop over the ranks.
#include "scrimp/runtime/Communicator.h"
#include <atomic>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <thread>

using namespace scrimp::runtime;
using scrimp::program::CollectiveKind;

extern Communicator *launched;

namespace {

using Bytes = std::vector<char>;

constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce_sum, CollectiveKind::all_reduce_max,
                                    CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
                                    CollectiveKind::broadcast};
constexpr DType types[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                           DType::i1,  DType::i8,  DType::i32,  DType::i64};

bool hasParts(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_gather;
}

/// What a rank has at first: magnitudes so different that every other order of additions rounds otherwise, and here and
/// there (but for sums of integers) what has no order.
Bytes valuesOf(int rank, DType type, int64_t elements) {
  Bytes bytes(static_cast<size_t>(elements * elementBytes(type)));
  uint64_t state = static_cast<uint64_t>(rank) * 7919 + 17;
  for (int64_t i = 0; i < elements; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double value = std::ldexp(static_cast<double>(state >> 40) - (1 << 23), static_cast<int>((state >> 33) % 12) - 23);
    if (!isFloat(type))
      value = std::floor(value * 37);
    else if (state % 101 == 0)
      value = std::numeric_limits<double>::quiet_NaN();
    else if (state % 103 == 0)
      value = std::numeric_limits<double>::infinity();
    if (type == DType::i64 || type == DType::i32) { // sums beyond the largest wrap around
      int64_t wide = static_cast<int64_t>(state);
      memcpy(bytes.data() + i * elementBytes(type), &wide, static_cast<size_t>(elementBytes(type)));
      continue;
    }
    storeElement(type, bytes.data(), i, type == DType::i8 ? std::fmod(value, 100) : value);
  }
  return bytes;
}

/// The sum or the largest of one element of all ranks, by the contract (program.fbs), element by element.
void reduceElement(const CollectiveCall &call, const std::vector<Bytes> &all, int64_t element, char *target,
                   int64_t index) {
  auto load = [&](size_t rank) {
    if (all.size() == 1)
      return loadElement(call.dtype, all[rank].data(), element);
    char wire[8];
    storeElement(call.wire, wire, 0, loadElement(call.dtype, all[rank].data(), element));
    return loadElement(call.wire, wire, 0);
  };
  if (!isFloat(call.dtype)) {
    auto integer = [&](size_t rank) {
      int64_t value = 0;
      memcpy(&value, all[rank].data() + element * elementBytes(call.dtype),
             static_cast<size_t>(elementBytes(call.dtype)));
      return call.dtype == DType::i32  ? static_cast<int32_t>(value)
             : call.dtype == DType::i8 ? static_cast<int8_t>(value)
                                       : value;
    };
    int64_t result = integer(0);
    for (size_t rank = 1; rank < all.size(); ++rank)
      result = call.isSum() ? static_cast<int64_t>(static_cast<uint64_t>(result) + static_cast<uint64_t>(integer(rank)))
                            : std::max(result, integer(rank));
    memcpy(target + index * elementBytes(call.dtype), &result, static_cast<size_t>(elementBytes(call.dtype)));
    return;
  }
  double result = load(0);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    double value = load(rank);
    if (call.isSum())
      result = call.dtype == DType::f64 ? result + value : static_cast<float>(result) + static_cast<float>(value);
    else if (!std::isnan(result) && (std::isnan(value) || value > result))
      result = value;
  }
  if (call.kind == CollectiveKind::all_reduce_sum && all.size() > 1) {
    storeElement(call.wire, target + index * elementBytes(call.dtype), 0, result);
    result = loadElement(call.wire, target + index * elementBytes(call.dtype), 0);
  }
  storeElement(call.dtype, target, index, result);
}

/// A collective of one rank, with its bytes and what they should become. Everything lies one element off an aligned
/// address.
struct Exchange {
  CollectiveCall call;
  Bytes source, target, expected;
  int64_t targetOffset = 0; // in `source`, where it is in place
  bool isInPlace;

  Exchange(const Communicator &communicator, CollectiveKind kind, DType type, DType wire, int64_t elements,
           bool isInPlace)
      : isInPlace(isInPlace) {
    int ranks = communicator.size(), me = communicator.rank();
    int64_t each = elementBytes(type);
    call.kind = kind;
    call.dtype = type;
    call.wire = wire;
    call.root = (static_cast<int>(kind) + static_cast<int>(elements)) % ranks;
    call.elements = elements;
    call.name = "test";
    int64_t sourceElements = kind == CollectiveKind::reduce_scatter ? elements * ranks : elements;
    int64_t targetElements = kind == CollectiveKind::all_gather ? elements * ranks : elements;
    std::vector<Bytes> all;
    for (int rank = 0; rank < ranks; ++rank)
      all.push_back(valuesOf(rank, type, sourceElements));
    expected.resize(static_cast<size_t>(targetElements * each));
    for (int64_t i = 0; i < targetElements; ++i) {
      if (call.reduces()) {
        reduceElement(call, all, kind == CollectiveKind::reduce_scatter ? me * elements + i : i, expected.data(), i);
        continue;
      }
      const Bytes &from = all[static_cast<size_t>(kind == CollectiveKind::all_gather ? i / elements : call.root)];
      memcpy(expected.data() + i * each, from.data() + i % std::max<int64_t>(elements, 1) * each,
             static_cast<size_t>(each));
    }
    const Bytes &mine = all[static_cast<size_t>(me)];
    source.resize(static_cast<size_t>((std::max(sourceElements, targetElements) + 1) * each));
    int64_t at = each;
    if (isInPlace && kind == CollectiveKind::all_gather)
      at += me * elements * each;
    std::copy(mine.begin(), mine.end(), source.begin() + at);
    call.source = source.data() + at;
    target.assign(static_cast<size_t>((targetElements + 1) * each), 0x55);
    call.target = target.data() + each;
    if (isInPlace)
      call.target = source.data() + each + (kind == CollectiveKind::reduce_scatter ? me * elements * each : 0);
  }

  /// NaNs need not have the same bits.
  void check(const Communicator &communicator) const {
    int64_t each = elementBytes(call.dtype), count = static_cast<int64_t>(expected.size()) / each;
    for (int64_t i = 0; i < count; ++i) {
      if (!memcmp(call.target + i * each, expected.data() + i * each, static_cast<size_t>(each)))
        continue;
      double found = loadElement(call.dtype, call.target, i), right = loadElement(call.dtype, expected.data(), i);
      if (std::isnan(found) && std::isnan(right))
        continue;
      ADD_FAILURE() << communicator.name() << " rank " << communicator.rank() << " of " << communicator.size() << ": "
                    << EnumNameCollectiveKind(call.kind) << " of " << call.elements << " " << dtypeName(call.dtype)
                    << " over " << dtypeName(call.wire) << (isInPlace ? " in place" : "") << ": element " << i << " is "
                    << found << ", expected " << right;
      return;
    }
  }
};

std::string failureOf(const Status &status) { return status.failed() ? status.message() : ""; }

void conform(Communicator &communicator) {
  // Ranks on the same cores take turns; that many do so at all lengths shows nothing more.
  bool isSlow = (&communicator == launched && communicator.size() > 1) || communicator.size() > 3;
  std::vector<int64_t> lengths = {0, 1, 3, 65, 1000};
  if (!isSlow)
    lengths.insert(lengths.end(), {2, 7, 63, 64, 4099});
  auto each = [&](const std::function<void(Exchange)> &visit) {
    for (CollectiveKind kind : kinds)
      for (DType type : types)
        for (DType wire : types)
          for (int64_t length : lengths)
            for (bool isInPlace : {false, true}) {
              CollectiveCall call;
              call.kind = kind;
              bool narrows = call.isSum() && type == DType::f32 && (wire == DType::bf16 || wire == DType::f16);
              if ((wire == type && (!call.isSum() || type != DType::i1)) || narrows)
                visit(Exchange(communicator, kind, type, wire, length, isInPlace));
            }
  };
  // One after the other, at first with the smallest buffers, and so in many rounds.
  for (int64_t reserved : isSlow ? std::vector<int64_t>{0} : std::vector<int64_t>{0, 700, 100000}) {
    CollectiveCall call;
    call.elements = reserved;
    EXPECT_EQ(failureOf(communicator.reserve({&call, 1})), "");
    each([&](Exchange exchange) {
      Communicator::Handle handle;
      EXPECT_EQ(failureOf(communicator.start(exchange.call, handle)), "");
      EXPECT_EQ(failureOf(communicator.wait(handle)), "");
      exchange.check(communicator);
    });
  }
  // Now with buffers that nothing fills, some of which are for what is rounded to be sent.
  CollectiveCall largest;
  largest.elements = 100000;
  largest.wire = DType::bf16;
  EXPECT_EQ(failureOf(communicator.reserve({&largest, 1})), "");
  // Seven at a time, waited for from the last to the first or in two halves, with the runtime's own in between.
  std::vector<Exchange> flying;
  std::vector<Communicator::Handle> handles;
  int batch = 0;
  each([&](Exchange exchange) {
    flying.push_back(std::move(exchange));
    Communicator::Handle handle;
    EXPECT_EQ(failureOf(communicator.start(flying.back().call, handle)), "");
    handles.push_back(handle);
    EXPECT_EQ(failureOf(communicator.progress()), "");
    if (flying.size() < 7)
      return;
    int64_t rank = communicator.rank();
    EXPECT_EQ(failureOf(communicator.agree(rank)), "");
    EXPECT_EQ(rank, communicator.size() - 1);
    for (size_t i = 0; i < handles.size(); ++i) {
      size_t at = batch % 2 ? handles.size() - 1 - i : (i * 3) % handles.size();
      EXPECT_EQ(failureOf(communicator.wait(handles[at])), "");
      flying[at].check(communicator);
    }
    ++batch;
    flying.clear();
    handles.clear();
  });
  EXPECT_EQ(failureOf(communicator.waitAll()), "");
  EXPECT_GT(batch, 5);
}

/// Each rank sends 2 (N - 1) / N of an all_reduce, and half of that of its halves, whatever the rounds.
void countTraffic(Communicator &communicator) {
  int64_t ranks = communicator.size(), elements = 3000 * ranks;
  for (CollectiveKind kind : kinds) {
    Exchange exchange(communicator, kind, DType::f32, DType::f32, hasParts(kind) ? 3000 : elements, false);
    Traffic before = communicator.traffic();
    Communicator::Handle handle;
    EXPECT_EQ(failureOf(communicator.start(exchange.call, handle)), "");
    EXPECT_EQ(failureOf(communicator.wait(handle)), "");
    int64_t sent = communicator.traffic().elements - before.elements, share = (ranks - 1) * elements / ranks;
    if (kind == CollectiveKind::broadcast)
      EXPECT_EQ(sent, communicator.rank() == exchange.call.root ? 2 * share
                      : ranks > 1                               ? (ranks - 2) * elements / ranks
                                                                : 0);
    else
      EXPECT_EQ(sent, hasParts(kind) ? share : 2 * share);
    EXPECT_EQ(communicator.traffic().bytes - before.bytes, sent * 4);
  }
  int64_t value = 0;
  int64_t counted = communicator.traffic().elements;
  EXPECT_EQ(failureOf(communicator.agree(value)), "");
  EXPECT_EQ(communicator.traffic().elements, counted);
}

void onThreads(int ranks, const std::function<void(Communicator &)> &body) {
  ThreadWorld world(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      std::unique_ptr<Communicator> communicator = world.communicator(rank);
      body(*communicator);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace

TEST(Communicators, SelfConforms) {
  std::unique_ptr<Communicator> alone = makeSelfCommunicator();
  conform(*alone);
  countTraffic(*alone);
}

TEST(Communicators, ThreadsConform) {
  for (int ranks : {1, 2, 3, 4, 8})
    onThreads(ranks, conform);
}

TEST(Communicators, SendWhatIsPlanned) {
  for (int ranks : {1, 2, 3, 4, 8})
    onThreads(ranks, countTraffic);
}

// Under mpirun, by test/Runtime/mpi-*.test.
TEST(Processes, Conform) {
  ASSERT_GT(launched->size(), 1);
  EXPECT_STREQ(launched->name(), getenv("MASTER_ADDR") ? "sockets" : "mpi");
  conform(*launched);
  countTraffic(*launched);
}

TEST(Communicators, RankThatDoesNotComeIsNamed) {
  onThreads(3, [](Communicator &communicator) {
    if (communicator.rank() == 1)
      return;
    communicator.setTimeout(2);
    int64_t value = 0;
    std::string message = failureOf(communicator.agree(value));
    EXPECT_EQ(message, "rank 1 did not come to all_reduce_max 'what ranks agree on' within 2 seconds; see whether it "
                       "is alive, or give a longer --comm-timeout");
    EXPECT_EQ(failureOf(communicator.agree(value)), message);
  });
}

TEST(Communicators, AbortReachesThoseWhoWait) {
  onThreads(2, [](Communicator &communicator) {
    if (communicator.rank() == 1)
      return communicator.abort("rank 1: the disk is full");
    int64_t value = 0;
    EXPECT_EQ(failureOf(communicator.agree(value)), "rank 1: the disk is full");
  });
}

TEST(Communicators, DifferentLengthsAreFound) {
  std::atomic<int> failures = 0;
  onThreads(2, [&](Communicator &communicator) {
    char mine[16] = {}, all[32];
    communicator.setTimeout(10);
    std::string message = failureOf(communicator.gather(mine, all, communicator.rank() ? 16 : 8));
    if (message.find("sends") != std::string::npos)
      ++failures;
    if (communicator.rank() == 0 && !message.empty())
      EXPECT_EQ(message, "rank 1 sends 16 bytes where rank 0 expects 8");
  });
  EXPECT_GE(failures, 1);
}
