// Runs of several ranks, as threads: what they learn is what one process learns, and what one of them meets all decide.
#include "TestProgram.h"
#include <atomic>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

using namespace scrimp::runtime;
using nlohmann::json;

namespace scrimp::runtime {
extern std::atomic<bool> countingAllocations;
extern std::atomic<int64_t> allocationCount;
extern const bool allocationsAreCounted;
} // namespace scrimp::runtime

namespace {

const std::string data = "--data x={}/x.npy labels={}/labels.npy --threads 1 ";
const std::string evaluation = "--eval-data x={}/x-eval.npy labels={}/labels-eval.npy --eval-every 4 ";

/// The metrics file without what is measured.
std::vector<json> metricsOf(const TestProgram &test, const std::string &name) {
  std::vector<json> lines;
  std::istringstream stream(readBytes(test.path(name)));
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(json::parse(line));
    for (const char *measured : {"seconds", "peak_rss_bytes", "arena_bytes", "comm_wait_seconds"})
      lines.back().erase(measured);
  }
  return lines;
}

/// Without what ranks send, which differs where pieces do.
std::vector<json> withoutTraffic(std::vector<json> lines) {
  for (json &line : lines) {
    line.erase("sent_elements");
    line.erase("sent_bytes");
  }
  return lines;
}

/// Equal apart from the order of sums.
void expectClose(const std::vector<json> &found, const std::vector<json> &expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    for (auto &[key, value] : expected[i].items())
      EXPECT_NEAR(found[i][key].get<double>(), value.get<double>(), 2e-5 * std::abs(value.get<double>())) << key << i;
}

std::vector<int> all(int ranks, int status) { return std::vector<int>(static_cast<size_t>(ranks), status); }

/// The line that the test's data gives sample `sample`, changed.
template <typename T> void change(const TestProgram &test, const char *file, size_t sample, size_t each, T value) {
  std::string bytes = readBytes(test.path(file));
  size_t header = 10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  memcpy(bytes.data() + header + sample * each * sizeof(T), &value, sizeof(T));
  writeBytes(test.path(file), bytes);
}

} // namespace

// 10 samples in batches of 4, over epochs; 3 and 8 ranks do not divide them, and 8 leave four without a sample. Of 7
// evaluation samples the second batch has 3.
TEST(Ranks, LearnWhatOneProcessDoes) {
  TestProgram alone;
  alone.writeData(10);
  alone.writeData(7, "-eval");
  ASSERT_EQ(alone.run(data + evaluation + "--steps 12 --metrics {}/m.jsonl"), 0) << alone.err;
  std::vector<json> expected = metricsOf(alone, "m.jsonl");
  ASSERT_EQ(expected.size(), 15u);
  for (int ranks : {2, 3, 4, 8}) {
    TestProgram test(ranks);
    test.writeData(10);
    test.writeData(7, "-eval");
    ASSERT_EQ(test.runRanks(data + evaluation + "--steps 12 --metrics {}/m{rank}.jsonl"), all(ranks, 0)) << test.err;
    EXPECT_EQ(test.err, "");
    EXPECT_EQ(std::count(test.out.begin(), test.out.end(), '\n'), 1 + 2) << test.out;
    expectClose(metricsOf(test, "m0.jsonl"), expected);
    // An all_reduce of the gradient's four elements, and two of one.
    int64_t sent = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<json> lines = metricsOf(test, "m" + std::to_string(rank) + ".jsonl");
      EXPECT_EQ(withoutTraffic(lines), withoutTraffic(metricsOf(test, "m0.jsonl")));
      int64_t elements = lines[0]["sent_elements"].get<int64_t>();
      EXPECT_EQ(lines[0]["sent_bytes"], 4 * elements);
      EXPECT_EQ(lines[1]["sent_elements"], elements);
      sent += elements;
    }
    // Of fewer elements than ranks, every rank sends all.
    auto sentFor = [&](int elements) { return (elements < ranks ? ranks * elements : 2 * elements) * (ranks - 1); };
    EXPECT_EQ(sent, sentFor(4) + 2 * sentFor(1));
  }
}

// Stopped inside an epoch, and gone on with by another number of ranks.
TEST(Ranks, ResumeEachOthersRuns) {
  TestProgram one, two(2), three(3);
  for (TestProgram *test : {&one, &two, &three})
    test->writeData(10);
  ASSERT_EQ(one.run(data + "--steps 9 --metrics {}/m.jsonl"), 0) << one.err;
  ASSERT_EQ(two.runRanks(data + "--steps 9 --save {}/c --save-every 4 --metrics {}/m.jsonl"), all(2, 0)) << two.err;
  std::vector<json> expected = metricsOf(one, "m.jsonl");
  expectClose(metricsOf(two, "m.jsonl"), expected);
  expected.erase(expected.begin(), expected.begin() + 4);
  std::string resume = data + "--steps 9 --metrics {}/r.jsonl --resume " + two.path("c/step-000004");
  for (TestProgram *test : {&two, &three}) {
    int ranks = static_cast<int>(test->table.world);
    ASSERT_EQ(test->runRanks(resume + " --save {}/r"), all(ranks, 0)) << test->err;
    expectClose(metricsOf(*test, "r.jsonl"), expected);
  }
  ASSERT_EQ(one.run(resume), 0) << one.err;
  expectClose(metricsOf(one, "r.jsonl"), expected);
  for (const char *file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(readBytes(two.path("c/step-000009/") + file), readBytes(two.path("r/step-000009/") + file));
}

// Sample 6 is the third of the second batch, which is the first of rank 1.
TEST(Ranks, WhatOneRankMeetsAllDo) {
  TestProgram test(2);
  test.writeData(8);
  change(test, "x.npy", 6, 4, NAN);
  std::string run = data + "--no-shuffle --steps 4 --save {}/c ";
  std::string where = "input 'x' holds nan, sample 6 of '" + test.path("x.npy") + "'";
  EXPECT_EQ(test.runRanks(run), all(2, 1));
  EXPECT_EQ(test.err, "train: error: rank 1: loss is nan at step 2: " + where +
                          "; the step was not applied: mend the data, or give --on-nan skip\n");
  EXPECT_FALSE(std::filesystem::exists(test.path("c")));
  ASSERT_EQ(test.runRanks(run + "--on-nan skip --metrics {}/m{rank}.jsonl"), all(2, 0)) << test.err;
  std::string warning = "train: warning: rank 1: loss is nan at step ";
  EXPECT_EQ(test.err,
            warning + "2: " + where + "; the step is skipped\n" + warning + "4: " + where + "; the step is skipped\n");
  std::vector<json> lines = metricsOf(test, "m0.jsonl");
  EXPECT_EQ(lines, metricsOf(test, "m1.jsonl"));
  EXPECT_EQ(lines[1]["skipped"], true);
  EXPECT_FALSE(lines[2].contains("skipped"));

  // A value that is none of the input's: only rank 1 reads it.
  change(test, "labels.npy", 6, 1, int64_t{77});
  EXPECT_EQ(test.runRanks(run + "--on-nan skip"), all(2, 1));
  EXPECT_EQ(test.err, "train: error: rank 1: --data: input 'labels', sample 6: value 77 in '" +
                          test.path("labels.npy") + "' is outside 0 to 9 (or -100, ignored)\n");
}

// A gradient's check, which is not marked as agreed upon: the loss is finite, its square's slope is not.
TEST(Ranks, AGradientThatIsNotFiniteStopsAll) {
  TestProgram test(3);
  test.writeData(8);
  change(test, "x.npy", 1, 4, 3e30f);
  for (auto &tensor : test.table.tensors)
    if (tensor->name == "w") {
      tensor->init = scrimp::program::InitKind::constant;
      tensor->a = 0;
    }
  EXPECT_EQ(test.runRanks(data + "--no-shuffle --steps 4"), all(3, 1));
  EXPECT_NE(test.err.find("train: error: the gradient of 'w' is infinite at step 1, though the loss is "),
            std::string::npos)
      << test.err;
  EXPECT_EQ(std::count(test.err.begin(), test.err.end(), '\n'), 1);
}

TEST(Ranks, WhatDiffersEndsAllWithOneMessage) {
  TestProgram test(3);
  test.writeData(8);
  test.writeData(12, "2");
  struct Case {
    std::string rank1, message;
  };
  const std::string same = "; give all ranks the same flags and the same data\n";
  const Case cases[] = {
      {"--steps 5", "ranks differ in the number of steps: 4 on ranks 0, 2, 5 on rank 1" + same},
      {"--lr 0.5", "ranks differ in --lr: 0.050000000000000003 on ranks 0, 2, 0.5 on rank 1" + same},
      {"--save {}/c", "ranks differ in --save: no on ranks 0, 2, yes on rank 1" + same},
      {"--steps x", "rank 1: Could not convert: --steps = x; see --help\n"},
      {"--on-nan leave", "rank 1: --on-nan is 'leave', expected stop or skip\n"},
  };
  for (const Case &each : cases) {
    bool stepsFirst = each.rank1.find("--steps") == std::string::npos;
    std::string steps = "--steps 4";
    EXPECT_EQ(test.runRanks(data, {steps, stepsFirst ? steps + " " + each.rank1 : each.rank1, steps}), all(3, 1));
    EXPECT_EQ(test.err, "train: error: " + each.message);
    EXPECT_EQ(test.out, "");
  }
  std::string files = "--steps 4 --threads 1 --data x={}/x.npy labels={}/labels.npy";
  EXPECT_EQ(test.runRanks("", {files, "--steps 4 --data x={}/x2.npy labels={}/labels2.npy", files}), all(3, 1));
  EXPECT_EQ(test.err,
            "train: error: ranks differ in the number of training samples: 8 on ranks 0, 2, 12 on rank 1" + same);
  EXPECT_EQ(test.runRanks("", {files, files, "--steps 4 --data x={}/none.npy labels={}/labels2.npy"}), all(3, 1));
  EXPECT_EQ(test.err.substr(0, 33), "train: error: rank 2: --data x: c") << test.err;
  // All alike: nobody is named.
  EXPECT_EQ(test.runRanks("--steps 4 --data x={}/none.npy labels={}/labels2.npy"), all(3, 1));
  EXPECT_EQ(test.err.substr(0, 25), "train: error: --data x: c") << test.err;
  EXPECT_EQ(std::count(test.err.begin(), test.err.end(), '\n'), 1);
}

TEST(Ranks, AreAsManyAsTheProgramWasCompiledFor) {
  TestProgram test(2);
  EXPECT_EQ(test.run("--steps 4"), 1);
  EXPECT_EQ(test.err, "train: error: this program was compiled for 2 ranks, but this one was started alone; start it "
                      "with mpirun -n 2 ./train, or recompile with --world 1\n");
  EXPECT_EQ(test.run("--help"), 0);
}

TEST(Ranks, SaveAndExitAtOneStep) {
  TestProgram test(3);
  test.writeData(8);
  std::string run = data + "--steps 1000000 --save {}/c --metrics {}/m{rank}.jsonl";
  static std::atomic<int> calls;
  calls = 0;
  test.hooks.end = [](void *, int64_t) {
    if (++calls == 10) // some rank's third or fourth step
      raise(SIGTERM);
  };
  EXPECT_EQ(test.runRanks(run), all(3, 0));
  size_t steps = metricsOf(test, "m0.jsonl").size();
  EXPECT_LT(steps, 9u);
  EXPECT_EQ(test.err, "train: warning: stopped by a signal (Terminated) after step " + std::to_string(steps) +
                          ", which is saved\n");
  for (const char *name : {"m1.jsonl", "m2.jsonl"})
    EXPECT_EQ(withoutTraffic(metricsOf(test, name)), withoutTraffic(metricsOf(test, "m0.jsonl")));
  char folder[32];
  snprintf(folder, sizeof(folder), "c/step-%06zu", steps);
  EXPECT_TRUE(std::filesystem::exists(test.path(folder)));
}

TEST(Ranks, AFolderThatCannotBeWrittenEndsAll) {
  TestProgram test(2);
  test.writeData(8);
  writeBytes(test.path("file"), "");
  EXPECT_EQ(test.runRanks(data + "--steps 4 --save {}/file/c"), all(2, 1));
  EXPECT_EQ(test.err.substr(0, 29), "train: error: rank 0: --save:") << test.err;
  EXPECT_EQ(std::count(test.err.begin(), test.err.end(), '\n'), 1);
}

TEST(Ranks, StepsDoNotAllocate) {
  if (!allocationsAreCounted)
    GTEST_SKIP() << "a sanitizer owns the allocator";
  TestProgram test(2);
  test.writeData(10);
  // Whatever either rank does between the second step's begin and the last's.
  test.hooks.begin = [](void *, int64_t step) { countingAllocations = step > 1 && step < 20; };
  allocationCount = 0;
  ASSERT_EQ(test.runRanks(data + "--steps 20 --metrics {}/m{rank}.jsonl"), all(2, 0)) << test.err;
  EXPECT_EQ(allocationCount, 0);
}
