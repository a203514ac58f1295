// Whole runs of the program made by hand: what is learned, what is said, what is kept.
#include "TestProgram.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

using namespace scrimp::runtime;
using nlohmann::json;

static const std::string data = "--data x={}/x.npy --data labels={}/labels.npy ";

static std::vector<json> metricsOf(const TestProgram &test, const char *name) {
  std::vector<json> lines;
  std::istringstream stream(readBytes(test.path(name)));
  for (std::string line; std::getline(stream, line);)
    lines.push_back(json::parse(line));
  return lines;
}

static std::vector<double> lossesOf(const TestProgram &test, const char *name) {
  std::vector<double> losses;
  for (const json &line : metricsOf(test, name))
    if (line.contains("loss"))
      losses.push_back(line["loss"].is_null() ? NAN : line["loss"].get<double>());
  return losses;
}

TEST(Train, LearnsAndReports) {
  TestProgram test;
  test.table.tokens_per_sample = 5;
  test.writeData(16);
  ASSERT_EQ(test.run(data + "--epochs 30 --metrics {}/m.jsonl --threads 2"), 0) << test.err;
  EXPECT_EQ(test.err, "");
  EXPECT_EQ(test.out.substr(0, 16), "120 steps: loss ");
  std::vector<json> lines = metricsOf(test, "m.jsonl");
  ASSERT_EQ(lines.size(), 120u);
  EXPECT_LT(lines.back()["loss"].get<double>(), lines.front()["loss"].get<double>());
  EXPECT_EQ(lines[2]["step"], 3);
  EXPECT_EQ(lines[2]["samples"], 12);
  EXPECT_EQ(lines[2]["tokens"], 60);
  EXPECT_EQ(lines[2]["lr"], 0.05);
  EXPECT_EQ(lines[2]["arena_bytes"], test.table.arena_bytes);
  EXPECT_GT(lines[2]["grad_norm"].get<double>(), 0);
  EXPECT_GT(lines[2]["peak_rss_bytes"].get<int64_t>(), 1 << 20);
  EXPECT_GE(lines[2]["seconds"].get<double>(), 0);
}

TEST(Train, ThreadsAndRerunsAreBitwiseEqual) {
  TestProgram test;
  test.writeData(10);
  ASSERT_EQ(test.run(data + "--steps 9 --threads 1 --save {}/a"), 0) << test.err;
  ASSERT_EQ(test.run(data + "--steps 9 --threads 3 --save {}/b"), 0) << test.err;
  for (const char *name : {"model.safetensors", "optimizer.safetensors", "state.json"})
    EXPECT_EQ(readBytes(test.path("a/step-000009/") + name), readBytes(test.path("b/step-000009/") + name));
}

// Traps 40, 41: 10 samples in batches of 4, stopped inside the second epoch.
TEST(Train, ResumedRunIsBitwiseEqual) {
  TestProgram test;
  test.writeData(10);
  std::string flags = data + "--seed 5 --lr 0.1 --warmup 3 ";
  ASSERT_EQ(test.run(flags + "--steps 8 --save {}/whole --metrics {}/whole.jsonl"), 0) << test.err;
  ASSERT_EQ(test.run(flags + "--steps 3 --save {}/parts --metrics {}/parts.jsonl"), 0) << test.err;
  // The flags of the first part hold: they need not be given again.
  ASSERT_EQ(test.run(data + "--steps 8 --resume {}/parts --save {}/parts --metrics {}/parts.jsonl"), 0) << test.err;
  EXPECT_EQ(lossesOf(test, "whole.jsonl"), lossesOf(test, "parts.jsonl"));
  for (const char *name : {"model.safetensors", "optimizer.safetensors", "state.json"})
    EXPECT_EQ(readBytes(test.path("whole/step-000008/") + name), readBytes(test.path("parts/step-000008/") + name));
  EXPECT_EQ(readBytes(test.path("parts/latest")), "step-000008\n");
  ASSERT_EQ(test.run(data + "--steps 8 --resume {}/parts/step-000003 --save {}/again"), 0) << test.err;
  EXPECT_EQ(readBytes(test.path("whole/step-000008/model.safetensors")),
            readBytes(test.path("again/step-000008/model.safetensors")));
}

// Cosine over 4 updates has rates 1, .854, .5, .146 of --lr; over 8 the fourth is at p = 3/8.
TEST(Train, ResumingUnderOtherStepsTellsTheJump) {
  TestProgram test;
  test.writeData(10);
  ASSERT_EQ(test.run(data + "--steps 4 --lr 1 --lr-schedule cosine --save {}/c --save-every 3"), 0) << test.err;
  ASSERT_EQ(test.run(data + "--steps 8 --resume {}/c/step-000003 --metrics {}/m.jsonl"), 0) << test.err;
  EXPECT_EQ(test.err,
            "train: warning: the checkpoint's run had 4 steps, this one has 8: under --lr-schedule cosine the "
            "learning rate jumps from 0.5, its last, to 0.691342 at step 4, where 0.146447 was planned; give "
            "--steps 4 to go on as planned\n");
  EXPECT_NEAR(metricsOf(test, "m.jsonl")[0]["lr"].get<double>(), 0.691342, 1e-6);
  // Nothing to tell: the same steps, a rate that does not depend on them, a rate given anew at the end of a warm-up.
  ASSERT_EQ(test.run(data + "--steps 4 --resume {}/c/step-000003"), 0) << test.err;
  EXPECT_EQ(test.err, "");
  ASSERT_EQ(test.run(data + "--steps 8 --resume {}/c --lr-schedule constant"), 0) << test.err;
  EXPECT_EQ(test.err, "");
  ASSERT_EQ(test.run(data + "--steps 8 --resume {}/c --warmup 5"), 0) << test.err;
  EXPECT_EQ(test.err, "");
}

TEST(Train, ResumeRefusesWhatWouldChangeTheRun) {
  TestProgram test;
  test.writeData(10);
  ASSERT_EQ(test.run(data + "--steps 2 --save {}/c"), 0) << test.err;
  EXPECT_EQ(test.run(data + "--steps 4 --resume {}/c --seed 9"), 1);
  EXPECT_EQ(test.err,
            "train: error: --resume: --seed is 9, but the checkpoint was made with 0; leave --seed out, or to "
            "start anew with these weights, give --init-from " +
                test.path("c/step-000002") + " instead of --resume\n");
  ASSERT_EQ(test.run(data + "--steps 4 --seed 9 --init-from " + test.path("c/step-000002")), 0) << test.err;
  EXPECT_EQ(test.run(data + "--steps 4 --resume {}/c --no-shuffle"), 1);
  test.writeData(11);
  EXPECT_EQ(test.run(data + "--steps 4 --resume {}/c"), 1);
  EXPECT_NE(test.err.find("the data has 11 samples, but the checkpoint was made with 10;"), std::string::npos);
  EXPECT_EQ(test.run(data + "--steps 4 --resume {}/absent"), 1);
  EXPECT_EQ(test.err, "train: error: --resume: '" + test.path("absent") +
                          "' is no folder, expected a checkpoint or a folder of checkpoints\n");
}

// The order of samples: batches of 4 over 6 samples take the second half of the second batch from the next epoch.
TEST(Train, FileOrderWrapsIntoTheNextEpoch) {
  TestProgram test;
  test.writeData(6);
  // The same as one epoch over the sequence written out twice.
  ASSERT_EQ(test.run(data + "--steps 3 --no-shuffle --metrics {}/a.jsonl"), 0) << test.err;
  std::vector<float> x;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t d = 0; d < 4; ++d)
      x.push_back(std::sin(static_cast<float>(i % 6 * 4 + d)));
    labels.push_back(i % 6 * 7 % 10);
  }
  writeNpy(test.path("x.npy"), "<f4", {12, 4}, x.data(), x.size() * 4);
  writeNpy(test.path("labels.npy"), "<i8", {12}, labels.data(), labels.size() * 8);
  ASSERT_EQ(test.run(data + "--epochs 1 --no-shuffle --metrics {}/b.jsonl"), 0) << test.err;
  EXPECT_EQ(lossesOf(test, "a.jsonl"), lossesOf(test, "b.jsonl"));
}

// What is ignored stays ignored: a run under nohup outlives its terminal.
TEST(Train, IgnoredSignalsStayIgnored) {
  TestProgram test;
  test.writeData(8);
  test.hooks.end = [](void *, int64_t) { raise(SIGHUP); };
  auto *former = signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(test.run(data + "--steps 5 --save {}/c"), 0);
  EXPECT_EQ(test.err, "");
  EXPECT_EQ(signal(SIGHUP, former), SIG_IGN);
  EXPECT_EQ(readBytes(test.path("c/latest")), "step-000005\n");
}

// Schedulers warn with one of these before they kill, more than once if they like.
TEST(Train, SignalsSaveAndExit) {
  static int signalToRaise;
  for (int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU}) {
    TestProgram test;
    test.writeData(8);
    signalToRaise = number;
    auto *former = signal(number, SIG_DFL); // under nohup SIGHUP is ignored
    test.hooks.end = [](void *, int64_t step) {
      if (step < 3)
        return;
      raise(signalToRaise);
      if (signalToRaise != SIGTERM && signalToRaise != SIGINT)
        raise(signalToRaise);
    };
    EXPECT_EQ(test.run(data + "--steps 100 --save {}/c"), 0);
    signal(number, former);
    EXPECT_EQ(test.err, std::string("train: warning: stopped by a signal (") + strsignal(number) +
                            ") after step 3, which is saved\n");
    EXPECT_EQ(readBytes(test.path("c/latest")), "step-000003\n");
  }
}

static void poison(const TestProgram &test, double value) {
  std::vector<float> x(8 * 4, 0.5f);
  x[5 * 4] = static_cast<float>(value); // sample 5 is in the second batch
  writeNpy(test.path("x.npy"), "<f4", {8, 4}, x.data(), x.size() * 4);
}

TEST(Train, NanStopsTheRun) {
  TestProgram test;
  test.writeData(8);
  poison(test, NAN);
  EXPECT_EQ(test.run(data + "--steps 4 --no-shuffle --metrics {}/m.jsonl"), 1);
  EXPECT_EQ(test.err, "train: error: loss is nan at step 2: input 'x' holds nan, sample 5 of '" + test.path("x.npy") +
                          "'; the step was not applied: mend the data, or give --on-nan skip\n");
  std::vector<json> lines = metricsOf(test, "m.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[1]["loss"].is_null());
  EXPECT_EQ(lines[1]["nonfinite"], "loss");
  EXPECT_FALSE(lines[0].contains("nonfinite"));
}

// A finite loss with a gradient that is not: half of x is so large that its square, and only that, overflows.
static void overflowTheGradient(TestProgram &test) {
  std::vector<float> x(8 * 4, 0.0f);
  x[5 * 4] = 1e19f; // the loss of sample 5 is about 1e38 w^2 / 4
  writeNpy(test.path("x.npy"), "<f4", {8, 4}, x.data(), x.size() * 4);
  std::vector<int64_t> labels(8, 0);
  writeNpy(test.path("labels.npy"), "<i8", {8}, labels.data(), labels.size() * 8);
  for (auto &tensor : test.table.tensors)
    if (tensor->name == "w") {
      tensor->init = scrimp::program::InitKind::constant;
      tensor->a = 0.5;
    }
}

TEST(Train, AGradientThatIsNotFiniteStopsTheRun) {
  for (bool waits : {true, false}) {
    TestProgram test;
    overflowTheGradient(test);
    test.table.graphs[0]->updates_wait = waits;
    std::string flags = data + "--steps 4 --no-shuffle --lr 1e-4 --metrics {}/m.jsonl --save {}/c --save-every 1";
    EXPECT_EQ(test.run(flags), 1);
    std::string what = "train: error: the gradient of 'w' is infinite at step 2, though the loss is 6.24999e+36; ";
    EXPECT_EQ(test.err.substr(0, what.size()), what);
    EXPECT_NE(
        test.err.find(waits ? "; the step was not applied: something between 'w' and the loss has an infinite slope "
                            : "; nothing more is saved: something between 'w' and the loss has an infinite slope "),
        std::string::npos)
        << test.err;
    EXPECT_NE(test.err.find(waits ? ", or give --on-nan skip\n"
                                  : ", or compile with --skip-nonfinite-grad and give --on-nan skip\n"),
              std::string::npos)
        << test.err;
    EXPECT_EQ(metricsOf(test, "m.jsonl").back()["nonfinite"], "w");
    EXPECT_FALSE(metricsOf(test, "m.jsonl").back()["loss"].is_null());
    EXPECT_EQ(readBytes(test.path("c/latest")), "step-000001\n");
    // What skips: a program whose updates wait.
    EXPECT_EQ(test.run(flags + " --on-nan skip"), waits ? 0 : 1);
    if (waits) {
      EXPECT_EQ(readBytes(test.path("c/latest")), "step-000004\n");
      EXPECT_EQ(metricsOf(test, "m.jsonl")[1]["skipped"], true);
    } else
      EXPECT_NE(
          test.err.find("; this program updates parameters before all gradients are known, so the step cannot be "
                        "skipped; nothing more is saved: recompile with --skip-nonfinite-grad for --on-nan skip\n"),
          std::string::npos)
          << test.err;
  }
}

TEST(Train, WeightsThatOverflowAreNotSaved) {
  TestProgram test;
  test.writeData(8);
  EXPECT_EQ(test.run(data + "--steps 1 --lr 1e38 --weight-decay 1e38 --save {}/c"), 1);
  EXPECT_EQ(test.err.substr(0, 21), "train: error: 'w' hol") << test.err;
  EXPECT_NE(
      test.err.find(" after step 1, though loss and gradients were finite: the update itself is too large; nothing "
                    "more is saved: lower --lr\n"),
      std::string::npos)
      << test.err;
  EXPECT_FALSE(std::filesystem::exists(test.path("c")));
}

// The hint fits the cause: weights that are not finite from the start, and a model whose loss is not.
TEST(Train, InitialWeightsThatAreNotFiniteAreNamed) {
  TestProgram test;
  test.writeData(8);
  for (auto &tensor : test.table.tensors)
    if (tensor->name == "w") {
      tensor->init = scrimp::program::InitKind::constant;
      tensor->a = NAN;
    }
  EXPECT_EQ(test.run(data + "--steps 1"), 1);
  EXPECT_EQ(test.err, "train: error: loss is nan at step 1: 'w' holds nan in the model's initial weights; the step was "
                      "not applied: start from other weights\n");
}

// Steps 2 and 4 are skipped: the rest is as if their batches did not exist, the Adam step included.
TEST(Train, NanSkipsTheStep) {
  TestProgram test;
  test.writeData(8);
  poison(test, INFINITY);
  ASSERT_EQ(test.run(data + "--steps 4 --no-shuffle --on-nan skip --save {}/a --metrics {}/a.jsonl"), 0) << test.err;
  std::string where = "input 'x' holds inf, sample 5 of '" + test.path("x.npy") + "'; the step is skipped\n";
  EXPECT_EQ(test.err, "train: warning: loss is infinite at step 2: " + where +
                          "train: warning: loss is infinite at step 4: " + where);
  EXPECT_EQ(metricsOf(test, "a.jsonl")[1]["skipped"], true);
  EXPECT_TRUE(metricsOf(test, "a.jsonl")[1]["loss"].is_null());
  std::vector<float> x(4 * 4, 0.5f);
  std::vector<int64_t> labels = {0, 7, 4, 1};
  writeNpy(test.path("x.npy"), "<f4", {4, 4}, x.data(), x.size() * 4);
  writeNpy(test.path("labels.npy"), "<i8", {4}, labels.data(), labels.size() * 8);
  ASSERT_EQ(test.run(data + "--steps 2 --no-shuffle --save {}/b"), 0) << test.err;
  EXPECT_EQ(readBytes(test.path("a/step-000004/model.safetensors")),
            readBytes(test.path("b/step-000002/model.safetensors")));
  EXPECT_EQ(readBytes(test.path("a/step-000004/optimizer.safetensors")),
            readBytes(test.path("b/step-000002/optimizer.safetensors")));
}

// 6 samples: the second batch has two empty places. sum / count does not see them; the same as a batch of 6 would give.
TEST(Train, EvaluationMasksThePartialBatch) {
  TestProgram test;
  test.writeData(8);
  test.writeData(6, "-eval");
  std::string evaluation = "--eval-data x={}/x-eval.npy --eval-data labels={}/labels-eval.npy ";
  ASSERT_EQ(test.run(data + evaluation + "--steps 4 --eval-every 2 --metrics {}/m.jsonl --save {}/c"), 0) << test.err;
  EXPECT_EQ(test.err, "");
  std::vector<json> lines = metricsOf(test, "m.jsonl");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[2]["step"], 2);
  double found = lines[5]["eval_loss"].get<double>();
  std::string model = readBytes(test.path("c/step-000004/model.safetensors"));
  json header = json::parse(model.substr(8, *reinterpret_cast<const uint64_t *>(model.data())));
  uint64_t begin =
      8 + *reinterpret_cast<const uint64_t *>(model.data()) + header["w"]["data_offsets"][0].get<uint64_t>();
  const float *w = reinterpret_cast<const float *>(model.data() + begin);
  double sum = 0;
  for (int i = 0; i < 6; ++i) {
    double y = 0;
    for (int d = 0; d < 4; ++d)
      y += w[d] * std::sin(static_cast<float>(i * 4 + d));
    sum += (y - i * 7 % 10) * (y - i * 7 % 10);
  }
  EXPECT_NEAR(found, sum / 6, 1e-4);
}

TEST(Train, EvaluationDropsAPartialBatchThatItCannotDivide) {
  TestProgram test;
  test.table.eval_drops_partial = true;
  test.writeData(8);
  test.writeData(6, "-eval");
  std::string evaluation = "--eval-data x={}/x-eval.npy --eval-data labels={}/labels-eval.npy ";
  ASSERT_EQ(test.run(data + evaluation + "--steps 4 --eval-every 2"), 0) << test.err;
  EXPECT_EQ(test.err, "train: warning: the last 2 of 6 evaluation samples are left out: this model evaluates whole "
                      "batches of 4\n");
}

// Between the hooks no thread may allocate, the first step apart. The counters are in MallocCount.cpp.
namespace scrimp::runtime {
extern std::atomic<bool> countingAllocations;
extern std::atomic<int64_t> allocationCount;
extern const bool allocationsAreCounted;
} // namespace scrimp::runtime

TEST(Train, StepsDoNotAllocate) {
  if (!allocationsAreCounted)
    GTEST_SKIP() << "a sanitizer owns the allocator";
  TestProgram test;
  test.writeData(10);
  test.hooks.begin = [](void *, int64_t step) { countingAllocations = step > 1; };
  test.hooks.end = [](void *, int64_t) { countingAllocations = false; };
  allocationCount = 0;
  ASSERT_EQ(test.run(data + "--steps 20 --threads 3 --metrics {}/m.jsonl"), 0) << test.err;
  EXPECT_EQ(allocationCount, 0);
}

TEST(Train, CommandLineErrors) {
  TestProgram test;
  test.writeData(8);
  auto fails = [&](const std::string &arguments, std::string message) {
    EXPECT_EQ(test.run(arguments), 1) << arguments;
    for (size_t at; (at = message.find("{}")) != std::string::npos;)
      message.replace(at, 2, test.folder);
    EXPECT_EQ(test.err, "train: error: " + message + "\n");
  };
  fails("--steps 1", "input 'x' (f32 [4, 4]) has no data; give --data x=FILE");
  fails("--data y={}/x.npy", "--data y: the model has no such input, its inputs are x, labels");
  fails("--data x={}/x.npy --data x={}/x.npy", "--data x is given twice");
  fails("--data x", "--data: found 'x', expected name=file");
  fails("--data x={}/none.npy --data labels={}/labels.npy",
        "--data x: cannot open '{}/none.npy': No such file or directory");
  fails("--data x={} --data labels={}/labels.npy", "--data x: '{}' is a directory, expected a file");
  fails(data + "--clip-norm 1", "--clip-norm: this executable was compiled without clip_norm "
                                "(its optimizer is adamw); recompile with --clip-grad-norm");
  fails(data + "--beta1 1", "--beta1 is 1, expected a number from 0 to below 1");
  fails(data + "--lr -1", "--lr is -1, expected a finite number from 0 up");
  fails(data + "--threads 5", "--threads is 5, expected 1 to 4");
  fails(data + "--steps 1 --epochs 1", "--steps and --epochs are both given; give one");
  fails(data + "--lr-schedule step", "--lr-schedule is 'step', expected constant, linear or cosine");
  fails(data + "--save-every 5", "--save-every needs --save DIR");
  fails(data + "--resume a --init-from b", "--resume and --init-from both give the weights; give one");
  fails(data + "--metrics {}/none/m.jsonl", "--metrics: cannot write '{}/none/m.jsonl': No such file or directory");
  fails(data + "--save /proc/none", "--save: cannot create '/proc/none': No such file or directory");
  fails(data + "--steps 2 --metrics /dev/full", "--metrics: cannot write '/dev/full': No space left on device");
  EXPECT_EQ(test.run("--bogus"), 1);
  EXPECT_EQ(test.err.substr(0, 14), "train: error: ");
  EXPECT_EQ(std::count(test.err.begin(), test.err.end(), '\n'), 1);
  EXPECT_EQ(test.run("--help"), 0);
  EXPECT_NE(test.out.find("labels"), std::string::npos);
  EXPECT_EQ(test.out.find("--momentum"), std::string::npos);
}

// Trap 55 at run time: a bad value stops the run by name, and no checkpoint appears.
TEST(Train, ValuesAreChecked) {
  TestProgram test;
  test.writeData(8);
  std::vector<int64_t> labels = {0, 1, 2, 3, 4, 10, 6, 7};
  writeNpy(test.path("labels.npy"), "<i8", {8}, labels.data(), 64);
  EXPECT_EQ(test.run(data + "--no-shuffle --save {}/c"), 1);
  EXPECT_EQ(test.err, "train: error: --data: input 'labels', sample 5: value 10 in '" + test.path("labels.npy") +
                          "' is outside 0 to 9 (or -100, ignored)\n");
  EXPECT_FALSE(std::filesystem::exists(test.path("c")));
}
