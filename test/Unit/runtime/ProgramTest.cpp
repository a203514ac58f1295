// verifyProgram: each kind of bad program is refused with its reason, and no bytes crash it.
#include "TestProgram.h"
#include <functional>
#include <random>
#include <unistd.h>

using namespace scrimp::runtime;
using namespace scrimp::program;

static std::string verify(TestProgram &test) {
  auto result = verifyProgram(test.image());
  return result.failed() ? result.status().message() : "";
}

TEST(Program, AcceptsTheTestProgram) {
  TestProgram test;
  EXPECT_EQ(verify(test), "");
}

// The builder leaves the vectors of rank-0 shapes where they fall.
TEST(Program, AcceptsEmptyShapesAnywhere) {
  for (const char *name : {"", "a", "to", "cut", "four", "fifth"}) {
    TestProgram test;
    test.table.tensors[0]->name = name;
    test.table.tensors[0]->shape.clear();
    EXPECT_EQ(verify(test), "");
  }
}

static CallT gemmCall(const TestProgram &test) {
  CallT call;
  call.function = "gemm";
  call.ints = {1, 2, 2, 2, 0, 0, 0, 0, 0, 0};
  call.location = "h.0.mlp";
  for (const char *name : {"w", "w.exp_avg", "grad"})
    call.buffers.push_back(std::make_unique<RangeT>(makeRange(test.offsets.at(name), 16)));
  return call;
}

TEST(Program, RefusesEachKindOfFault) {
  struct Fault {
    std::function<void(TestProgram &)> make;
    std::string message;
  };
  auto train = [](TestProgram &t) -> GraphT & { return *t.table.graphs[0]; };
  auto launch = [=](TestProgram &t) -> LaunchT & { return *train(t).commands[0]->body.AsLaunch(); };
  auto copy = [=](TestProgram &t) -> CopyT & { return *train(t).commands[4]->body.AsCopy(); };
  auto call = [=](TestProgram &t, CallT call) { train(t).commands[0]->body.Set(std::move(call)); };
  // Puts the first command into a repeat.
  auto repeat = [=](TestProgram &t, int64_t count) -> RepeatT & {
    RepeatT body;
    body.count = count;
    body.index = std::make_unique<RangeT>(makeRange(0, 8));
    body.commands.push_back(std::move(train(t).commands[0]));
    train(t).commands[0] = std::make_unique<CommandT>();
    train(t).commands[0]->body.Set(std::move(body));
    return *train(t).commands[0]->body.AsRepeat();
  };
  auto inner = [](RepeatT &body) -> LaunchT & { return *body.commands[0]->body.AsLaunch(); };
  const std::vector<Fault> faults = {
      {[](auto &t) { t.table.program_version = 9; }, "version 9, this runtime reads version 3"},
      {[](auto &t) { t.table.alignment = 48; }, "alignment 48 of an arena of "},
      {[](auto &t) { t.table.arena_bytes += 8; }, "alignment 64 of an arena of "},
      {[](auto &t) { t.table.arena_bytes = UINT64_MAX; }, "arena of 18446744073709551615 bytes"},
      {[](auto &t) { t.table.workers = 0; }, "workspaces for 0 threads"},
      {[](auto &t) { t.table.batch = 0; }, "batch of 0 samples"},
      {[](auto &t) { t.table.kernels.pop_back(); }, "it lists 4 kernels, the executable has 5"},
      {[](auto &t) { t.table.segments[0]->bytes += 64; }, "segment parameters lies outside the arena"},
      {[](auto &t) {
         t.table.segments.push_back(std::make_unique<SegmentT>());
         t.table.segments.back()->kind = SegmentKind::inputs;
         t.table.segments.back()->offset = 64;
         t.table.segments.back()->bytes = 64;
       },
       "segments parameters and inputs overlap"},
      {[](auto &t) { t.table.tensors[0]->offset = t.table.arena_bytes - 8; }, "tensor 'w' lies outside the arena"},
      {[](auto &t) {
         t.table.tensors[0]->shape = {INT64_MAX, INT64_MAX};
       },
       "tensor 'w' lies outside the arena"},
      {[](auto &t) { t.table.tensors[0]->shape = {-1}; }, "tensor 'w' has extent -1"},
      {[](auto &t) { t.table.tensors[0]->offset = 2; }, "tensor 'w' is not aligned"},
      {[](auto &t) { t.table.tensors[0]->dtype = static_cast<DType>(77); }, "tensor 'w' has unknown type 77"},
      {[](auto &t) { t.table.tensors[0]->role = static_cast<TensorRole>(77); }, "tensor 'w' has an unknown role"},
      {[](auto &t) { t.table.tensors[1]->aliases = {"w"}; }, "two tensors are named 'w'"},
      {[](auto &t) { t.table.tensors[0]->init = InitKind::file; }, "the weights of 'w' lie outside the trailer"},
      {[](auto &t) { t.table.inputs[0]->batch_dim = 2; }, "input 'x' has batch dimension 2 of 2"},
      {[](auto &t) { t.table.inputs[1]->shape = {3}; }, "the batch of input 'labels' is 3, expected a multiple of 4"},
      {[](auto &t) { t.table.scalars[0]->name = "lrr"; }, "unknown scalar 'lrr', known are seed, step, "},
      {[](auto &t) { t.table.hyperparameters[0]->name = "rho"; }, "unknown hyperparameter 'rho'"},
      {[](auto &t) { t.table.graphs[0]->name = "other"; }, "there is no graph 'train'"},
      {[](auto &t) { t.table.graphs[0]->outputs.clear(); }, "the graph 'train' has no output 'loss'"},
      {[](auto &t) { t.table.graphs[0]->outputs[0]->offset = t.table.arena_bytes; },
       "output 'loss' lies outside the arena"},
      {[=](auto &t) { launch(t).kernel = 5; }, "launch of kernel 5 of 5"},
      {[=](auto &t) { launch(t).buffers.pop_back(); }, "kernel 'loss' takes 6 buffers, a launch gives it 5"},
      {[=](auto &t) { launch(t).grain = 0; }, "kernel 'loss' is launched for 1 units in steps of 0"},
      {[=](auto &t) { *launch(t).buffers[2] = makeRange(UINT64_MAX, 2); }, "buffer 2 of loss lies outside the arena"},
      {[=](auto &t) { train(t).commands[1]->body.AsCheckFinite()->offset = t.table.arena_bytes; },
       "check of 'loss' lies outside the arena"},
      {[=](auto &t) { train(t).commands[1]->body.AsCheckFinite()->dtype = DType::i64; },
       "the check of 'loss' is of an unknown kind"},
      {[=](auto &t) { *copy(t).target = makeRange(0, 8); }, "a copy between ranges of different length"},
      {[=](auto &t) { copy(t).target.reset(); }, "a copy between ranges of different length"},
      {[=](auto &t) { *copy(t).target = makeRange(copy(t).source->offset + 8, 16); },
       "a copy between ranges that overlap"},
      {[=](auto &t) {
         CallT bad = gemmCall(t);
         bad.function = "gem";
         call(t, bad);
       },
       "unknown library function 'gem', known are gemm, conv2d, "},
      {[=](auto &t) {
         CallT bad = gemmCall(t);
         bad.ints[3] = 1000;
         call(t, bad);
       },
       "gemm: A needs 8000 bytes, found 16 (in h.0.mlp)"},
      {[=](auto &t) {
         CallT bad = gemmCall(t);
         *bad.buffers[0] = makeRange(4, 16);
         call(t, bad);
       },
       "a buffer of gemm is not aligned to 8 bytes"},
      {[=](auto &t) { launch(t).buffers[2]->strides = {16}; }, "buffer 2 of loss has 1 strides inside 0 repeats"},
      {[=](auto &t) { launch(t).buffers[2]->rank_stride = 16; }, "buffer 2 of loss moves with the rank"},
      {[=](auto &t) { launch(t).buffers[2]->space = MemorySpace::host; },
       "buffer 2 of loss moves with the rank or lies"},
      {[=](auto &t) { repeat(t, 0); }, "a repeat of 0 iterations"},
      {[=](auto &t) { repeat(t, 2).index->bytes = 4; }, "the number of an iteration of 4 bytes at "},
      {[=](auto &t) { repeat(t, 2).index.reset(); }, "the number of an iteration has no place"},
      // The last of INT64_MAX pieces, and one before the arena's first byte.
      {[=](auto &t) { inner(repeat(t, INT64_MAX)).buffers[1]->strides = {INT64_MAX}; },
       "buffer 1 of loss lies outside the arena"},
      {[=](auto &t) { inner(repeat(t, 2)).buffers[0]->strides = {INT64_MIN}; },
       "buffer 0 of loss lies outside the arena"},
      {[=](auto &t) {
         for (int level = 0; level < 9; ++level)
           repeat(t, 2);
       },
       "more than 8 repeats inside one another"},
      {[=](auto &t) {
         ConditionalT body;
         body.condition = std::make_unique<RangeT>(makeRange(0, 2));
         train(t).commands[0]->body.Set(std::move(body));
       },
       "a condition of 2 bytes"},
      {[=](auto &t) {
         ConditionalT body;
         body.condition = std::make_unique<RangeT>(makeRange(0, 1));
         body.commands.push_back(std::move(train(t).commands[4]));
         train(t).commands[4] = std::make_unique<CommandT>(*train(t).commands[0]);
         train(t).commands[0]->body.Set(std::move(body));
       },
       "a command of kind 3 depends on a condition"},
      {[=](auto &t) { train(t).commands[0]->body.Set(StartT()); }, "command 0 of graph 'train' has unknown kind 7"},
      {[=](auto &t) { train(t).inputs.push_back(std::make_unique<InputT>(*t.table.inputs[0])); },
       "the graph 'train' has inputs of its own"},
  };
  for (const Fault &fault : faults) {
    TestProgram test;
    fault.make(test);
    std::string message = verify(test), expected = "invalid program: " + fault.message;
    EXPECT_EQ(message.substr(0, expected.size()), expected);
  }
}

// The processor is asked before anything runs, and each instruction set that it lacks is named.
TEST(Program, RunsOnlyOnAProcessorThatHasWhatItNeeds) {
  TestProgram test;
  test.writeData(8);
  test.table.cpu = "future9";
#ifdef __x86_64__
  test.table.cpu_features = {"sse4.2"};
  EXPECT_EQ(test.run("--data x={}/x.npy labels={}/labels.npy --steps 1"), 0) << test.err;
#endif
  test.table.cpu_features.insert(test.table.cpu_features.end(), {"amx-bf32", "avx8192"});
  EXPECT_EQ(test.run("--data x={}/x.npy labels={}/labels.npy --steps 1 --save {}/saved"), 1);
  EXPECT_EQ(test.err,
            "train: error: compiled for the processor future9, of whose instructions this one lacks amx-bf32, "
            "avx8192; recompile here, or with --march x86-64-v2 for any\n");
  EXPECT_NE(access(test.path("saved").c_str(), F_OK), 0);
  EXPECT_EQ(test.run("--help"), 0);
}

TEST(Program, RunReportsABadProgram) {
  TestProgram test;
  test.table.batch = 0;
  EXPECT_EQ(test.run(""), 1);
  EXPECT_EQ(test.err, "train: error: invalid program: batch of 0 samples; recompile the model\n");
}

// Truncations and random bytes: refused or accepted, never a crash (ASan and UBSan look on in their build).
TEST(Program, SurvivesAnyBytes) {
  TestProgram test;
  {
    CallT call = gemmCall(test);
    call.dtype = DType::f32;
    auto command = std::make_unique<CommandT>();
    command->body.Set(std::move(call));
    test.table.graphs[0]->commands.push_back(std::move(command));
  }
  ProgramImage image = test.image();
  std::vector<uint64_t> storage((image.programBytes + 7) / 8);
  auto *bytes = reinterpret_cast<unsigned char *>(storage.data());
  ProgramImage changed = image;
  changed.program = bytes;
  std::mt19937 random(1);
  for (uint64_t size = 0; size < image.programBytes; size += 7) {
    memcpy(bytes, image.program, image.programBytes);
    changed.programBytes = size;
    (void)verifyProgram(changed).failed();
  }
  changed.programBytes = image.programBytes;
  for (int round = 0; round < 20000; ++round) {
    memcpy(bytes, image.program, image.programBytes);
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips)
      bytes[random() % image.programBytes] = static_cast<unsigned char>(random());
    (void)verifyProgram(changed).failed();
  }
}
