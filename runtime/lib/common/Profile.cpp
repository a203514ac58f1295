#include "scrimp/runtime/Profile.h"
#include "scrimp/runtime/Status.h"
#include <algorithm>
#include <map>

namespace scrimp::runtime {

namespace {
struct Line {
  std::string what, where;
  double seconds = 0, expected = 0;
  int64_t runs = 0;

  void add(const CommandTiming &timing) {
    seconds += timing.seconds;
    expected += timing.expected;
    runs += timing.runs;
  }
};
} // namespace

std::string profileText(const std::vector<CommandTiming> &timings, int64_t steps, double seconds, size_t most) {
  std::map<std::string, Line> kinds, names;
  double known = 0;
  bool expected = false;
  for (const CommandTiming &timing : timings) {
    std::string what(timing.what), where(timing.where);
    Line &kind = kinds[what], &name = names[what + " " + where];
    kind.what = name.what = what;
    name.where = where;
    kind.add(timing);
    name.add(timing);
    known += timing.seconds;
    expected |= timing.expected > 0;
  }
  double scale = 1e3 / static_cast<double>(std::max<int64_t>(steps, 1)), whole = std::max(seconds, 1e-12);
  std::string text;
  auto print = [&](const Line &line) {
    text += format("%10.3f %6.1f%%", line.seconds * scale, 100 * line.seconds / whole);
    if (expected)
      text += format(" %10.3f", line.expected * scale);
    text += format(" %8lld  %-20s%s\n", (long long)(line.runs / std::max<int64_t>(steps, 1)), line.what.c_str(),
                   line.where.c_str());
  };
  auto table = [&](const std::map<std::string, Line> &lines) {
    std::vector<const Line *> sorted;
    for (const auto &entry : lines)
      sorted.push_back(&entry.second);
    std::sort(sorted.begin(), sorted.end(), [](const Line *a, const Line *b) { return a->seconds > b->seconds; });
    text += format("%10s %7s%s %8s\n", "ms/step", "share", expected ? "   expected" : "", "runs");
    Line rest{"others", "", 0, 0, 0};
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (i < most) {
        print(*sorted[i]);
        continue;
      }
      rest.seconds += sorted[i]->seconds;
      rest.expected += sorted[i]->expected;
      rest.runs += sorted[i]->runs;
    }
    if (sorted.size() > most)
      print(rest);
  };
  Line loop{"no command", "(batches, scalars, the loop)", std::max(0.0, seconds - known), 0, 0};
  table(kinds);
  print(loop);
  text += "\n";
  table(names);
  return text;
}

} // namespace scrimp::runtime
