// Evaluation: the graph "eval" over the evaluation data, in file order.
#include "Trainer.h"

namespace scrimp::runtime {

using namespace program;

/// In this rank's part of the batch under way. An empty place holds valid values, which the graph leaves out.
int64_t Trainer::evalSampleIn(int64_t place) const {
  return evalFirst + (evalOwn ? share.begin + std::min(place, evalOwn - 1) : evalFilled - 1);
}

/// The loss over all samples: sum over count where the graph gives both, else the mean of the batches' losses weighted
/// by their samples. The last batch may be a part of one where the graph takes the number of its samples; else it is
/// left out.
Result<double> Trainer::evaluateBatches() {
  const Output *sum = findOutput(evalProgram, "loss_sum"), *count = findOutput(evalProgram, "loss_count");
  const Output *loss = findOutput(evalProgram, "loss");
  if (!(sum && count) && !loss)
    return Status::error("the evaluation graph has neither loss nor loss_sum and loss_count");
  int64_t batch = program->batch(), samples = evalData->hasBatchedInputs() ? evalData->samples() : batch;
  bool drops = program->eval_drops_partial();
  double total = 0, weight = 0;
  for (int64_t first = 0; first < samples; first += batch) {
    int64_t filled = std::min(batch, samples - first);
    if (filled < batch && drops) {
      if (!warnedPartial)
        warn(format("the last %lld of %lld evaluation samples are left out: this model evaluates whole batches of %lld",
                    (long long)filled, (long long)samples, (long long)batch));
      warnedPartial = true;
      break;
    }
    evalFirst = first;
    evalFilled = filled;
    evalOwn = std::clamp<int64_t>(filled - share.begin, 0, share.count);
    if (Status status = ranks.agree(evalBatch->fill()); status.failed())
      return status;
    ScalarInputs inputs = scalarInputs(std::max<int64_t>(state.step, 1), std::max<int64_t>(state.updates, 1), evalOwn);
    if (Status status = writeScalars(inputs, /*slot=*/0); status.failed())
      return status;
    if (Result<const CheckFinite *> ran = evalGraph->run(); ran.failed())
      return ran.status();
    Result<double> value = valueOf(*evalGraph, sum && count ? sum : loss);
    if (value.failed())
      return value;
    if (sum && count) {
      Result<double> counted = valueOf(*evalGraph, count);
      if (counted.failed())
        return counted;
      total += *value;
      weight += *counted;
    } else {
      // The loss is a sum over the batch's places, empty ones adding nothing.
      total += *value * static_cast<double>(batch);
      weight += static_cast<double>(filled);
    }
  }
  if (Status status = ranks.agree(evalBatch->failure()); status.failed())
    return status;
  return weight != 0 ? total / weight : 0.0;
}

Status Trainer::evaluate() {
  if (evaluatedStep == state.step)
    return Status::ok();
  TraceSpan span(tracing, "evaluate", "evaluate");
  Status filled = evalData->fillFixed(*arena);
  if (filled.failed())
    filled = Status::error("--eval-data: %s", filled.message().c_str());
  if (filled = ranks.agree(filled); filled.failed())
    return filled;
  Result<double> loss = evaluateBatches();
  if (loss.failed())
    return loss.status();
  // Evaluation may have brought its own values for the inputs that every sample shares.
  if (Status status = data->fillFixed(*arena); status.failed())
    return status;
  evaluatedStep = state.step;
  lastEvalLoss = *loss;
  return metrics.evaluation(state.step, *loss);
}

} // namespace scrimp::runtime
