// Agreement by small exchanges: a code of every rank, and only after a failure its text.
#include "Ranks.h"
#include "scrimp/runtime/Hash.h"
#include <algorithm>
#include <bit>
#include <map>

namespace scrimp::runtime {

Fact Fact::real(std::string what, double value) { return {std::move(what), std::bit_cast<int64_t>(value), Kind::real}; }

std::string Fact::textOf(int64_t other) const {
  switch (kind) {
  case Kind::integer:
    return std::to_string(other);
  case Kind::real:
    return format("%.17g", std::bit_cast<double>(other));
  case Kind::hash:
    return hashText(static_cast<uint64_t>(other));
  case Kind::flag:
    return other ? "yes" : "no";
  }
  return "";
}

Ranks::Ranks(Communicator &communicator)
    : communicator(communicator), codes(static_cast<size_t>(communicator.size())), values(codes.size()) {}

// Codes: 0 goes on, up to 64 is a signal's number, from here on is a failure and its weight.
static constexpr int64_t failed = 1000;

Status Ranks::agree(const Status &mine, int weight) {
  Result<int> signal = agreeOnSignal(mine, weight, 0);
  return signal.failed() ? signal.status() : Status::ok();
}

Result<int> Ranks::agreeOnSignal(const Status &mine, int weight, int signal) {
  if (size() == 1) {
    isTogether = mine.failed();
    if (mine.failed())
      return mine;
    return signal;
  }
  int64_t code = mine.failed() ? failed + weight : signal;
  if (Status status = communicator.gather(&code, codes.data(), sizeof(code)); status.failed())
    return mine.failed() ? mine : status;
  auto most = std::max_element(codes.begin(), codes.end());
  if (*most < failed)
    return static_cast<int>(*most);
  bool areAlike = std::equal(codes.begin() + 1, codes.end(), codes.begin());
  return share(mine, most - codes.begin(), !areAlike);
}

/// The failure of the rank `from`, on all ranks.
Status Ranks::share(Status mine, int64_t from, bool namesRank) {
  char text[1024] = "";
  snprintf(text, sizeof(text), "%s", mine.message().c_str());
  if (Status status = communicator.share(text, sizeof(text), static_cast<int>(from)); status.failed())
    return mine.failed() ? mine : status;
  isTogether = true;
  return namesRank ? Status::error("rank %lld: %s", (long long)from, text) : Status::errorText(text);
}

/// "16 on rank 0, 12 on ranks 1, 2"
static std::string describe(const Fact &fact, const std::vector<int64_t> &values) {
  constexpr size_t most = 8;
  std::map<int64_t, std::vector<size_t>> ranks;
  std::vector<int64_t> inOrder;
  for (size_t rank = 0; rank < values.size(); ++rank) {
    if (ranks[values[rank]].empty())
      inOrder.push_back(values[rank]);
    ranks[values[rank]].push_back(rank);
  }
  std::string text;
  for (int64_t value : inOrder) {
    const std::vector<size_t> &list = ranks[value];
    text += (text.empty() ? "" : ", ") + fact.textOf(value) + (list.size() > 1 ? " on ranks " : " on rank ");
    for (size_t i = 0; i < std::min(list.size(), most); ++i)
      text += (i ? ", " : "") + std::to_string(list[i]);
    if (list.size() > most)
      text += format(" and %zu more", list.size() - most);
  }
  return text;
}

Status Ranks::requireEqual(const std::vector<Fact> &facts, const std::string &advice) {
  if (size() == 1)
    return Status::ok();
  std::vector<int64_t> mine, all(facts.size() * codes.size()), one(codes.size());
  for (const Fact &fact : facts)
    mine.push_back(fact.value);
  if (Status status = communicator.gather(mine.data(), all.data(), static_cast<int64_t>(mine.size() * sizeof(int64_t)));
      status.failed())
    return status;
  for (size_t i = 0; i < facts.size(); ++i) {
    for (size_t rank = 0; rank < one.size(); ++rank)
      one[rank] = all[rank * facts.size() + i];
    if (std::equal(one.begin() + 1, one.end(), one.begin()))
      continue;
    isTogether = true;
    return Status::error("ranks differ in %s: %s; %s", facts[i].what.c_str(), describe(facts[i], one).c_str(),
                         advice.c_str());
  }
  return Status::ok();
}

Result<double> Ranks::sum(double mine) {
  if (size() == 1)
    return mine;
  if (Status status = communicator.gather(&mine, values.data(), sizeof(mine)); status.failed())
    return status;
  double total = values[0];
  for (size_t rank = 1; rank < values.size(); ++rank)
    total += values[rank];
  return total;
}

Result<int64_t> Ranks::largest(int64_t mine) {
  if (size() > 1)
    if (Status status = communicator.agree(mine); status.failed())
      return status;
  return mine;
}

} // namespace scrimp::runtime
