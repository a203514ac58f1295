// What compiler and runtime share about files of weights: names under another prefix, and files that are no
// safetensors.
#ifndef SCRIMP_RUNTIME_STATEDICT_H
#define SCRIMP_RUNTIME_STATEDICT_H

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace scrimp::runtime {

/// --init-rename FROM=TO: names that begin with `from` begin with `to` instead.
struct PrefixRename {
  std::string from, to;

  bool operator<(const PrefixRename &other) const { return std::tie(from, to) < std::tie(other.from, other.to); }
  bool empty() const { return from.empty() && to.empty(); }
  std::string apply(std::string_view name) const {
    if (empty() || name.substr(0, from.size()) != from)
      return std::string(name);
    return to + std::string(name.substr(from.size()));
  }
  /// "FROM=TO", either of which may be empty but not both; false if `text` is no such thing.
  bool parse(std::string_view text) {
    size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.size() == 1)
      return false;
    from = text.substr(0, equals);
    to = text.substr(equals + 1);
    return from != to;
  }
  std::string text() const { return from + "=" + to; }
};

/// The change of prefix that gives all of `wanted`, each a tensor under one of several names, one of `found`, as
/// wrappers make it (module. of DataParallel, _orig_mod. of torch.compile, the model's own name of a bare backbone);
/// empty if no one change does.
inline PrefixRename findRename(const std::vector<std::vector<std::string>> &wanted,
                               const std::vector<std::string> &found) {
  auto endsWith = [](std::string_view name, std::string_view end) {
    return name.size() > end.size() && name.substr(name.size() - end.size()) == end &&
           name[name.size() - end.size() - 1] == '.';
  };
  std::set<PrefixRename> tried;
  for (const std::string &candidate : found)
    for (const std::string &first : wanted.empty() ? std::vector<std::string>() : wanted.front()) {
      PrefixRename rename;
      if (endsWith(candidate, first))
        rename.from = candidate.substr(0, candidate.size() - first.size());
      else if (endsWith(first, candidate))
        rename.to = first.substr(0, first.size() - candidate.size());
      else
        continue;
      if (!tried.insert(rename).second)
        continue;
      std::set<std::string> renamed;
      for (const std::string &name : found)
        renamed.insert(rename.apply(name));
      bool all = true;
      for (const std::vector<std::string> &names : wanted) {
        bool here = false;
        for (const std::string &name : names)
          here |= renamed.count(name) > 0;
        all &= here;
      }
      if (all)
        return rename;
    }
  return {};
}

/// What the first bytes of a file say it is, to follow its name in a message; null if they do not. torch.save writes a
/// zip archive, or the pickle itself before PyTorch 1.6.
inline const char *whyNoSafetensors(const void *bytes, size_t count) {
  bool pickle = count >= 4 && (!memcmp(bytes, "PK\3\4", 4) || !memcmp(bytes, "\x80\2\x8a\n", 4));
  return pickle ? "is a PyTorch pickle (torch.save), which may run code when it is opened; save its tensors by "
                  "safetensors.torch.save_file"
                : nullptr;
}

} // namespace scrimp::runtime

#endif
