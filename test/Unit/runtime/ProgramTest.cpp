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
  // In each of two iterations two of the four labels, 16 bytes.
  auto fill = [repeat](TestProgram &t) -> FillT & {
    t.table.inputs[1]->streamed = true;
    FillT body;
    body.input = 1;
    body.samples = 2;
    body.target = std::make_unique<RangeT>(makeRange(0, 16));
    RepeatT &around = repeat(t, 2);
    around.commands[0]->body.Set(std::move(body));
    return *around.commands[0]->body.AsFill();
  };
  {
    TestProgram good;
    fill(good);
    EXPECT_EQ(verify(good), "");
  }
  const std::vector<Fault> faults = {
      {[](auto &t) { t.table.program_version = 9; }, "version 9, this runtime reads version 3"},
      {[](auto &t) { t.table.alignment = 48; }, "alignment 48 of an arena of "},
      {[](auto &t) { t.table.arena_bytes += 8; }, "alignment 64 of an arena of "},
      {[](auto &t) { t.table.arena_bytes = UINT64_MAX; }, "arena of 18446744073709551615 bytes"},
      {[](auto &t) { t.table.workers = 0; }, "workspaces for 0 threads"},
      {[](auto &t) { t.table.batch = 0; }, "batch of 0 samples"},
      {[](auto &t) { t.table.kernels.pop_back(); }, "it lists 7 kernels, the executable has 8"},
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
      {[=](auto &t) { launch(t).kernel = 8; }, "launch of kernel 8 of 8"},
      {[=](auto &t) { launch(t).buffers.pop_back(); }, "kernel 'loss' takes 6 buffers, a launch gives it 5"},
      {[=](auto &t) { launch(t).grain = 0; }, "kernel 'loss' is launched for 1 units in steps of 0"},
      {[=](auto &t) { launch(t).block = 8; }, "launch of kernel 0 as 0 blocks of 8 threads on cpu"},
      {[=](auto &t) { t.table.target = Target::emulated; }, "launch of kernel 0 as 0 blocks of 0 threads on emulated"},
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
       "unknown library function 'gem', known are gemm, linear, conv2d, "},
      {[=](auto &t) {
         CallT bad = gemmCall(t);
         bad.ints[3] = 1000;
         call(t, bad);
       },
       "gemm: A needs 8000 bytes, found 16 (in h.0.mlp)"},
      {[=](auto &t) {
         CallT bad = gemmCall(t);
         *bad.buffers[0] = makeRange(2, 16);
         call(t, bad);
       },
       "a buffer of gemm is not aligned to 4 bytes"},
      {[=](auto &t) { fill(t).input = 0; }, "input 0 is filled, which is none that is streamed"},
      {[=](auto &t) { fill(t).input = 2; }, "input 2 is filled, which is none that is streamed"},
      {[=](auto &t) { fill(t).first = 1; }, "input 'labels' is filled 2 times with 2 samples from 1 on, of 4"},
      {[=](auto &t) { fill(t).samples = INT64_MAX; },
       "input 'labels' is filled 2 times with 9223372036854775807 samples"},
      {[=](auto &t) { fill(t).target->bytes = 8; }, "the target of input labels is not the bytes of 2 samples"},
      {[=](auto &t) { fill(t).target->strides = {16}; }, "the target of input labels is not the bytes of 2 samples"},
      {[=](auto &t) { fill(t).target->offset = t.table.arena_bytes; },
       "the target of input labels lies outside the arena"},
      {[=](auto &t) {
         fill(t);
         repeat(t, 2);
       },
       "input 'labels' is filled inside 2 repeats, expected one"},
      {[=](auto &t) {
         fill(t);
         t.table.inputs[1]->batch_dim = -1;
       },
       "the samples of the streamed input 'labels' do not follow one another"},
      {[=](auto &t) {
         fill(t);
         t.table.inputs[1]->shape = {INT64_MAX, 4};
       },
       "input 'labels' is too large"},
      {[=](auto &t) { launch(t).buffers[2]->strides = {16}; }, "buffer 2 of loss has 1 strides inside 0 repeats"},
      {[=](auto &t) { launch(t).buffers[2]->space = MemorySpace::host; }, "buffer 2 of loss lies in another memory"},
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

namespace {
/// The test program for two ranks, with a collective of 16 bytes from `from` to `to` ahead of its first launch, which
/// touches neither, and its wait behind that. Both names are of eight floats and more.
struct InFlight {
  TestProgram test;
  std::vector<std::unique_ptr<CommandT>> &commands = test.table.graphs[0]->commands;

  InFlight() {
    test.table.world = 2;
    CollectiveT body;
    body.kind = CollectiveKind::all_reduce_sum;
    body.source = std::make_unique<RangeT>(makeRange(test.offsets.at("w.exp_avg"), 16));
    body.target = std::make_unique<RangeT>(makeRange(test.offsets.at("w.exp_avg_sq"), 16));
    body.location = "h.0";
    body.event = 3;
    insert(0, body);
    insert(2, waitFor(3));
  }
  template <typename Body> void insert(int64_t at, Body body) {
    auto command = std::make_unique<CommandT>();
    command->body.Set(std::move(body));
    commands.insert(commands.begin() + at, std::move(command));
  }
  static WaitT waitFor(uint32_t event) {
    WaitT wait;
    wait.event = event;
    return wait;
  }
  CollectiveT &collective() { return *commands[0]->body.AsCollective(); }
  LaunchT &launch() { return *commands[1]->body.AsLaunch(); }
  uint64_t at(const char *name) const { return test.offsets.at(name); }
};
} // namespace

TEST(Program, RefusesEachFaultOfCollectives) {
  struct Fault {
    std::function<void(InFlight &)> make;
    std::string message;
  };
  const std::string name = "all_reduce_sum 'h.0' (event 3)";
  // Puts the commands before `end` into a repeat of two iterations.
  auto repeat = [](InFlight &t, int64_t end) {
    RepeatT body;
    body.count = 2;
    body.index = std::make_unique<RangeT>(makeRange(0, 8));
    for (int64_t i = 0; i < end; ++i)
      body.commands.push_back(std::move(t.commands[static_cast<size_t>(i)]));
    t.commands.erase(t.commands.begin(), t.commands.begin() + end);
    t.insert(0, std::move(body));
    return t.commands[0]->body.AsRepeat();
  };
  auto inPlace = [](InFlight &t, CollectiveKind kind) {
    bool scatters = kind == CollectiveKind::reduce_scatter;
    t.collective().kind = kind;
    RangeT &shorter = scatters ? *t.collective().target : *t.collective().source;
    RangeT &longer = scatters ? *t.collective().source : *t.collective().target;
    shorter.offset = longer.offset;
    shorter.bytes = 8;
    shorter.rank_stride = 8;
  };
  const std::vector<Fault> faults = {
      {[](auto &) {}, ""},
      {[](auto &t) { t.test.table.world = 0; }, "a world of 0 ranks"},
      {[](auto &t) { t.collective().kind = static_cast<CollectiveKind>(9); }, "a collective of unknown kind 9"},
      {[](auto &t) { t.collective().dtype = t.collective().wire = DType::i1; }, "all_reduce_sum of i1"},
      {[](auto &t) { t.collective().wire = DType::bf16; }, ""},
      {[](auto &t) { t.collective().wire = DType::f64; }, "all_reduce_sum of f32 sends type 1"},
      {[](auto &t) {
         t.collective().kind = CollectiveKind::all_reduce_max;
         t.collective().wire = DType::bf16;
       },
       "all_reduce_max of f32 sends type 2"},
      {[](auto &t) { t.collective().root = 2; }, "all_reduce_sum from rank 2 of 2"},
      {[](auto &t) { t.collective().source.reset(); }, "the source of all_reduce_sum has no place"},
      {[](auto &t) { t.collective().source->bytes = 8; }, "all_reduce_sum of f32 from 8 to 16 bytes on 2 ranks"},
      {[](auto &t) { t.collective().kind = CollectiveKind::all_gather; },
       "all_gather of f32 from 16 to 16 bytes on 2 ranks"},
      {[](auto &t) { t.collective().target->offset += 2; }, "all_reduce_sum at bytes that are not aligned to 4"},
      {[](auto &t) { t.collective().target->offset = t.collective().source->offset; }, ""},
      {[](auto &t) { t.collective().target->offset = t.collective().source->offset + 8; },
       "all_reduce_sum between ranges that overlap"},
      {[=](auto &t) { inPlace(t, CollectiveKind::all_gather); }, ""},
      {[=](auto &t) { inPlace(t, CollectiveKind::reduce_scatter); }, ""},
      {[=](auto &t) {
         inPlace(t, CollectiveKind::all_gather);
         t.collective().source->rank_stride = 4;
       },
       "all_gather between ranges that overlap"},
      // The second rank's bytes end where the arena does, then behind it.
      {[](auto &t) {
         t.collective().source->offset = t.test.table.arena_bytes - 32;
         t.collective().source->rank_stride = 16;
       },
       ""},
      {[](auto &t) {
         t.collective().source->offset = t.test.table.arena_bytes - 16;
         t.collective().source->rank_stride = 16;
       },
       "the source of all_reduce_sum lies outside the arena"},
      {[](auto &t) { t.collective().event = 4; }, "a wait for event 3, which this list has not started"},
      {[](auto &t) { t.commands.erase(t.commands.begin() + 2); }, "adam writes the source of " + name},
      {[=](auto &t) { repeat(t, 1); }, "all_reduce_sum 'h.0' (event 3) is not waited for in its list"},
      {[=](auto &t) { repeat(t, 3); }, ""},
      {[](auto &t) { t.insert(3, InFlight::waitFor(3)); }, "a wait for event 3, which this list has not started"},
      {[](auto &t) { t.insert(1, t.collective()); }, name + " touches the target of " + name + " before its wait"},
      {[](auto &t) {
         CollectiveT other = t.collective();
         *other.target = makeRange(t.at("grad"), 16);
         t.insert(1, other);
       },
       name + " starts while its event is under way"},
      // What a launch may write is the source only of one that says how many of its buffers it reads.
      {[](auto &t) { t.launch().buffers[0]->offset = t.at("w.exp_avg"); },
       "loss writes the source of " + name + " before its wait"},
      {[](auto &t) {
         t.launch().buffers[0]->offset = t.at("w.exp_avg");
         t.launch().reads = 1;
       },
       ""},
      {[](auto &t) {
         t.launch().buffers[0]->offset = t.at("w.exp_avg_sq");
         t.launch().reads = 1;
       },
       "loss touches the target of " + name + " before its wait"},
      {[](auto &t) {
         CheckFiniteT check;
         check.offset = t.at("w.exp_avg_sq") + 12;
         t.insert(1, check);
       },
       "a check touches the target of " + name + " before its wait"},
      {[](auto &t) {
         CopyT copy;
         copy.source = std::make_unique<RangeT>(makeRange(t.at("w.exp_avg"), 16));
         copy.target = std::make_unique<RangeT>(makeRange(t.at("grad"), 16));
         t.insert(1, copy);
       },
       ""},
      {[](auto &t) {
         CopyT copy;
         copy.source = std::make_unique<RangeT>(makeRange(t.at("grad"), 16));
         copy.target = std::make_unique<RangeT>(makeRange(t.at("w.exp_avg"), 16));
         t.insert(1, copy);
       },
       "a copy writes the source of " + name + " before its wait"},
      // Of a repeat beside it the second iteration meets the target; of one around both, the same iteration does not.
      {[](auto &t) {
         RepeatT body;
         body.count = 2;
         body.index = std::make_unique<RangeT>(makeRange(t.at("loss"), 8));
         LaunchT inner = t.launch();
         *inner.buffers[1] = makeRange(t.at("w.exp_avg_sq") - 64, 8, {64});
         body.commands.push_back(std::make_unique<CommandT>());
         body.commands[0]->body.Set(std::move(inner));
         t.commands[1]->body.Set(std::move(body));
       },
       "loss touches the target of " + name + " before its wait"},
      {[=](auto &t) {
         t.launch().buffers[1] = std::make_unique<RangeT>(makeRange(t.at("w.exp_avg_sq"), 8));
         t.collective().target->bytes = t.collective().source->bytes = 8;
         RepeatT *around = repeat(t, 3);
         around->commands[1]->body.AsLaunch()->buffers[1]->strides = {8};
         around->commands[0]->body.AsCollective()->target->strides = {8};
         around->commands[0]->body.AsCollective()->target->offset += 8;
       },
       ""},
  };
  for (const Fault &fault : faults) {
    InFlight flight;
    fault.make(flight);
    std::string message = verify(flight.test);
    std::string expected = fault.message.empty() ? "" : "invalid program: " + fault.message;
    EXPECT_EQ(expected.empty() ? message : message.substr(0, expected.size()), expected);
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
  InFlight flight;
  for (size_t i : {2, 0})
    test.table.graphs[0]->commands.insert(test.table.graphs[0]->commands.begin(), std::move(flight.commands[i]));
  test.table.world = 2;
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
