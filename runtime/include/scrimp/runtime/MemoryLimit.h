// What a process may take, which compiler (--memory-budget max) and runtime (before it starts) ask alike.
#ifndef SCRIMP_RUNTIME_MEMORYLIMIT_H
#define SCRIMP_RUNTIME_MEMORYLIMIT_H

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace scrimp::runtime {

struct MemoryLimit {
  int64_t bytes = 0, used = 0; // by all that share it
  std::string source;          // where it is written
};

namespace memory_limit {

/// The number that a file begins with; none without it, or where it says that there is no limit.
inline std::optional<int64_t> readNumber(const std::string &file) {
  std::ifstream stream(file);
  int64_t value;
  if (!(stream >> value) || value < 0 || value > INT64_C(1) << 60)
    return std::nullopt;
  return value;
}

/// The bytes that /proc/meminfo states for `key`.
inline int64_t readMeminfo(const std::string &key) {
  std::ifstream stream("/proc/meminfo");
  std::string name, rest;
  for (int64_t kib; stream >> name >> kib; std::getline(stream, rest))
    if (name == key + ":")
      return kib * 1024;
  return 0;
}

} // namespace memory_limit

/// All limits on this process: of its memory cgroup (version 2 or 1) and those around it, RLIMIT_AS, RLIMIT_DATA, and the
/// machine's memory.
inline std::vector<MemoryLimit> findMemoryLimits() {
  using namespace memory_limit;
  std::vector<MemoryLimit> limits;
  auto addGroups = [&](const std::string &root, std::string group, const char *most, const char *now) {
    for (;; group.erase(group.rfind('/'))) {
      std::string folder = root + group + "/";
      if (std::optional<int64_t> bytes = readNumber(folder + most))
        limits.push_back({*bytes, readNumber(folder + now).value_or(0), folder + most});
      if (group.find('/') == std::string::npos)
        return;
    }
  };
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",", group = line.substr(second + 1);
    if (group == "/")
      group.clear();
    if (line.rfind("0::", 0) == 0)
      addGroups("/sys/fs/cgroup", group, "memory.max", "memory.current");
    else if (controllers.find(",memory,") != std::string::npos)
      addGroups("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes");
  }
  for (auto [resource, name] : {std::pair{RLIMIT_AS, "RLIMIT_AS (ulimit -v)"}, {RLIMIT_DATA, "RLIMIT_DATA (ulimit -d)"}})
    if (rlimit limit; !getrlimit(resource, &limit) && limit.rlim_cur < UINT64_C(1) << 60)
      limits.push_back({static_cast<int64_t>(limit.rlim_cur), 0, name});
  if (int64_t total = readMeminfo("MemTotal"))
    limits.push_back({total, total - readMeminfo("MemAvailable"), "the machine's memory"});
  return limits;
}

} // namespace scrimp::runtime

#endif
