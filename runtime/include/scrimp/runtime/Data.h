// The user's data: which file feeds which input, and the batch of each step.
//
// --data name=file gives an input its data; the file's kind is told by its name:
//   x.npy, x.safetensors   first dimension = samples; the rest is the input's shape without its batch dimension. A
//                          safetensors file holds a tensor of the input's name, or only one tensor.
//   x.bin, x.u32.bin       tokens, uint16 or uint32 (--token-bytes 4), or llm.c's files, whose header says (Tokens.h).
//                          Sample i is the window that starts at token i * seq, where seq is the number of elements of
//                          a sample; `file:+1` shifts it by one token, so that --data ids=t.bin --data labels=t.bin:+1
//                          trains next-token prediction, and
//                          --data ids,labels=t.bin says the same. There are (tokens - 1) / seq samples.
// Inputs without a batch dimension are read whole, once. Everything is read by pread, sample by sample.
#ifndef SCRIMP_RUNTIME_DATA_H
#define SCRIMP_RUNTIME_DATA_H

#include "scrimp/runtime/Device.h"
#include "scrimp/runtime/Program.h"
#include "scrimp/runtime/Random.h"
#include "scrimp/runtime/TensorFile.h"
#include <functional>
#include <optional>

namespace scrimp::runtime {

/// One assignment of --data, parsed.
struct DataSpec {
  std::string input, path;
  int64_t tokenShift = 0;
};

/// Parses name=file, name=file:+1 and a,b=file.
Result<std::vector<DataSpec>> parseDataSpec(const std::string &text);

/// Where the host writes an input that is whole in the arena.
using InputMemory = std::function<char *(const program::Input *)>;

class Dataset {
public:
  /// Opens and checks everything; each input of the program gets exactly one file, unless `fallback` has an unbatched
  /// one. `tokenBytes` is --token-bytes, 0 if not given. `flag` names the option in messages.
  static Result<Dataset> open(const program::Program *program, const std::vector<DataSpec> &specs, int tokenBytes,
                              const char *flag, const Dataset *fallback = nullptr);

  /// Samples of every batched input; 0 if the program has none.
  int64_t samples() const { return sampleCount; }
  bool hasBatchedInputs() const { return anyBatched; }
  /// Places of this rank's batch.
  int64_t places() const { return batch; }

  /// Fills the inputs without a batch dimension.
  Status fillFixed(ArenaRef arena);
  /// Writes sample `sample` into place `slot` of those of this rank's inputs that are not streamed, checking values.
  Status fillSample(const InputMemory &memory, int64_t slot, int64_t sample);
  /// These inputs.
  std::vector<const program::Input *> wholeInputs() const;
  /// Writes sample `sample` of a streamed input, sampleBytes(input), to `target`, checking values.
  Status readSample(const program::Input *input, char *target, int64_t sample);
  int64_t sampleBytes(const program::Input *input) const;
  /// Writes a sample of valid values that mean nothing.
  void writeValid(const program::Input *input, char *target) const;
  /// The file that feeds an input, as the user wrote it.
  std::string pathOf(const program::Input *input) const;

private:
  struct Source {
    const program::Input *input;
    File file;
    StoredTensor tensor;
    std::string path;     // as the user wrote it
    bool windows = false; // token windows rather than rows
    int64_t shift = 0;    // tokens
    int64_t samples = 0;
    int64_t outer = 1, inner = 1; // a sample is `outer` runs of `inner` elements, `stride` apart in the input
    int64_t stride = 0;
  };

  static bool isWhole(const program::Input *input) { return input->batch_dim() >= 0 && !input->streamed(); }
  Status readRun(Source &source, int64_t run, char *target, int64_t sample);
  Status openSource(const program::Input *input, const DataSpec &spec, int tokenBytes, const char *flag);
  Status checkValues(const Source &source, const char *data, int64_t count, int64_t sample) const;

  int64_t batch = 1; // places of this rank
  int64_t sampleCount = 0;
  bool anyBatched = false;
  std::vector<Source> sources;
  std::vector<char> buffer;
};

/// The sample at `position` of the endless sequence of epochs, each a permutation of its own (or file order).
class SampleOrder {
public:
  SampleOrder(int64_t samples, uint64_t seed, bool shuffle) : samples(samples), seed(seed), shuffle(shuffle) {}
  int64_t operator()(int64_t position) const;

private:
  int64_t samples;
  uint64_t seed;
  bool shuffle;
};

} // namespace scrimp::runtime

#endif
