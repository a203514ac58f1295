// --trace: one valid file in the Trace Event Format, whose events nest and are called as the model calls them.
#include "scrimp/runtime/Trace.h"
#include "TestProgram.h"
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

using namespace scrimp::runtime;
using nlohmann::json;

namespace {

const std::string data = "--data x={}/x.npy labels={}/labels.npy ";

struct Slice {
  int64_t begin, end; // nanoseconds
  std::string name, category;
  json arguments;
};

int64_t nanosecondsOf(const json &microseconds) { return std::llround(microseconds.get<double>() * 1e3); }

/// A trace by process and row.
struct Read {
  json file;
  std::map<std::pair<int, int>, std::vector<Slice>> rows;
  std::map<std::pair<int, int>, std::string> names; // of rows

  explicit Read(const std::string &text) {
    file = json::parse(text); // throws where it is no JSON
    for (const json &event : file["traceEvents"]) {
      std::pair<int, int> row{event["pid"], event["tid"]};
      if (event["name"] == "thread_name")
        names[row] = event["args"]["name"];
      if (event["ph"] != "X")
        continue;
      int64_t begin = nanosecondsOf(event["ts"]), end = begin + nanosecondsOf(event["dur"]);
      rows[row].push_back({begin, end, event["name"], event["cat"], event["args"]});
    }
  }

  /// The slices of the row called `name` of a rank.
  const std::vector<Slice> &row(int rank, const std::string &name) {
    for (auto &[row, found] : names)
      if (row.first == rank && found == name)
        return rows[row];
    static const std::vector<Slice> empty;
    return empty;
  }

  /// Slices of a row are inside one another, or apart; an outer one comes first.
  void expectNested() const {
    for (auto &[row, slices] : rows) {
      std::vector<Slice> open;
      int64_t before = INT64_MIN;
      for (const Slice &slice : slices) {
        EXPECT_LE(before, slice.begin) << slice.name;
        before = slice.begin;
        while (!open.empty() && open.back().end <= slice.begin)
          open.pop_back();
        if (!open.empty())
          EXPECT_LE(slice.end, open.back().end) << slice.name << " in " << open.back().name;
        open.push_back(slice);
      }
    }
  }
};

std::vector<std::string> namesOf(const std::vector<Slice> &slices, const std::string &category) {
  std::vector<std::string> names;
  for (const Slice &slice : slices)
    if (slice.category == category)
      names.push_back(slice.name);
  return names;
}

std::vector<std::string> steps(int first, int last) {
  std::vector<std::string> names;
  for (int step = first; step <= last; ++step)
    names.push_back("step " + std::to_string(step));
  return names;
}

} // namespace

TEST(Trace, OneProcess) {
  TestProgram test;
  test.writeData(8);
  ASSERT_EQ(test.run(data + "--threads 1 --steps 8 --trace {}/t.json"), 0) << test.err;
  EXPECT_EQ(test.err, "");
  Read trace(readBytes(test.path("t.json")));
  trace.expectNested();
  const std::vector<Slice> &commands = trace.row(0, "commands");
  EXPECT_EQ(namesOf(commands, "step"), steps(2, 4));
  EXPECT_EQ(namesOf(commands, "data").size(), 3u);
  // As many kernels a step as the graph launches, under the names that the program gives them.
  size_t launches = 0;
  for (auto &command : test.table.graphs.front()->commands)
    launches += command->body.AsLaunch() != nullptr;
  EXPECT_EQ(namesOf(commands, "kernel").size(), 3 * launches);
  EXPECT_EQ(trace.file["otherData"]["dropped_events"], 0);
}

TEST(Trace, StepsAreChosenAndBounded) {
  TestProgram test;
  test.writeData(8);
  std::string run = data + "--threads 1 --trace {}/t.json ";
  ASSERT_EQ(test.run(run + "--steps 9 --trace-steps 6-7 --save {}/c"), 0) << test.err;
  EXPECT_EQ(namesOf(Read(readBytes(test.path("t.json"))).row(0, "commands"), "step"), steps(6, 7));
  // A resumed run counts on. What follows the last step is shown with it.
  ASSERT_EQ(test.run(run + "--steps 11 --resume {}/c --save {}/d"), 0) << test.err;
  Read resumed(readBytes(test.path("t.json")));
  EXPECT_EQ(namesOf(resumed.row(0, "commands"), "step"), steps(11, 11));
  EXPECT_EQ(namesOf(resumed.row(0, "commands"), "save").size(), 1u);
  ASSERT_EQ(test.run(run + "--steps 1"), 0) << test.err;
  EXPECT_EQ(namesOf(Read(readBytes(test.path("t.json"))).row(0, "commands"), "step"), steps(1, 1));

  struct Case {
    std::string flags, message;
  };
  const Case cases[] = {
      {"--trace {}/t.json --trace-steps 6", "--trace-steps is 6-6, but this run does the steps 1 to 5"},
      {"--trace {}/t.json --trace-steps 3-2", "--trace-steps is '3-2', expected a step or FIRST-LAST, counted from 1"},
      {"--trace {}/t.json --trace-steps 2-3x",
       "--trace-steps is '2-3x', expected a step or FIRST-LAST, counted from 1"},
      {"--trace-steps 2", "--trace-steps needs --trace FILE"},
      {"--trace {}/none/t.json", "--trace: cannot write '" + test.path("none/t.json") + "': No such file or directory"},
      {"--trace {}/x.npy", "--trace: '" + test.path("x.npy") + "' is a file that this run reads; name another"},
      {"--trace {}/m --metrics {}/m", "--trace and --metrics are both '" + test.path("m") + "'; name another"},
  };
  std::filesystem::remove(test.path("t.json"));
  for (const Case &each : cases) {
    EXPECT_EQ(test.run(data + "--threads 1 --steps 5 " + each.flags), 1);
    EXPECT_EQ(test.err, "train: error: " + each.message + "\n");
    EXPECT_FALSE(std::filesystem::exists(test.path("t.json")));
  }
  // A disk that is full. What is no file of ours is not removed.
  EXPECT_EQ(test.run(data + "--threads 1 --steps 5 --trace /dev/full"), 1);
  EXPECT_EQ(test.err, "train: error: --trace: cannot write '/dev/full': No space left on device\n");
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
}

// Three all_reduces a step, waits for both, and what ranks say to each other.
TEST(Trace, RanksAreProcessesOfOneFile) {
  for (int ranks : {2, 3}) {
    TestProgram test(ranks);
    test.writeData(8);
    ASSERT_EQ(test.runRanks(data + "--threads 1 --steps 4 --trace {}/t.json"), std::vector<int>(ranks, 0)) << test.err;
    EXPECT_EQ(test.err, "");
    Read trace(readBytes(test.path("t.json")));
    trace.expectNested();
    EXPECT_EQ(trace.file["otherData"]["ranks"], ranks);
    EXPECT_LT(trace.file["otherData"]["clock_error_us"].get<double>(), 1e5);
    std::map<int64_t, std::map<char, json>> flows;
    for (const json &event : trace.file["traceEvents"])
      if (event.contains("id"))
        flows[event["id"]][event["ph"].get<std::string>()[0]] = event;
    // By collective, when each rank has finished and the last began: they are related by the clocks.
    std::map<int64_t, std::pair<int64_t, int64_t>> spans;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<Slice> &commands = trace.row(rank, "commands");
      EXPECT_EQ(namesOf(commands, "step"), steps(2, 4));
      EXPECT_EQ(namesOf(commands, "wait").size(), 9u);
      size_t collectives = 0;
      for (const char *name : {"communication", "communication 2", "communication 3"})
        for (const Slice &slice : trace.row(rank, name)) {
          if (slice.category == "agreement")
            continue;
          ++collectives;
          EXPECT_EQ(slice.category, "all_reduce_sum");
          int64_t number = slice.arguments["collective"];
          EXPECT_EQ(slice.arguments["dtype"], "f32");
          EXPECT_EQ(slice.arguments["bytes"], 4 * slice.arguments["elements"].get<int64_t>());
          EXPECT_GT(slice.arguments["sent_bytes"], 0);
          auto &span = spans.try_emplace(number, INT64_MIN, INT64_MAX).first->second;
          span = {std::max(span.first, slice.begin), std::min(span.second, slice.end)};
          // From the command that starts it, by the collective, to the wait: in slices of their rows.
          std::map<char, json> &flow = flows[number * ranks + rank];
          ASSERT_EQ(flow.size(), 3u);
          EXPECT_EQ(nanosecondsOf(flow['t']["ts"]), slice.begin);
          for (auto &[phase, category] : {std::pair('s', "all_reduce_sum"), std::pair('f', "wait")}) {
            const json &end = flow[phase];
            EXPECT_EQ(end["tid"], 0);
            bool isThere = false;
            for (const Slice &command : commands)
              isThere |= command.begin == nanosecondsOf(end["ts"]) && command.category == category &&
                         command.arguments["collective"] == number;
            EXPECT_TRUE(isThere) << phase << number;
          }
          EXPECT_LE(flow['s']["ts"], flow['t']["ts"]);
          EXPECT_LE(flow['t']["ts"], flow['f']["ts"]);
        }
      EXPECT_EQ(collectives, 9u);
    }
    // Nobody has the sum before the last has come. Ranks here share a clock; what is not known of it is allowed.
    auto error = static_cast<int64_t>(trace.file["otherData"]["clock_error_us"].get<double>() * 1e3) + 1;
    for (auto &[number, span] : spans)
      EXPECT_LE(span.first, span.second + 2 * error) << number;
  }
}

TEST(Trace, EndsWithTheRun) {
  // By a signal in the step that is traced, and before it.
  for (int at : {3, 1}) {
    TestProgram test;
    test.writeData(8);
    static int stepOfSignal;
    stepOfSignal = at;
    test.hooks.begin = [](void *, int64_t step) {
      if (step == stepOfSignal)
        raise(SIGTERM);
    };
    ASSERT_EQ(test.run(data + "--threads 1 --steps 100 --trace {}/t.json"), 0) << test.err;
    Read trace(readBytes(test.path("t.json")));
    EXPECT_EQ(namesOf(trace.row(0, "commands"), "step"), steps(2, at));
    EXPECT_EQ(test.err.find("the run ended before the steps that --trace shows") != std::string::npos, at == 1);
  }
  // By a failure that all ranks know of, in the third step.
  TestProgram test(2);
  test.writeData(12);
  std::string bytes = readBytes(test.path("x.npy"));
  float nan = NAN;
  memcpy(bytes.data() + bytes.size() - 16, &nan, 4);
  writeBytes(test.path("x.npy"), bytes);
  EXPECT_EQ(test.runRanks(data + "--threads 1 --no-shuffle --steps 4 --trace {}/t.json"), std::vector<int>(2, 1));
  EXPECT_EQ(std::count(test.err.begin(), test.err.end(), '\n'), 1) << test.err;
  Read trace(readBytes(test.path("t.json")));
  EXPECT_EQ(namesOf(trace.row(1, "commands"), "step"), steps(2, 3));
}

// Work of the pool's other threads is shown on their rows, under the name of the command.
TEST(Trace, ThreadsHaveRows) {
  ThreadPool pool(3);
  Trace trace(0, 1, 3);
  ASSERT_FALSE(trace.align(*makeSelfCommunicator()).failed());
  pool.observe(&trace);
  std::atomic<int> busy{0};
  for (const char *name : {"one", "two"}) {
    TraceSpan span(&trace, "kernel", name);
    busy = 0;
    auto body = [&](int64_t, int64_t, int) { // each thread takes a part before any goes on
      ++busy;
      while (busy < 3)
        std::this_thread::yield();
    };
    pool.parallelFor(3, 1, body);
  }
  pool.observe(nullptr);
  std::string text;
  while (trace.nextText("here", text))
    ;
  Read read("{\"traceEvents\":[" + text.substr(1) + "]}");
  read.expectNested();
  for (const char *row : {"commands", "thread 1", "thread 2"})
    EXPECT_EQ(namesOf(read.row(0, row), "kernel"), (std::vector<std::string>{"one", "two"})) << row;
}

TEST(Trace, WhatFindsNoRoomIsCounted) {
  Trace trace(0, 1, 1, 4);
  for (int i = 0; i < 7; ++i)
    TraceSpan(&trace, "kernel", "\"quoted\"\n\xff");
  EXPECT_EQ(trace.dropped(), 3);
  std::string text;
  while (trace.nextText("here", text))
    ;
  EXPECT_EQ(Read("{\"traceEvents\":[" + text.substr(1) + "]}").row(0, "commands").size(), 4u);
}
