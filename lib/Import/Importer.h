// The steps from a checked model to @main, and what they leave to each other.
#ifndef SCRIMP_LIB_IMPORT_IMPORTER_H
#define SCRIMP_LIB_IMPORT_IMPORTER_H

#include "Loss.h"
#include "Parameters.h"

namespace mlir::scrimp::onnx_import {

/// Takes one model through; every method reports its own errors.
class Importer {
public:
  Importer(StringRef path, const ImportOptions &options, MLIRContext *context)
      : path(path), options(options), context(context), graph(context, options) {}
  FailureOr<ImportedModel> run();
  /// Instead of a loss: every output, with these inputs known.
  void takeGraphAlone(const llvm::StringMap<WeightSource> &values) { constants = &values; }

private:
  InFlightDiagnostic error() { return emitError(nameLoc(path, context)) << "'" << path << "' "; }
  LogicalResult readMetadata();
  LogicalResult chooseData();
  LogicalResult chooseLoss();
  LogicalResult checkDataNames();
  void findLive();
  LogicalResult checkOps();
  FailureOr<RankedTensorType> bindShape(const ValueInfo &input);
  LogicalResult addData();
  LogicalResult addParameters();
  LogicalResult buildNodes();
  FailureOr<Value> finishLoss();
  LogicalResult addResults(Value loss);
  LogicalResult checkOutputs();
  void tellModes();
  DictionaryAttr defaultInit(const Parameter &parameter);

  llvm::StringMap<llvm::json::Object> inits; // scrimp.parameters' "init", by parameter
  BlockArgument addArgument(StringRef name, RankedTensorType type, SmallVector<NamedAttribute> attributes);
  NamedAttribute attr(StringRef name, Attribute value) { return NamedAttribute(StringAttr::get(context, name), value); }

  std::string path;
  const ImportOptions &options;
  MLIRContext *context;
  GraphState graph;
  Model model;
  ImportedModel imported;
  llvm::StringSet<> dataInputs;
  std::optional<LossSpec> spec;
  std::string lossName; // without a spec: the graph's own
  std::vector<char> live;
  Parameters parameters;
  std::string batchSymbol;
  SmallVector<BlockArgument> counters;                      // of batches
  const llvm::StringMap<WeightSource> *constants = nullptr; // set: the graph alone
};

} // namespace mlir::scrimp::onnx_import

#endif
