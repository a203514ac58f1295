// Recording events in memory that is reserved once, and their text.
#include "scrimp/runtime/Trace.h"
#include "scrimp/runtime/Clock.h"
#include "scrimp/runtime/Nvtx.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace scrimp::runtime {

// Rows of a rank: 0 walks the commands, then the pool's other threads by their numbers, then collectives.
static constexpr int firstCommunicationRow = 1 << 16;

Trace::Trace(int rank, int ranks, int threads, size_t most)
    : rank(rank), ranks(ranks), most(most), shares(static_cast<size_t>(threads)) {
  // Room that is not used is never touched, and takes no memory.
  spans.reserve(most);
  collectives.reserve(most);
  for (Shares &own : shares)
    own.list.reserve(most / 4);
}

Status Trace::align(Communicator &communicator) {
  constexpr int exchanges = 32;
  struct Times {
    double sent, before; // `before`: when what was sent one exchange earlier had arrived
  };
  std::vector<Times> all(static_cast<size_t>(ranks));
  double least = -std::numeric_limits<double>::infinity(), largest = -least, arrived = 0, sentBefore = 0;
  for (int i = 0; i < exchanges; ++i) {
    Times mine{now(), arrived};
    if (Status status = communicator.gather(&mine, all.data(), sizeof(mine)); status.failed())
      return status;
    arrived = now();
    least = std::max(least, all[0].sent - arrived);
    if (i)
      largest = std::min(largest, all[0].before - sentBefore);
    sentBefore = mine.sent;
  }
  offset = rank ? (least + largest) / 2 : 0;
  errorSeconds = rank ? (largest - least) / 2 : 0;
  origin = all[0].sent;
  return Status::ok();
}

Trace::Index Trace::open(std::string_view category, std::string_view name, int64_t number, double expected) {
  current = none;
  if (spans.size() == most) {
    ++left;
    return none;
  }
  current = static_cast<Index>(spans.size());
  Nvtx::begin(name.empty() ? category : name, number);
  spans.push_back({category, name, now(), 0, expected, number, 0});
  return current;
}

void Trace::close(Index index) {
  if (index == none)
    return;
  spans[index].end = now();
  Nvtx::end();
}

void Trace::rename(Index index, std::string_view category, std::string_view name, int64_t number) {
  if (index == none)
    return;
  spans[index].category = category;
  spans[index].name = name;
  spans[index].number = number;
  Nvtx::end();
  Nvtx::begin(name.empty() ? category : name, number);
}

void Trace::relate(Index index, Communicator::Handle handle) {
  if (index != none)
    spans[index].collective = handle;
}

void Trace::started(Communicator::Handle handle, const CollectiveCall &call) {
  if (collectives.size() == most) {
    ++left;
    return;
  }
  collectives.push_back({call, handle, now(), 0, 0, 0, 0});
}

/// Handles count on by one; null for what has been started before.
Trace::Collective *Trace::find(Communicator::Handle handle) {
  if (collectives.empty())
    return nullptr;
  Communicator::Handle at = handle - collectives.front().handle;
  return at >= 0 && at < static_cast<Communicator::Handle>(collectives.size()) ? &collectives[static_cast<size_t>(at)]
                                                                               : nullptr;
}

void Trace::began(Communicator::Handle handle) {
  if (Collective *collective = find(handle))
    collective->underWay = now();
}

void Trace::ended(Communicator::Handle handle, int64_t sentBytes) {
  if (Collective *collective = find(handle)) {
    collective->end = now();
    collective->sentBytes = sentBytes;
  }
}

void Trace::ran(int worker, uint64_t job, double begin, double end) {
  if (!worker || current == none) // the first thread's work is the span itself
    return;
  Shares &own = shares[static_cast<size_t>(worker)];
  if (!own.list.empty() && own.list.back().job == job)
    own.list.back().end = end;
  else if (own.list.size() < own.list.capacity())
    own.list.push_back({current, job, begin, end});
  else
    ++own.left;
}

int64_t Trace::dropped() const {
  int64_t all = left;
  for (const Shares &own : shares)
    all += own.left;
  return all;
}

/// Collectives that are under way at one time take rows of their own.
void Trace::assignLanes() {
  std::vector<double> ends;
  for (Collective &collective : collectives) {
    size_t lane = 0;
    while (lane < ends.size() && ends[lane] > collective.begin)
      ++lane;
    ends.resize(std::max(ends.size(), lane + 1));
    ends[lane] = collective.end;
    collective.lane = static_cast<int>(lane);
  }
  lanes = static_cast<int>(ends.size());
}

int64_t Trace::nanoseconds(double time) const { return std::llround((time + offset - origin) * 1e9); }

static std::string jsonText(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Microseconds, as the format has them, to the nanosecond.
static std::string microseconds(int64_t nanoseconds) {
  uint64_t size = nanoseconds < 0 ? -static_cast<uint64_t>(nanoseconds) : static_cast<uint64_t>(nanoseconds);
  return format("%s%llu.%03llu", nanoseconds < 0 ? "-" : "", (unsigned long long)(size / 1000),
                (unsigned long long)(size % 1000));
}

void Trace::appendSlice(std::string_view name, std::string_view category, int row, double begin, double end,
                        const std::string &arguments, std::string &text) const {
  int64_t first = nanoseconds(begin), last = std::max(nanoseconds(end), first);
  text += format(",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s,\"cat\":%s,\"name\":%s,\"args\":{%s}}",
                 rank, row, microseconds(first).c_str(), microseconds(last - first).c_str(), jsonText(category).c_str(),
                 jsonText(name).c_str(), arguments.c_str());
}

/// One end (s, f) or station (t) of the arrow through what concerns one collective.
void Trace::appendFlow(char phase, Communicator::Handle handle, int row, double at, std::string &text) const {
  text += format(",\n{\"ph\":\"%c\",\"bp\":\"e\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"id\":%lld,\"cat\":\"communication\","
                 "\"name\":\"collective\"}",
                 phase, rank, row, microseconds(nanoseconds(at)).c_str(), (long long)(handle * ranks + rank));
}

void Trace::appendSpan(const Span &span, std::string &text) const {
  std::string name(span.name.empty() ? span.category : span.name), arguments = "\"what\":" + jsonText(span.category);
  if (span.number >= 0)
    name += format(" %lld", (long long)span.number);
  if (span.expected > 0)
    arguments += format(",\"expected_us\":%.3f", span.expected * 1e6);
  if (span.collective)
    arguments += format(",\"collective\":%lld", (long long)span.collective);
  // A failure has left it open.
  double end = span.end ? span.end : span.begin;
  if (!span.end)
    for (const Span &other : spans)
      end = std::max({end, other.begin, other.end});
  bool waits = span.category == "wait";
  if (span.collective)
    name = (waits ? "wait for " : "start ") + name;
  appendSlice(name, span.category, 0, span.begin, end, arguments, text);
  if (span.collective)
    appendFlow(waits ? 'f' : 's', span.collective, 0, span.begin, text);
}

void Trace::appendCollective(const Collective &collective, std::string &text) const {
  const CollectiveCall &call = collective.call;
  if (!collective.end) // a failure came first
    return;
  bool hasParts =
      call.kind == program::CollectiveKind::reduce_scatter || call.kind == program::CollectiveKind::all_gather;
  int64_t elements = call.elements * (hasParts ? ranks : 1);
  const char *kind = program::EnumNameCollectiveKind(call.kind);
  std::string arguments =
      format("\"collective\":%lld,\"kind\":\"%s\",\"dtype\":\"%s\",\"wire\":\"%s\",\"elements\":%lld,\"bytes\":%lld,"
             "\"queued_us\":%.3f",
             (long long)collective.handle, kind, dtypeName(call.dtype), dtypeName(call.wire), (long long)elements,
             (long long)(elements * elementBytes(call.dtype)), (collective.underWay - collective.begin) * 1e6);
  if (call.isCounted)
    arguments += format(",\"sent_bytes\":%lld", (long long)collective.sentBytes);
  int row = firstCommunicationRow + collective.lane;
  std::string name = call.isCounted ? format("%s ", kind) + std::string(call.name) : std::string(call.name);
  appendSlice(name, call.isCounted ? kind : "agreement", row, collective.begin, collective.end, arguments, text);
  if (call.isCounted)
    appendFlow('t', collective.handle, row, collective.begin, text);
}

void Trace::appendMetadata(const std::string &host, std::string &text) const {
  auto add = [&](const char *what, int row, const std::string &arguments) {
    text += format(",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{%s}}", rank, row, what,
                   arguments.c_str());
  };
  auto addRow = [&](int row, const std::string &name, int place) {
    add("thread_name", row, "\"name\":" + jsonText(name));
    add("thread_sort_index", row, format("\"sort_index\":%d", place));
  };
  add("process_name", 0, "\"name\":" + jsonText(format("rank %d", rank)));
  std::string label = host + (rank ? format(", clock to %.1f us", errorSeconds * 1e6) : "");
  add("process_labels", 0, "\"labels\":" + jsonText(label));
  add("process_sort_index", 0, format("\"sort_index\":%d", rank));
  addRow(0, "commands", 0);
  for (int lane = 0; lane < lanes; ++lane)
    addRow(firstCommunicationRow + lane, lane ? format("communication %d", lane + 1) : "communication", 1 + lane);
  for (size_t worker = 1; worker < shares.size(); ++worker)
    addRow(static_cast<int>(worker), format("thread %zu", worker), firstCommunicationRow + static_cast<int>(worker));
}

bool Trace::nextText(const std::string &host, std::string &text) {
  constexpr size_t portion = 1 << 20;
  if (!nextItem++) {
    assignLanes();
    appendMetadata(host, text);
  }
  // Items are counted through all lists, one behind the other.
  for (; text.size() < portion; ++nextItem) {
    size_t item = nextItem - 1;
    if (item < spans.size()) {
      appendSpan(spans[item], text);
      continue;
    }
    item -= spans.size();
    if (item < collectives.size()) {
      appendCollective(collectives[item], text);
      continue;
    }
    item -= collectives.size();
    size_t worker = 0;
    while (worker < shares.size() && item >= shares[worker].list.size())
      item -= shares[worker++].list.size();
    if (worker == shares.size())
      return false;
    const Share &share = shares[worker].list[item];
    const Span &span = spans[share.span];
    appendSlice(span.name.empty() ? span.category : span.name, span.category, static_cast<int>(worker), share.begin,
                share.end, "\"what\":" + jsonText(span.category), text);
  }
  return true;
}

} // namespace scrimp::runtime
