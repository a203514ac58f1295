// JSON in which no object has a key twice: parsers keep one of the values and say nothing.
// Shared with the compiler: depends on nlohmann/json alone.
#ifndef SCRIMP_RUNTIME_JSON_H
#define SCRIMP_RUNTIME_JSON_H

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace scrimp::runtime {

/// The value, discarded if `text` is no JSON. `repeated` becomes the first key that an object has twice.
inline nlohmann::json parseJson(const std::string &text, std::string &repeated) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> open; // the keys of the objects that are open
  auto watch = [&](int, Event event, nlohmann::json &value) {
    if (event == Event::object_start)
      open.emplace_back();
    else if (event == Event::object_end)
      open.pop_back();
    else if (event == Event::key && !open.back().insert(value.get<std::string>()).second && repeated.empty())
      repeated = value.get<std::string>();
    return true;
  };
  return nlohmann::json::parse(text, watch, /*allow_exceptions=*/false);
}

} // namespace scrimp::runtime

#endif
