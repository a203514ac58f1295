// Evaluation: the graph "eval" over the evaluation data, in file order.
#include "Trainer.h"

namespace scrimp::runtime {

using namespace program;

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
    if (evalData->hasBatchedInputs())
      for (int64_t slot = 0; slot < batch; ++slot) {
        // An empty place holds valid values, which the graph leaves out.
        int64_t sample = first + std::min(slot, filled - 1);
        if (Status status = evalData->fillSample(arena.base(), slot, sample); status.failed())
          return Status::error("--eval-data: %s", status.message().c_str());
      }
    ScalarInputs inputs = scalarInputs(std::max<int64_t>(state.step, 1), std::max<int64_t>(state.updates, 1));
    inputs.validSamples = filled;
    writeScalars(inputs);
    evalGraph->run();
    if (sum && count) {
      total += evalGraph->output(sum);
      weight += evalGraph->output(count);
    } else {
      // The loss is a sum over the batch's places, empty ones adding nothing.
      total += evalGraph->output(loss) * static_cast<double>(batch);
      weight += static_cast<double>(filled);
    }
  }
  return weight != 0 ? total / weight : 0.0;
}

Status Trainer::evaluate() {
  if (evaluatedStep == state.step)
    return Status::ok();
  if (Status status = evalData->fillFixed(arena.base()); status.failed())
    return Status::error("--eval-data: %s", status.message().c_str());
  Result<double> loss = evaluateBatches();
  if (loss.failed())
    return loss.status();
  // Evaluation may have brought its own values for the inputs that every sample shares.
  if (Status status = data->fillFixed(arena.base()); status.failed())
    return status;
  evaluatedStep = state.step;
  lastEvalLoss = *loss;
  return metrics.evaluation(state.step, *loss);
}

} // namespace scrimp::runtime
