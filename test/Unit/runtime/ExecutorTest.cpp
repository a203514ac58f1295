// Repeats and conditionals: which bytes the commands inside see in each iteration.
#include "scrimp/runtime/Executor.h"
#include "TestProgram.h"

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

/// An arena of eight numbers and graphs of repeated additions. Numbers 0 to 3 are the input, 4 and 5 the iterations.
struct ExecutorTest : testing::Test {
  /// Runs the commands as a graph, twice: the second run must find what the first found.
  void run(std::vector<std::unique_ptr<CommandT>> commands) {
    ProgramT table;
    table.program_version = programVersion;
    table.arena_bytes = sizeof(arena);
    table.alignment = 64;
    table.batch = table.workers = 1;
    auto kernel = std::make_unique<KernelT>();
    kernel->symbol = "add";
    kernel->buffers = 4;
    table.kernels.push_back(std::move(kernel));
    auto graph = std::make_unique<GraphT>();
    graph->name = "train";
    graph->commands = std::move(commands);
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
    Executor executor(*program, (*program)->graphs()->Get(0), kernels, reinterpret_cast<char *>(arena), pool);
    executor.run();
    executor.run();
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
