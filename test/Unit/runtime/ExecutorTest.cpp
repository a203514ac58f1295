// Repeats and conditionals: which bytes the commands inside see in each iteration.
#include "scrimp/runtime/Executor.h"
#include "TestProgram.h"
#include <cmath>
#include <thread>

using namespace scrimp::runtime;
using namespace scrimp::program;

namespace {
// input, index, outer index, output: output[0] += input[0] * (1 + index) * 10^(outer index)
void addKernel(char *const *buffers, int64_t, int64_t) {
  auto number = [&](int i) -> int64_t & { return *reinterpret_cast<int64_t *>(buffers[i]); };
  number(3) += number(0) * (1 + number(1)) * (number(2) ? 10 : 1);
}

std::unique_ptr<CommandT> launch(std::vector<RangeT> buffers) {
  LaunchT body;
  body.buffers = makeRanges(buffers);
  body.units = body.grain = 1;
  auto command = std::make_unique<CommandT>();
  command->body.Set(std::move(body));
  return command;
}

std::unique_ptr<CommandT> repeat(int64_t count, uint64_t index, std::vector<std::unique_ptr<CommandT>> commands) {
  RepeatT body;
  body.count = count;
  body.index = std::make_unique<RangeT>(makeRange(index, 8));
  body.commands = std::move(commands);
  auto command = std::make_unique<CommandT>();
  command->body.Set(std::move(body));
  return command;
}

template <typename Body> std::unique_ptr<CommandT> commandOf(Body body) {
  auto command = std::make_unique<CommandT>();
  command->body.Set(std::move(body));
  return command;
}

std::unique_ptr<CommandT> collective(CollectiveKind kind, uint32_t event, RangeT source, RangeT target) {
  CollectiveT body;
  body.kind = kind;
  body.dtype = body.wire = DType::i64;
  body.event = event;
  body.source = std::make_unique<RangeT>(std::move(source));
  body.target = std::make_unique<RangeT>(std::move(target));
  return commandOf(std::move(body));
}

std::unique_ptr<CommandT> waitFor(uint32_t event) {
  WaitT body;
  body.event = event;
  return commandOf(body);
}

/// Sample i of the batch is 100 + i.
struct Source : BatchSource {
  void read(const Input *, int64_t first, int64_t count, char *target) override {
    for (int64_t i = first; i < first + count; ++i, target += 8) {
      int64_t value = 100 + i;
      memcpy(target, &value, 8);
    }
  }
};

/// An arena of eight numbers and graphs of repeated additions. Numbers 0 to 3 are the input, 4 and 5 the iterations.
struct ExecutorTest : testing::Test {
  /// Runs the commands as a graph, twice: the second run must find what the first found.
  void run(std::vector<std::unique_ptr<CommandT>> commands) {
    std::unique_ptr<Communicator> alone = makeSelfCommunicator();
    runOn(*alone, arena, commands);
  }

  static void runOn(Communicator &communicator, int64_t *arena, const std::vector<std::unique_ptr<CommandT>> &commands,
                    size_t arenaBytes = sizeof(ExecutorTest::arena)) {
    ProgramT table;
    table.world = static_cast<uint32_t>(communicator.size());
    auto input = std::make_unique<InputT>();
    input->name = "numbers";
    input->dtype = DType::i64;
    input->shape = {6};
    input->streamed = true;
    table.inputs.push_back(std::move(input));
    table.program_version = programVersion;
    table.arena_bytes = arenaBytes;
    table.alignment = 64;
    table.batch = 6;
    table.workers = 1;
    auto kernel = std::make_unique<KernelT>();
    kernel->symbol = "add";
    kernel->buffers = 4;
    table.kernels.push_back(std::move(kernel));
    auto graph = std::make_unique<GraphT>();
    graph->name = "train";
    for (const std::unique_ptr<CommandT> &command : commands)
      graph->commands.push_back(std::make_unique<CommandT>(*command));
    auto loss = std::make_unique<OutputT>();
    loss->name = "loss";
    graph->outputs.push_back(std::move(loss));
    table.graphs.push_back(std::move(graph));
    flatbuffers::FlatBufferBuilder builder;
    FinishProgramBuffer(builder, Program::Pack(builder, &table));
    scrimp_kernel kernels[] = {addKernel};
    auto program = verifyProgram({builder.GetBufferPointer(), builder.GetSize(), kernels, 1, "", {}});
    ASSERT_FALSE(program.failed()) << program.status().message();
    ThreadPool pool(1);
    Source source;
    std::unique_ptr<Device> device = makeCpuDevice(pool);
    Executor executor(*program, (*program)->graphs()->Get(0), kernels, reinterpret_cast<char *>(arena), *device,
                      communicator, &source);
    EXPECT_FALSE(executor.run().failed());
    EXPECT_FALSE(executor.run().failed());
  }

  alignas(64) int64_t arena[8] = {1, 2, 3, 4, -1, -1, 0, 0};
};
} // namespace

// Number i is added 1 + i times, by each of two runs.
TEST_F(ExecutorTest, PiecesMoveAndComeBack) {
  std::vector<std::unique_ptr<CommandT>> inner, commands;
  inner.push_back(launch({makeRange(0, 8, {8}), makeRange(32, 8), makeRange(56, 8), makeRange(48, 8)}));
  commands.push_back(repeat(4, 32, std::move(inner)));
  run(std::move(commands));
  EXPECT_EQ(arena[6], 2 * (1 * 1 + 2 * 2 + 3 * 3 + 4 * 4));
  EXPECT_EQ(arena[4], 3);
}

// Pieces of pieces: 1 * 1 + 2 * 2, then ten times 3 * 1 + 4 * 2. Outputs move with the outer repeat, backwards.
TEST_F(ExecutorTest, RepeatsInsideRepeats) {
  std::vector<std::unique_ptr<CommandT>> innermost, inner, commands;
  innermost.push_back(
      launch({makeRange(0, 8, {16, 8}), makeRange(32, 8), makeRange(40, 8), makeRange(56, 8, {-8, 0})}));
  inner.push_back(repeat(2, 32, std::move(innermost)));
  commands.push_back(repeat(2, 40, std::move(inner)));
  run(std::move(commands));
  EXPECT_EQ(arena[7], 2 * 5);
  EXPECT_EQ(arena[6], 2 * 110);
}

TEST_F(ExecutorTest, AConditionDecides) {
  for (bool holds : {false, true}) {
    arena[5] = holds;
    arena[4] = arena[6] = 0;
    ConditionalT body;
    body.condition = std::make_unique<RangeT>(makeRange(40, 1));
    body.commands.push_back(launch({makeRange(8, 8), makeRange(32, 8), makeRange(56, 8), makeRange(48, 8)}));
    std::vector<std::unique_ptr<CommandT>> commands;
    commands.push_back(std::make_unique<CommandT>());
    commands.back()->body.Set(std::move(body));
    // What comes after runs either way.
    commands.push_back(launch({makeRange(0, 8), makeRange(32, 8), makeRange(56, 8), makeRange(48, 8)}));
    run(std::move(commands));
    EXPECT_EQ(arena[6], holds ? 2 * 3 : 2 * 1);
  }
}

// A loop of two iterations on two ranks, numbers 100 rank + i. Each iteration adds up one of numbers 2 and 3 over the
// ranks into 4 and 5; while that is under way each rank writes its part of numbers 6 and 7, which is then gathered.
TEST_F(ExecutorTest, RanksExchangeWhileTheyCompute) {
  ThreadWorld world(2);
  auto body = [&](int rank) {
    alignas(64) int64_t mine[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 0};
    for (int i = 0; i < 4; ++i)
      mine[i] = 100 * rank + i;
    RangeT part = makeRange(6 * 8, 8);
    part.rank_stride = 8;
    std::vector<std::unique_ptr<CommandT>> inner, commands;
    inner.push_back(collective(CollectiveKind::all_reduce_sum, 7, makeRange(2 * 8, 8, {8}), makeRange(4 * 8, 8, {8})));
    // part += 1 * (1 + iteration), in each of two runs.
    inner.push_back(launch({makeRange(8 * 8, 8), makeRange(9 * 8, 8), makeRange(10 * 8, 8), part}));
    inner.push_back(waitFor(7));
    commands.push_back(repeat(2, 9 * 8, std::move(inner)));
    commands.push_back(collective(CollectiveKind::all_gather, 7, part, makeRange(6 * 8, 16)));
    commands.push_back(waitFor(7));
    std::unique_ptr<Communicator> communicator = world.communicator(rank);
    runOn(*communicator, mine, commands, sizeof(mine));
    EXPECT_EQ(mine[4], 2 + 102);
    EXPECT_EQ(mine[5], 3 + 103);
    EXPECT_EQ(mine[6], 2 * 3);
    EXPECT_EQ(mine[7], 2 * 3);
    EXPECT_EQ(mine[2], 100 * rank + 2);
    // Of an all_reduce of one element, rank 0 gets rank 1's and sends the sum; a gather sends one.
    EXPECT_EQ(communicator->traffic().elements, 2 * (2 + 1));
  };
  std::thread other(body, 1);
  body(0);
  other.join();
}

// A check that only one rank fails ends the list on both, with what was under way.
TEST_F(ExecutorTest, WhatOneRankChecksStopsAll) {
  ThreadWorld world(2);
  auto body = [&](int rank) {
    std::unique_ptr<Communicator> communicator = world.communicator(rank);
    ThreadPool pool(1);
    ProgramT table;
    table.world = 2;
    table.program_version = programVersion;
    table.arena_bytes = table.alignment = 64;
    table.batch = table.workers = 1;
    auto graph = std::make_unique<GraphT>();
    graph->name = "train";
    graph->outputs.push_back(std::make_unique<OutputT>());
    graph->outputs[0]->name = "loss";
    graph->commands.push_back(collective(CollectiveKind::all_reduce_sum, 0, makeRange(0, 8), makeRange(8, 8)));
    CheckFiniteT check;
    check.dtype = DType::f64;
    check.offset = 16;
    graph->commands.push_back(commandOf(check));
    graph->commands.push_back(waitFor(0));
    CopyT copy;
    copy.source = std::make_unique<RangeT>(makeRange(0, 8));
    copy.target = std::make_unique<RangeT>(makeRange(24, 8));
    graph->commands.push_back(commandOf(std::move(copy)));
    table.graphs.push_back(std::move(graph));
    flatbuffers::FlatBufferBuilder builder;
    FinishProgramBuffer(builder, Program::Pack(builder, &table));
    auto program = verifyProgram({builder.GetBufferPointer(), builder.GetSize(), nullptr, 0, "", {}, nullptr});
    ASSERT_FALSE(program.failed()) << program.status().message();
    alignas(64) int64_t mine[8] = {rank + 1};
    double value = rank ? NAN : 1;
    memcpy(&mine[2], &value, 8);
    std::unique_ptr<Device> device = makeCpuDevice(pool);
    Executor executor(*program, (*program)->graphs()->Get(0), nullptr, reinterpret_cast<char *>(mine), *device,
                      *communicator);
    auto failed = executor.run();
    ASSERT_FALSE(failed.failed()) << failed.status().message();
    EXPECT_NE(*failed, nullptr);
    EXPECT_EQ(mine[1], 3);
    EXPECT_EQ(mine[3], 0);
  };
  std::thread other(body, 1);
  body(0);
  other.join();
}

// Two pieces of two samples, then two of one: 100 + 102 and 104 + 105 are added, by each of two runs.
TEST_F(ExecutorTest, PiecesOfInputsAreRead) {
  // Samples `first` and on, in pieces of `samples`, into number 2 and on; number 2 of each is added to number 6.
  auto fillAndAdd = [](int64_t count, int64_t first, int64_t samples) {
    FillT body;
    body.first = first;
    body.samples = samples;
    body.target = std::make_unique<RangeT>(makeRange(16, static_cast<uint64_t>(8 * samples)));
    std::vector<std::unique_ptr<CommandT>> inner;
    inner.push_back(commandOf(std::move(body)));
    inner.push_back(launch({makeRange(16, 8), makeRange(0, 8), makeRange(56, 8), makeRange(48, 8)}));
    return repeat(count, 32, std::move(inner));
  };
  arena[0] = 0;
  std::vector<std::unique_ptr<CommandT>> commands;
  commands.push_back(fillAndAdd(2, 0, 2));
  commands.push_back(fillAndAdd(2, 4, 1));
  run(std::move(commands));
  EXPECT_EQ(arena[6], 2 * (100 + 102 + 104 + 105));
}
