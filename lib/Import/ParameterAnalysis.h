// The work behind analyzeParameters, shared by Parameters.cpp (what there is), Mends.cpp (what exporters did to it),
// Traced.cpp (the same, exactly, where torch's metadata tell) and Roles.cpp (what is trained).
#ifndef SCRIMP_LIB_IMPORT_PARAMETERANALYSIS_H
#define SCRIMP_LIB_IMPORT_PARAMETERANALYSIS_H

#include "Parameters.h"
#include "TorchMetadata.h"

#include "mlir/IR/Diagnostics.h"

namespace mlir::scrimp::onnx_import {

/// Above this many elements torch's exporter never merges equal initializers.
inline constexpr int64_t kMergeLimit = 1024;

/// Input `input` of the node with this index.
struct Use {
  size_t node;
  unsigned input;
};

class ParameterAnalysis {
public:
  ParameterAnalysis(Model &model, ArrayRef<bool> live, const llvm::StringSet<> &dataInputs,
                    const ImportOptions &options, MLIRContext *context, std::vector<std::string> &notes)
      : model(model), live(live), dataInputs(dataInputs), options(options), context(context), notes(notes) {}
  FailureOr<Parameters> run();

private:
  /// A value of the graph that may be a parameter.
  struct Candidate {
    std::string value;
    std::optional<WeightSource> source;
    Type elementType;
    SmallVector<int64_t> shape;
    /// The parameter that the value is the transpose of; "" when it is one itself.
    std::string transposeOf = "";
    /// The file's name for it, where it was parted from that.
    std::string origin = "";

    int64_t count() const {
      int64_t n = 1;
      for (int64_t dim : shape)
        n *= dim;
      return n;
    }
  };

  // Parameters.cpp
  InFlightDiagnostic error();
  LogicalResult readMetadata();
  LogicalResult collect();
  LogicalResult attachWeightsFile();
  /// Whether it is an entry of the state_dict that is no parameter.
  bool isPersistentBuffer(StringRef name) const;
  /// Checkpoints will hold the value as it is, since no argument does.
  void carry(StringRef name, WeightSource source);
  void findUses();
  void add(const Candidate &candidate);
  const std::vector<double> *values(const Candidate &candidate);
  bool isSplat(const Candidate &candidate);
  /// Whether the exporter made the name up; a name of the signature never is.
  bool isAnonymous(StringRef name) const {
    return signature ? !signature->byTarget(name) : isExporterName(name, model.fromTorch);
  }

  // Mends.cpp
  void part();
  void partByModules();
  void partCandidate(Candidate &candidate, std::vector<Candidate> &added);
  bool nameTransposed(const Candidate &candidate);
  std::optional<size_t> equalTranspose(const Candidate &candidate, StringRef name);
  void addHiddenTies(const Candidate &candidate, Parameter &parameter);
  void tellComputed(const Candidate &candidate);
  void tellDropped();

  // Traced.cpp
  void readSignature();
  const std::optional<TracedCall> &callOf(size_t node);
  std::string argumentName(StringRef value) const;
  std::optional<std::string> argumentOf(size_t node, unsigned input);
  void partTraced();
  void restoreBiases();
  void findLost();
  void tellLost();
  void tellMergedNodes();
  std::vector<std::string> foldedParameters(StringRef value) const;

  // Roles.cpp
  using Decision = std::pair<Parameter::Role, std::string>;
  Decision role(const Candidate &candidate, StringRef name);
  std::optional<Decision> signatureRole(const Candidate &candidate, StringRef name);
  std::optional<std::string> bufferReason(const Candidate &candidate, StringRef name);
  std::optional<std::string> useReason(const Candidate &candidate, bool anonymous);
  bool countsBatches(StringRef name);
  bool isMask(const Candidate &candidate);
  bool isSinusoidTable(const Candidate &candidate, StringRef name);
  bool isRotaryTable(const Candidate &candidate);
  bool feedsSoftmax(const Candidate &candidate);

  Model &model;
  ArrayRef<bool> live;
  const llvm::StringSet<> &dataInputs;
  const ImportOptions &options;
  MLIRContext *context;
  std::vector<std::string> &notes;
  bool hasMetadata = false; // scrimp-export's
  llvm::json::Object kinds, ties;
  std::optional<Signature> signature;           // torch.export's, where scrimp-export's is absent
  std::vector<std::optional<TracedCall>> calls; // by node, parsed when first asked for
  std::vector<char> parsedCalls;
  llvm::StringSet<> calledWith;  // values that some traced call of the file reads
  std::vector<std::string> lost; // parameters of the signature that the file does not hold
  llvm::StringSet<> explained;   // those of them that a note names already
  std::vector<Candidate> candidates;
  std::vector<std::string> opaque; // unused buffers of types that Scrimp does not compute with
  std::map<std::string, std::vector<Use>> uses;
  std::map<std::string, std::vector<double>> cache;
  llvm::StringSet<> names; // values and parameters that exist
  Parameters result;
};

/// Whether one of the glob patterns matches; `which` is the first that does.
bool matchesAny(ArrayRef<std::string> patterns, StringRef name, std::string &which);

} // namespace mlir::scrimp::onnx_import

#endif
