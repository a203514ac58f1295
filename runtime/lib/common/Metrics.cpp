// Metrics, progress and peak memory, in fixed buffers.
#include "scrimp/runtime/Metrics.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace scrimp::runtime {

PeakMemory::PeakMemory() {
  if (Result<File> file = File::open("/proc/self/status"); !file.failed())
    status = std::move(*file);
}

uint64_t PeakMemory::bytes() const {
  char text[4096];
  if (!status)
    return 0;
  // The file has no size of its own and is regenerated on each read from its start.
  size_t got = status->readSome(0, text, sizeof(text) - 1);
  text[got] = '\0';
  const char *line = strstr(text, "VmHWM:");
  return line ? strtoull(line + 6, nullptr, 10) * 1024 : 0;
}

namespace {

/// A JSON number, or null where JSON has none.
struct Number {
  char text[32];
  explicit Number(double value) {
    if (std::isfinite(value))
      snprintf(text, sizeof(text), "%.17g", value);
    else
      snprintf(text, sizeof(text), "null");
  }
};

} // namespace

Status MetricsFile::open(const std::string &path, bool append) {
  Result<File> created = File::create(path, append);
  if (created.failed())
    return Status::error("--metrics: %s", created.status().message().c_str());
  file = std::move(*created);
  return Status::ok();
}

Status MetricsFile::step(const StepReport &r, uint64_t peakBytes) {
  if (!file)
    return Status::ok();
  char text[1024], norm[64] = "", scale[96] = "", sent[160] = "";
  if (r.hasGradNorm)
    snprintf(norm, sizeof(norm), ", \"grad_norm\": %s", Number(r.gradNorm).text);
  if (r.lossScale)
    snprintf(scale, sizeof(scale), ", \"loss_scale\": %s, \"scale_skips\": %lld", Number(r.lossScale).text,
             (long long)r.scaleSkips);
  if (r.hasRanks)
    snprintf(sent, sizeof(sent), ", \"sent_elements\": %lld, \"sent_bytes\": %lld, \"comm_wait_seconds\": %s",
             (long long)r.sentElements, (long long)r.sentBytes, Number(r.waited).text);
  int length = snprintf(text, sizeof(text),
                        "{\"step\": %lld, \"loss\": %s%s, \"lr\": %s%s, \"samples\": %lld, \"tokens\": %lld, "
                        "\"seconds\": %s, \"arena_bytes\": %llu, \"peak_rss_bytes\": %llu%s%s",
                        (long long)r.step, Number(r.loss).text, norm, Number(r.lr).text, scale, (long long)r.samples,
                        (long long)r.tokens, Number(r.seconds).text, (unsigned long long)r.arenaBytes,
                        (unsigned long long)peakBytes, sent, r.skipped ? ", \"skipped\": true" : "");
  if (r.nonFinite) { // such a step may allocate
    std::string name = nlohmann::json(r.nonFinite).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::string line = std::string(text, static_cast<size_t>(length)) + ", \"nonfinite\": " + name + "}\n";
    return append(line.data(), static_cast<int>(line.size()));
  }
  memcpy(text + length, "}\n", 2);
  return append(text, length + 2);
}

Status MetricsFile::append(const char *text, int length) {
  Status status = file->write(text, static_cast<uint64_t>(length));
  return status.failed() ? Status::error("--metrics: %s", status.message().c_str()) : status;
}

Status MetricsFile::evaluation(int64_t step, double loss) {
  if (!file)
    return Status::ok();
  char text[128];
  int length =
      snprintf(text, sizeof(text), "{\"step\": %lld, \"eval_loss\": %s}\n", (long long)step, Number(loss).text);
  return append(text, length);
}

Progress::Progress() : terminal(isatty(STDOUT_FILENO)) {}

/// One line to stdout; stdio would allocate.
static void put(const char *text, int length) {
  [[maybe_unused]] ssize_t written = write(STDOUT_FILENO, text, static_cast<size_t>(length));
}

void Progress::step(const StepReport &r, double elapsed, int64_t stepsThisRun, int64_t samplesThisRun,
                    int64_t tokensThisRun) {
  // Five times a second is as fast as anyone reads, and the last step is always shown. A log is for later: ten seconds.
  if (terminal ? elapsed - lastShown < 0.2 && r.step != r.totalSteps && lastShown >= 0
               : elapsed - std::max(lastShown, 0.0) < 10)
    return;
  lastShown = elapsed;
  bool tokens = tokensThisRun > 0;
  double rate = static_cast<double>(tokens ? tokensThisRun : samplesThisRun) / (elapsed > 0 ? elapsed : 1e-9);
  auto eta =
      static_cast<long long>(elapsed / static_cast<double>(stepsThisRun) * static_cast<double>(r.totalSteps - r.step));
  char text[768]; // a double may print as 314 characters
  int length =
      snprintf(text, sizeof(text), "%sstep %lld/%lld  loss %.4f  %.1f %s/s  %.1f MiB  ETA %lld:%02lld:%02lld%s",
               terminal ? "\r\033[K" : "", (long long)r.step, (long long)r.totalSteps, r.loss, rate,
               tokens ? "tokens" : "samples", static_cast<double>(r.arenaBytes) / (1 << 20), eta / 3600, eta / 60 % 60,
               eta % 60, terminal ? "" : "\n");
  open = terminal;
  put(text, length);
}

void Progress::evaluation(int64_t step, double loss) {
  char text[128];
  const char *clear = open ? "\r\033[K" : "";
  put(text, snprintf(text, sizeof(text), "%sstep %lld  eval loss %.4f\n", clear, (long long)step, loss));
  open = false;
}

void Progress::finish() {
  if (open)
    put("\n", 1);
  open = false;
}

} // namespace scrimp::runtime
