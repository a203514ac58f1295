// Threads of an emulated device, and what they call.
#include "scrimp/runtime/Emulated.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace scrimp::runtime {

namespace {
/// The thread that this one plays, and what it may touch.
struct Playing {
  uint32_t thread = 0, block = 0, threads = 1, blocks = 1;
  const EmulatedLaunch *launch = nullptr; // none: nothing is checked
  std::string *problem = nullptr;
  size_t last = 0;                 // the buffer of the access before
  alignas(64) char elsewhere[64]; // for accesses that go nowhere
};
} // namespace

static thread_local Playing playing;

enum class Order { forward, reverse, shuffled };

static Order chosenOrder() {
  const char *text = getenv("SCRIMP_EMULATED_ORDER");
  return !text || !*text ? Order::forward : *text == 'r' ? Order::reverse : *text == 's' ? Order::shuffled : Order::forward;
}

std::string runEmulatedBlocks(const EmulatedLaunch &launch, uint32_t first, uint32_t end) {
  static const Order order = chosenOrder();
  std::string problem;
  std::vector<uint32_t> threads(launch.block);
  std::iota(threads.begin(), threads.end(), 0);
  if (order == Order::reverse)
    std::reverse(threads.begin(), threads.end());
  playing.launch = &launch;
  playing.problem = &problem;
  playing.threads = launch.block;
  playing.blocks = launch.grid;
  for (uint32_t block = first; block < end; ++block) {
    playing.block = block;
    if (order == Order::shuffled)
      std::shuffle(threads.begin(), threads.end(), std::minstd_rand(block + 1));
    for (uint32_t thread : threads) {
      playing.thread = thread;
      launch.kernel(launch.buffers.data(), 0, launch.units);
    }
  }
  playing = {};
  return problem;
}

/// What is wrong with an access that lies in no buffer: told by the nearest one.
static std::string describe(const char *address, uint64_t bytes, bool isStore) {
  const EmulatedLaunch &launch = *playing.launch;
  size_t nearest = 0;
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const char *begin = launch.buffers[i], *end = begin + launch.bytes[i];
    uint64_t distance = address < begin ? static_cast<uint64_t>(begin - address)
                        : address < end ? 0
                                        : static_cast<uint64_t>(address - end);
    if (distance < least)
      least = distance, nearest = i;
  }
  std::string text = "thread " + std::to_string(playing.thread) + " of block " + std::to_string(playing.block) +
                     (isStore ? " writes " : " reads ") + std::to_string(bytes) + " bytes ";
  if (launch.buffers.empty())
    return text + "without a buffer";
  long long at = address - launch.buffers[nearest];
  return text + "at byte " + std::to_string(at) + " of buffer " + std::to_string(nearest) + ", which has " +
         std::to_string(launch.bytes[nearest]);
}

} // namespace scrimp::runtime

using scrimp::runtime::playing;

extern "C" {

/// Where an access of `bytes` aligned to `align` goes.
char *scrimp_emulated_access(char *address, int64_t bytes, int32_t align, int32_t isStore) {
  if (!playing.launch)
    return address;
  const auto &buffers = playing.launch->buffers;
  auto holds = [&](size_t i) {
    return address >= buffers[i] && address + bytes <= buffers[i] + playing.launch->bytes[i];
  };
  bool isAligned = reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(align) == 0;
  bool isInside = playing.last < buffers.size() && holds(playing.last);
  for (size_t i = 0; !isInside && i < buffers.size(); ++i)
    if (holds(i)) {
      playing.last = i;
      isInside = true;
    }
  if (isInside && isAligned)
    return address;
  if (playing.problem->empty())
    *playing.problem = scrimp::runtime::describe(address, static_cast<uint64_t>(bytes), isStore) +
                       (isInside ? ", not aligned to " + std::to_string(align) : "");
  memset(playing.elsewhere, 0, sizeof(playing.elsewhere));
  return playing.elsewhere;
}

int32_t scrimp_emulated_read_ptx_sreg_tid_x() { return static_cast<int32_t>(playing.thread); }
int32_t scrimp_emulated_read_ptx_sreg_ctaid_x() { return static_cast<int32_t>(playing.block); }
int32_t scrimp_emulated_read_ptx_sreg_ntid_x() { return static_cast<int32_t>(playing.threads); }
int32_t scrimp_emulated_read_ptx_sreg_nctaid_x() { return static_cast<int32_t>(playing.blocks); }

} // extern "C"

std::span<const scrimp::runtime::EmulatedFunction> scrimp::runtime::emulatedFunctions() {
#define SCRIMP_EMULATED(name) {#name, reinterpret_cast<void *>(name)}
  static const EmulatedFunction functions[] = {
      SCRIMP_EMULATED(scrimp_emulated_access), SCRIMP_EMULATED(scrimp_emulated_read_ptx_sreg_tid_x),
      SCRIMP_EMULATED(scrimp_emulated_read_ptx_sreg_ctaid_x), SCRIMP_EMULATED(scrimp_emulated_read_ptx_sreg_ntid_x),
      SCRIMP_EMULATED(scrimp_emulated_read_ptx_sreg_nctaid_x)};
#undef SCRIMP_EMULATED
  return functions;
}
