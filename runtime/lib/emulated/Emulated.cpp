// A block of an emulated device: its threads are fibers that run until they meet, and what they call.
#include "scrimp/runtime/Emulated.h"
#include "Fiber.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace scrimp::runtime {

namespace {

constexpr uint32_t warpSize = 32;
constexpr size_t mostShared = 99 << 10; // of every CUDA device

enum class Meeting : uint8_t { none, barrier, shuffle };

/// A thread of the block, and what it waits for.
struct Thread {
  Fiber fiber;
  bool isDone = false;
  Meeting waits = Meeting::none;
  uint32_t mask = 0, value = 0, distance = 0; // of a shuffle; the value becomes the other lane's
};

enum class Order { forward, reverse, shuffled };

Order chosenOrder() {
  const char *text = getenv("SCRIMP_EMULATED_ORDER");
  return !text || !*text ? Order::forward
         : *text == 'r'  ? Order::reverse
         : *text == 's'  ? Order::shuffled
                         : Order::forward;
}

/// The block that this thread of the host plays.
class Block {
public:
  std::string run(const EmulatedLaunch &launch, uint32_t first, uint32_t end);

  uint32_t thread = 0, block = 0;         // that is running
  const EmulatedLaunch *launch = nullptr; // none: nothing is checked
  void meet(Meeting meeting) {
    Thread &self = threads[thread];
    self.waits = meeting;
    self.fiber.leave();
  }
  Thread &running() { return threads[thread]; }
  char *access(char *address, int64_t bytes, int32_t align, bool isStore);
  char *share(int64_t offset) { return shared.data() + offset; }

private:
  void runBlock();
  /// Lets those go on that have all come where they meet. Whether there are any.
  bool release();
  bool exchange(uint32_t firstLane);
  std::string describe(const char *address, int64_t bytes, bool isStore) const;
  void fail(std::string text) {
    if (problem.empty())
      problem = std::move(text);
  }
  std::string nameOf(uint32_t number) const {
    return "thread " + std::to_string(number) + " of block " + std::to_string(block);
  }
  static void body();

  std::vector<Thread> threads;
  std::vector<uint32_t> order;
  std::vector<char> shared;
  std::string problem;
  size_t last = 0;                // the buffer of the access before
  alignas(64) char elsewhere[64]; // for accesses that go nowhere
};

} // namespace

static thread_local Block playing;

void Block::body() {
  const EmulatedLaunch &launch = *playing.launch;
  launch.kernel(launch.buffers.data(), 0, launch.units);
  playing.running().isDone = true;
  playing.running().fiber.leave();
  abort(); // nobody enters a thread that is done
}

std::string Block::run(const EmulatedLaunch &newLaunch, uint32_t first, uint32_t end) {
  static const Order chosen = chosenOrder();
  launch = &newLaunch;
  problem.clear();
  if (threads.size() < launch->block)
    threads = std::vector<Thread>(launch->block);
  shared.resize(mostShared);
  order.resize(launch->block);
  std::iota(order.begin(), order.end(), 0);
  if (chosen == Order::reverse)
    std::reverse(order.begin(), order.end());
  for (block = first; block < end && problem.empty(); ++block) {
    if (chosen == Order::shuffled)
      std::shuffle(order.begin(), order.end(), std::minstd_rand(block + 1));
    // What nobody has written is no number.
    memset(shared.data(), 0xff, shared.size());
    runBlock();
  }
  launch = nullptr;
  thread = block = 0;
  return problem;
}

void Block::runBlock() {
  for (uint32_t number : order) {
    threads[number].isDone = false;
    threads[number].waits = Meeting::none;
    threads[number].fiber.start(body);
  }
  for (;;) {
    bool isDone = true;
    for (uint32_t number : order) {
      Thread &next = threads[number];
      if (next.isDone || next.waits != Meeting::none)
        continue;
      thread = number;
      next.fiber.enter();
    }
    for (uint32_t number : order)
      isDone &= threads[number].isDone;
    if (isDone || !release())
      return;
  }
}

bool Block::release() {
  // Shuffles first: lanes that meet at one may be on their way to a barrier.
  bool goesOn = false;
  for (uint32_t lane = 0; lane < launch->block; lane += warpSize)
    goesOn |= exchange(lane);
  if (goesOn)
    return true;
  uint32_t missing = launch->block, waiting = launch->block;
  for (uint32_t number = 0; number < launch->block; ++number)
    (threads[number].waits == Meeting::barrier ? waiting : missing) = number;
  if (missing == launch->block) {
    for (uint32_t number = 0; number < launch->block; ++number)
      threads[number].waits = Meeting::none;
    return true;
  }
  if (waiting < launch->block)
    fail(nameOf(waiting) + " waits at a barrier that " + nameOf(missing) + " does not come to");
  else
    for (uint32_t number = 0; number < launch->block; ++number)
      if (threads[number].waits == Meeting::shuffle)
        fail(nameOf(number) + " waits at a shuffle for a lane of its mask that does not come to it");
  return false;
}

/// The shuffles of a warp, where all lanes of a mask have come to one; its barriers are shuffles of distance 0.
bool Block::exchange(uint32_t firstLane) {
  uint32_t lanes = std::min(warpSize, launch->block - firstLane);
  bool goesOn = false;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    uint32_t mask = threads[firstLane + lane].mask;
    if (threads[firstLane + lane].waits != Meeting::shuffle)
      continue;
    bool isComplete = mask >> lane & 1, isBarrier = threads[firstLane + lane].distance == 0;
    for (uint32_t other = 0; other < warpSize; ++other)
      if (mask >> other & 1)
        isComplete &= other < lanes && threads[firstLane + other].waits == Meeting::shuffle &&
                      threads[firstLane + other].mask == mask && !threads[firstLane + other].distance == isBarrier;
    if (!isComplete)
      continue;
    uint32_t values[warpSize];
    for (uint32_t other = 0; other < lanes; ++other)
      values[other] = threads[firstLane + other].value;
    for (uint32_t other = 0; other < lanes; ++other) {
      Thread &each = threads[firstLane + other];
      if (!(mask >> other & 1))
        continue;
      uint32_t from = other ^ each.distance;
      if (from >= lanes || !(mask >> from & 1))
        fail(nameOf(firstLane + other) + " asks a shuffle for lane " + std::to_string(from) +
             ", which is not in its mask");
      each.value = from < lanes ? values[from] : 0;
      each.waits = Meeting::none;
    }
    goesOn = true;
  }
  return goesOn && problem.empty();
}

/// What is wrong with an access that lies in no buffer: told by the nearest one.
std::string Block::describe(const char *address, int64_t bytes, bool isStore) const {
  size_t nearest = 0;
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < launch->buffers.size(); ++i) {
    const char *begin = launch->buffers[i], *end = begin + launch->bytes[i];
    uint64_t distance = address < begin ? static_cast<uint64_t>(begin - address)
                        : address < end ? 0
                                        : static_cast<uint64_t>(address - end);
    if (distance < least)
      least = distance, nearest = i;
  }
  std::string text = nameOf(thread) + (isStore ? " writes " : " reads ") + std::to_string(bytes) + " bytes ";
  if (launch->buffers.empty())
    return text + "without a buffer";
  long long at = address - launch->buffers[nearest];
  return text + "at byte " + std::to_string(at) + " of buffer " + std::to_string(nearest) + ", which has " +
         std::to_string(launch->bytes[nearest]);
}

char *Block::access(char *address, int64_t bytes, int32_t align, bool isStore) {
  if (!launch)
    return address;
  auto holds = [&](const char *begin, uint64_t length) {
    return address >= begin && address + bytes <= begin + length;
  };
  bool isAligned = reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(align) == 0;
  bool isInside = (last < launch->buffers.size() && holds(launch->buffers[last], launch->bytes[last])) ||
                  holds(shared.data(), shared.size());
  for (size_t i = 0; !isInside && i < launch->buffers.size(); ++i)
    if (holds(launch->buffers[i], launch->bytes[i])) {
      last = i;
      isInside = true;
    }
  if (isInside && isAligned)
    return address;
  fail(describe(address, bytes, isStore) + (isInside ? ", not aligned to " + std::to_string(align) : ""));
  memset(elsewhere, 0, sizeof(elsewhere));
  return elsewhere;
}

std::string runEmulatedBlocks(const EmulatedLaunch &launch, uint32_t first, uint32_t end) {
  return playing.run(launch, first, end);
}

} // namespace scrimp::runtime

using scrimp::runtime::playing;

extern "C" {

/// Where an access of `bytes` aligned to `align` goes.
char *scrimp_emulated_access(char *address, int64_t bytes, int32_t align, int32_t isStore) {
  return playing.access(address, bytes, align, isStore);
}

/// Bytes that the threads of a block share.
char *scrimp_emulated_shared(int64_t offset) { return playing.share(offset); }

void scrimp_emulated_barrier() { playing.meet(scrimp::runtime::Meeting::barrier); }

/// The value of the lane whose number differs by `distance`; all lanes in `mask` must come here.
uint32_t scrimp_emulated_shuffle(uint32_t mask, uint32_t value, uint32_t distance) {
  scrimp::runtime::Thread &self = playing.running();
  self.mask = mask;
  self.value = value;
  self.distance = distance;
  playing.meet(scrimp::runtime::Meeting::shuffle);
  return playing.running().value;
}

/// The lanes of a warp in `mask` wait for each other.
void scrimp_emulated_bar_warp_sync(uint32_t mask) { scrimp_emulated_shuffle(mask, 0, 0); }

int32_t scrimp_emulated_read_ptx_sreg_tid_x() { return static_cast<int32_t>(playing.thread); }
int32_t scrimp_emulated_read_ptx_sreg_ctaid_x() { return static_cast<int32_t>(playing.block); }
int32_t scrimp_emulated_read_ptx_sreg_ntid_x() {
  return playing.launch ? static_cast<int32_t>(playing.launch->block) : 1;
}
int32_t scrimp_emulated_read_ptx_sreg_nctaid_x() {
  return playing.launch ? static_cast<int32_t>(playing.launch->grid) : 1;
}

} // extern "C"

std::span<const scrimp::runtime::EmulatedFunction> scrimp::runtime::emulatedFunctions() {
#define SCRIMP_EMULATED(name)                                                                                          \
  { #name, reinterpret_cast < void *>(name) }
  static const EmulatedFunction functions[] = {SCRIMP_EMULATED(scrimp_emulated_access),
                                               SCRIMP_EMULATED(scrimp_emulated_shared),
                                               SCRIMP_EMULATED(scrimp_emulated_barrier),
                                               SCRIMP_EMULATED(scrimp_emulated_shuffle),
                                               SCRIMP_EMULATED(scrimp_emulated_bar_warp_sync),
                                               SCRIMP_EMULATED(scrimp_emulated_read_ptx_sreg_tid_x),
                                               SCRIMP_EMULATED(scrimp_emulated_read_ptx_sreg_ctaid_x),
                                               SCRIMP_EMULATED(scrimp_emulated_read_ptx_sreg_ntid_x),
                                               SCRIMP_EMULATED(scrimp_emulated_read_ptx_sreg_nctaid_x)};
#undef SCRIMP_EMULATED
  return functions;
}
