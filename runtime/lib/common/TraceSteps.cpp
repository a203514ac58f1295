// --trace in a run: which steps it shows, and the one file that all ranks' parts become.
#include "Trainer.h"
#include "scrimp/runtime/Nvtx.h"
#include <algorithm>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace scrimp::runtime {

Trainer::~Trainer() { exchange->observe(nullptr); }

/// By default from the second step on: the first meets memory that has not been touched.
Status Trainer::findTracedSteps() {
  if (options.trace.empty())
    return Status::ok();
  firstTraced = std::min(state.step + 2, totalSteps);
  lastTraced = std::min(state.step + 4, totalSteps);
  if (options.traceSteps) {
    std::tie(firstTraced, lastTraced) = *options.traceSteps;
    if (lastTraced <= state.step || firstTraced > totalSteps)
      return Status::error("--trace-steps is %lld-%lld, but this run does the steps %lld to %lld",
                           (long long)firstTraced, (long long)lastTraced, (long long)state.step + 1,
                           (long long)totalSteps);
  }
  return Status::ok();
}

/// Before the first step, so that a file that cannot be written costs nothing.
Status Trainer::openTrace() {
  if (options.trace.empty())
    return Status::ok();
  trace.emplace(ranks.rank(), ranks.size(), pool->threads());
  if (Status status = Nvtx::open(); status.failed())
    warn(status.message() + "; a profiler sees no ranges");
  if (!ranks.isFirst())
    return Status::ok();
  Result<File> created = File::create(options.trace);
  if (created.failed())
    return Status::error("--trace: %s", created.status().message().c_str());
  traceFile = std::move(*created);
  traceIsPartial = true;
  return Status::ok();
}

void Trainer::observe(Trace *newTrace) {
  tracing = newTrace;
  exchange->observe(newTrace);
  pool->observe(newTrace);
  trainGraph->setTrace(newTrace);
  if (evalGraph)
    evalGraph->setTrace(newTrace);
}

/// Between two steps; what follows the last step belongs to it.
Status Trainer::switchTrace(bool isLast) {
  int64_t next = state.step + 1;
  bool isTraced = isLast ? tracing != nullptr : next >= firstTraced && next <= lastTraced;
  if (!trace || isTraced == (tracing != nullptr))
    return Status::ok();
  if (isTraced)
    if (Status status = trace->align(communicator); status.failed())
      return status;
  observe(isTraced ? &*trace : nullptr);
  return Status::ok();
}

Status Trainer::writeTrace() {
  if (!trace)
    return Status::ok();
  observe(nullptr);
  Result<double> dropped = ranks.sum(static_cast<double>(trace->dropped()));
  Result<int64_t> error = ranks.largest(static_cast<int64_t>(trace->clockError() * 1e9));
  if (dropped.failed() || error.failed())
    return dropped.failed() ? dropped.status() : error.status();
  Status status; // of the file; the other ranks go on to the end
  auto write = [&](const std::string &text) {
    if (ranks.isFirst() && !status.failed())
      status = traceFile.write(text.data(), text.size());
  };
  nlohmann::json about = {{"model", textOf(program->model())},
                          {"ranks", ranks.size()},
                          {"clock_error_us", static_cast<double>(*error) / 1e3},
                          {"dropped_events", *dropped}};
  write("{\"displayTimeUnit\":\"ms\",\"otherData\":" +
        about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + ",\"traceEvents\":[");
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  for (int rank = 0; rank < ranks.size(); ++rank)
    for (bool more = true, isFirst = !rank; more; isFirst = false) {
      std::string text;
      if (rank == ranks.rank())
        more = trace->nextText(host, text);
      int64_t header[2] = {static_cast<int64_t>(text.size()), more};
      if (Status shared = communicator.share(header, sizeof(header), rank); shared.failed())
        return shared;
      text.resize(static_cast<size_t>(header[0]));
      more = header[1];
      if (!text.empty())
        if (Status shared = communicator.share(text.data(), header[0], rank); shared.failed())
          return shared;
      write(isFirst ? text.substr(1) : text); // no comma before the first event
    }
  write("\n]}\n");
  traceFile = File(); // closes it
  if (status.failed())
    status = Status::error("--trace: %s", status.message().c_str());
  if (status = ranks.agree(status); status.failed())
    return status;
  traceIsPartial = false;
  if (!tracedSteps)
    warn("the run ended before the steps that --trace shows; it shows none");
  if (*dropped > 0)
    warn(format("--trace has no room for %.0f events; give fewer --trace-steps", *dropped));
  return Status::ok();
}

} // namespace scrimp::runtime
