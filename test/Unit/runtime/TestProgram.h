// A whole program made by hand: a linear model of four features under AdamW, with kernels written here.
//
//   y_b = sum_d w_d x_bd;  loss = sum over valid b of (y_b - label_b)^2 / number of valid b
//
// Inputs are x f32[4, 4] and labels i64[4] (0 to 9, -100 ignored). Besides w ("w", also called "tied.w") there are a
// frozen parameter, a buffer that counts steps, a constant and an empty parameter.
//
// For more ranks than one the batch of four is spread over them, as a compiler does it: each computes sums over the
// samples that it has, an all_reduce adds up those of the loss, and another those of the gradient while the norm's
// place is cleared. Evaluation leaves its sums to the host (Output.partial).
#ifndef SCRIMP_TEST_UNIT_RUNTIME_TESTPROGRAM_H
#define SCRIMP_TEST_UNIT_RUNTIME_TESTPROGRAM_H

#include "scrimp/runtime/Program.h"
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

namespace scrimp::runtime {

/// Bytes that stay where they are, or move with the repeats around.
program::RangeT makeRange(uint64_t offset, uint64_t bytes, std::vector<int64_t> strides = {});
std::vector<std::unique_ptr<program::RangeT>> makeRanges(const std::vector<program::RangeT> &ranges);

class TestProgram {
public:
  static constexpr int64_t batch = 4, features = 4;

  explicit TestProgram(int ranks = 1);

  /// Shares the optimizer's states out to the ranks, which divide the features: each updates its part of w, and
  /// gathers the others'.
  void shareOutStates();

  /// The program, to be changed before it is packed.
  program::ProgramT table;
  std::map<std::string, uint64_t> offsets;
  StepHooks hooks;
  std::string weightsPath = "/proc/self/exe";

  /// Packs `table`; the image is valid until the next call.
  ProgramImage image();

  /// Runs `train ARGUMENTS`, whose words are separated by blanks; `{}` stands for `folder`. The exit status.
  int run(const std::string &arguments);
  std::string out, err; // of the last run

  /// Runs it on a thread for each rank, `changes[r]` added to the arguments of rank r. The exit statuses.
  std::vector<int> runRanks(const std::string &arguments, const std::vector<std::string> &changes = {});

  /// A folder for this test's files, removed with the program.
  std::string folder;
  ~TestProgram();

  /// Writes x.npy and labels.npy of `samples` samples.
  void writeData(int64_t samples, const std::string &suffix = "");
  std::string path(const std::string &name) const { return folder + "/" + name; }

private:
  void addTrain();
  void addTrainOfRanks();
  void addEval();
  void addUpdate(program::GraphT &graph, const char *gradient);
  void addCheck(program::GraphT &graph, program::CheckKind kind, const char *name, const char *at, bool agreed);
  void addOutput(program::GraphT &graph, const char *name, bool partial = false);
  void addAllReduce(program::GraphT &graph, const char *name, uint64_t bytes, uint32_t event);
  template <typename Body> static void add(program::GraphT &graph, Body body) {
    auto command = std::make_unique<program::CommandT>();
    command->body.Set(std::move(body));
    graph.commands.push_back(std::move(command));
  }
  std::vector<std::string> words(const std::string &arguments) const;

  uint64_t place(const std::string &name, uint64_t bytes);
  program::RangeT range(const std::string &name, uint64_t bytes) const;
  void addTensor(const char *name, std::vector<int64_t> shape, program::TensorRole role, program::InitKind init,
                 double a = 0, double b = 0, DType dtype = DType::f32);
  void addScalar(const char *name, DType dtype = DType::f32);
  void addLaunch(program::GraphT &graph, uint32_t kernel, std::vector<program::RangeT> buffers, int64_t units);

  int ranks;
  std::vector<uint64_t> packed;
};

/// A .npy file of version 1.
void writeNpy(const std::string &path, const std::string &descr, const std::vector<int64_t> &shape, const void *data,
              uint64_t bytes);
void writeBytes(const std::string &path, const std::string &bytes);
std::string readBytes(const std::string &path);

} // namespace scrimp::runtime

#endif
