// What every device does, and what an emulated one finds in a kernel that goes where it may not. The kernels are
// written as the compiler writes them for an emulated device.
#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/Emulated.h"
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>

using namespace scrimp::runtime;

extern "C" {
char *scrimp_emulated_access(char *address, int64_t bytes, int32_t align, int32_t isStore);
char *scrimp_emulated_shared(int64_t offset);
void scrimp_emulated_barrier();
uint32_t scrimp_emulated_shuffle(uint32_t mask, uint32_t value, uint32_t distance);
int32_t scrimp_emulated_read_ptx_sreg_tid_x();
int32_t scrimp_emulated_read_ptx_sreg_ctaid_x();
int32_t scrimp_emulated_read_ptx_sreg_ntid_x();
int32_t scrimp_emulated_read_ptx_sreg_nctaid_x();
}

namespace {

using Loop = void (*)(char *const *buffers, int64_t unit);

/// Units begin + t, begin + t + n, ... of thread t of n; alone, and so on a CPU, there is one.
template <Loop loop> void kernel(char *const *buffers, int64_t begin, int64_t end) {
  int64_t threads = scrimp_emulated_read_ptx_sreg_ntid_x(), blocks = scrimp_emulated_read_ptx_sreg_nctaid_x();
  int64_t thread = scrimp_emulated_read_ptx_sreg_ctaid_x() * threads + scrimp_emulated_read_ptx_sreg_tid_x();
  for (int64_t unit = begin + thread; unit < end; unit += threads * blocks)
    loop(buffers, unit);
}

float *at(char *buffer, int64_t index, bool isStore) {
  return reinterpret_cast<float *>(scrimp_emulated_access(buffer + 4 * index, 4, 4, isStore));
}

void twice(char *const *buffers, int64_t unit) { *at(buffers[1], unit, true) = 2 * *at(buffers[0], unit, false); }
void shifted(char *const *buffers, int64_t unit) { *at(buffers[1], unit, true) = *at(buffers[0], unit + 1, false); }
void before(char *const *buffers, int64_t unit) { *at(buffers[1], unit - 2, true) = 7; }
void askew(char *const *buffers, int64_t unit) {
  if (unit == 0)
    scrimp_emulated_access(buffers[0] + 4, 8, 8, false);
}
std::atomic<int64_t> last;
void who(char *const *, int64_t unit) { last = unit; }

/// An input and an output in a device's memory.
struct Buffers {
  Buffers(Device &device, size_t count) : device(device), count(count) {
    std::vector<float> input(count);
    for (size_t i = 0; i < count; ++i)
      input[i] = static_cast<float>(i);
    for (char *&pointer : pointers)
      pointer = *device.allocate(lengthOf(), 64);
    EXPECT_FALSE(device.upload(pointers[0], input.data(), static_cast<int64_t>(4 * count)).failed());
  }
  uint64_t lengthOf() const { return (4 * count + 63) / 64 * 64; }
  LaunchCall call(scrimp_kernel kernel, uint32_t grid, uint32_t block) {
    LaunchCall call;
    call.kernel = kernel;
    call.buffers = pointers;
    call.bytes = bytes;
    call.units = static_cast<int64_t>(count);
    call.grid = grid;
    call.block = block;
    call.where = "layer.0";
    return call;
  }
  std::vector<float> output() {
    std::vector<float> values(count);
    EXPECT_FALSE(device.download(values.data(), pointers[1], static_cast<int64_t>(4 * count)).failed());
    return values;
  }
  Device &device;
  size_t count;
  char *pointers[2];
  uint64_t bytes[2] = {4 * count, 4 * count};
};

TEST(Devices, RunWhatTheyAreGivenInOrder) {
  ThreadPool pool(2);
  for (const std::unique_ptr<Device> &device : {makeCpuDevice(pool), makeEmulatedDevice(pool)})
    for (uint32_t grid : {1u, 3u, 64u}) {
      Buffers buffers(*device, 1000);
      ASSERT_FALSE(device->launch(buffers.call(kernel<twice>, grid, 32)).failed()) << device->name();
      ASSERT_FALSE(device->copy(buffers.pointers[0], buffers.pointers[1], 4000).failed());
      ASSERT_FALSE(device->launch(buffers.call(kernel<twice>, grid, 7)).failed()) << device->name();
      ASSERT_FALSE(device->synchronize().failed());
      std::vector<float> output = buffers.output();
      for (size_t i = 0; i < 1000; ++i)
        ASSERT_EQ(output[i], 4.0f * static_cast<float>(i)) << device->name() << " " << grid;
    }
}

TEST(Devices, ReplayWhatTheyHaveRecorded) {
  ThreadPool pool(2);
  std::unique_ptr<Device> device = makeEmulatedDevice(pool);
  ASSERT_TRUE(device->canRecord());
  Buffers buffers(*device, 10);
  float *staged = reinterpret_cast<float *>(*device->allocateHost(40));
  std::fill_n(staged, 10, 1.0f);
  ASSERT_FALSE(device->startRecording().failed());
  ASSERT_FALSE(device->upload(buffers.pointers[0], staged, 40).failed());
  LaunchCall call = buffers.call(kernel<twice>, 2, 3);
  ASSERT_FALSE(device->launch(call).failed());
  char *elsewhere = *device->allocate(64, 64), *output = buffers.pointers[1];
  buffers.pointers[1] = elsewhere; // the record does not see what its maker does with the pointers afterwards
  Result<int> record = device->stopRecording();
  buffers.pointers[1] = output;
  EXPECT_EQ(buffers.output()[3], 0) << "recording runs nothing";
  for (float value : {1.0f, 5.0f}) {
    std::fill_n(staged, 10, value);
    ASSERT_FALSE(device->replay(*record).failed());
    EXPECT_EQ(buffers.output()[3], 2 * value);
  }
}

TEST(EmulatedDevice, NamesTheKernelThatGoesBeyondABuffer) {
  ThreadPool pool(1);
  std::unique_ptr<Device> device = makeEmulatedDevice(pool);
  Buffers buffers(*device, 10);
  Status status = device->launch(buffers.call(kernel<shifted>, 2, 3));
  EXPECT_EQ(status.message(),
            "the kernel of 'layer.0': thread 0 of block 1 reads 4 bytes at byte 40 of buffer 0, which "
            "has 40");
  EXPECT_EQ(buffers.output()[8], 9) << "accesses inside are made";
  EXPECT_EQ(buffers.output()[9], 0) << "others give 0";
  status = device->launch(buffers.call(kernel<before>, 1, 1));
  EXPECT_EQ(status.message(),
            "the kernel of 'layer.0': thread 0 of block 0 writes 4 bytes at byte -8 of buffer 1, which "
            "has 40");
}

TEST(EmulatedDevice, NamesTheKernelWhoseAccessIsNotAligned) {
  ThreadPool pool(1);
  std::unique_ptr<Device> device = makeEmulatedDevice(pool);
  Buffers buffers(*device, 4);
  Status status = device->launch(buffers.call(kernel<askew>, 1, 1));
  EXPECT_EQ(status.message(),
            "the kernel of 'layer.0': thread 0 of block 0 reads 8 bytes at byte 4 of buffer 0, which has 16, "
            "not aligned to 8");
}

TEST(EmulatedDeviceDeathTest, ItsMemoryIsNotTheHosts) {
  ThreadPool pool(1);
  std::unique_ptr<Device> device = makeEmulatedDevice(pool);
  char *memory = *device->allocate(64, 64);
  EXPECT_DEATH(*const_cast<volatile char *>(memory) = 1, "");
}

TEST(EmulatedDevice, ChecksNothingOutsideOfALaunch) {
  float value = 3;
  EXPECT_EQ(at(reinterpret_cast<char *>(&value), 0, false), &value);
  EXPECT_EQ(scrimp_emulated_read_ptx_sreg_nctaid_x(), 1);
}

//===-- Threads that work together -----------------------------------------------------------------------------===//

int32_t &shared(int64_t index) { return reinterpret_cast<int32_t *>(scrimp_emulated_shared(0))[index]; }
int32_t threadIndex() { return scrimp_emulated_read_ptx_sreg_tid_x(); }
constexpr uint32_t allLanes = 0xffffffff;

/// What is wrong with one block of `threads`.
std::string play(scrimp_kernel kernel, uint32_t threads, char *const *buffers = nullptr) {
  uint64_t bytes = 4 * threads;
  size_t count = buffers ? 1 : 0;
  return runEmulatedBlocks({kernel, {buffers, count}, {&bytes, count}, 1, 1, threads}, 0, 1);
}

/// Each thread's element is that of the one across.
template <bool hasBarrier> void reverse(char *const *buffers, int64_t, int64_t) {
  int32_t t = threadIndex(), n = scrimp_emulated_read_ptx_sreg_ntid_x();
  shared(t) = 10 * t;
  if (hasBarrier)
    scrimp_emulated_barrier();
  reinterpret_cast<int32_t *>(buffers[0])[t] = shared(n - 1 - t);
}

TEST(EmulatedBlock, ThreadsMeetAtBarriers) {
  int32_t values[64];
  char *buffers[] = {reinterpret_cast<char *>(values)};
  EXPECT_EQ(play(reverse<true>, 64, buffers), "");
  for (int32_t t = 0; t < 64; ++t)
    EXPECT_EQ(values[t], 10 * (63 - t));
  EXPECT_EQ(play(reverse<false>, 64, buffers), "");
  EXPECT_EQ(values[0], -1) << "nobody had written yet, and what was there is no number";
}

/// The sum over a warp, by a butterfly.
void sumLanes(char *const *buffers, int64_t, int64_t) {
  uint32_t sum = static_cast<uint32_t>(threadIndex());
  for (uint32_t distance = 16; distance; distance /= 2)
    sum += scrimp_emulated_shuffle(allLanes, sum, distance);
  reinterpret_cast<uint32_t *>(buffers[0])[threadIndex()] = sum;
}

TEST(EmulatedBlock, LanesOfAWarpExchange) {
  uint32_t sums[64];
  char *buffers[] = {reinterpret_cast<char *>(sums)};
  EXPECT_EQ(play(sumLanes, 64, buffers), "");
  for (uint32_t t = 0; t < 64; ++t)
    EXPECT_EQ(sums[t], t < 32 ? 496u : 1520u);
}

void divergent(char *const *, int64_t, int64_t) {
  if (threadIndex() != 5)
    scrimp_emulated_barrier();
}
void missingLane(char *const *, int64_t, int64_t) {
  if (threadIndex() != 5)
    scrimp_emulated_shuffle(allLanes, 0, 1);
}
void notInMask(char *const *, int64_t, int64_t) {
  scrimp_emulated_shuffle(threadIndex() < 16 ? 0xffff : 0xffff0000, 0, 16);
}
void notOwnMask(char *const *, int64_t, int64_t) { scrimp_emulated_shuffle(0xfffffffe, 0, 0); }
void barrierAndShuffle(char *const *, int64_t, int64_t) {
  threadIndex() % 2 ? scrimp_emulated_barrier() : static_cast<void>(scrimp_emulated_shuffle(allLanes, 0, 1));
}

TEST(EmulatedBlock, NamesTheThreadThatDoesNotCome) {
  EXPECT_EQ(play(divergent, 32), "thread 31 of block 0 waits at a barrier that thread 5 of block 0 does not come to");
  EXPECT_EQ(play(missingLane, 32),
            "thread 0 of block 0 waits at a shuffle for a lane of its mask that does not come to it");
  EXPECT_EQ(play(notInMask, 32), "thread 0 of block 0 asks a shuffle for lane 16, which is not in its mask");
  EXPECT_NE(play(notOwnMask, 32), "");
  EXPECT_NE(play(barrierAndShuffle, 32), "");
  EXPECT_EQ(play(sumLanes, 16),
            "thread 0 of block 0 waits at a shuffle for a lane of its mask that does not come to it");
  uint32_t sums[64];
  char *buffers[] = {reinterpret_cast<char *>(sums)};
  EXPECT_EQ(play(sumLanes, 32, buffers), "") << "after failures";
}

TEST(EmulatedDevice, EveryThreadOfEveryBlockRuns) {
  EmulatedLaunch launch{kernel<who>, {}, {}, 12, 4, 3};
  EXPECT_EQ(runEmulatedBlocks(launch, 0, 3), "");
  EXPECT_EQ(last, 8); // threads in order: the last of block 2
  EXPECT_EQ(runEmulatedBlocks(launch, 3, 4), "");
  EXPECT_EQ(last, 11);
}

} // namespace
