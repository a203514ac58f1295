// The report as one HTML file that needs nothing beside it.
#include "scrimp/Planner/Timeline.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir::scrimp;
using llvm::StringRef;
using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

static std::string escape(StringRef text) {
  std::string escaped;
  for (char c : text)
    escaped += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return escaped;
}

static std::string inMiB(int64_t bytes) { return llvm::formatv("{0:f2}", bytes / 0x1p20).str(); }

namespace {
class Page {
public:
  explicit Page(const Object &report) : report(report), os(text) {}

  std::string draw() {
    os << "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>Memory of a training step</title>\n"
          "<style>body{font:14px sans-serif;margin:2em;max-width:60em}table{border-collapse:collapse;margin:1em 0}"
          "td,th{padding:.15em .8em;text-align:right;border-bottom:1px solid "
          "#ddd}td:first-child,th:first-child{text-align:left}"
          "code{font-size:90%}</style>\n";
    addSizes();
    addStep();
    addPasses();
    addTimeline();
    addList("holders", "Who holds memory at the peak", {"name", "kind"}, {"bytes"}, 40);
    addList("residuals", "Kept for the backward pass", {"name"}, {"bytes"}, 40);
    addList("recomputed", "Computed again", {"name"}, {"flops"}, 40);
    addSearch();
    return std::move(text);
  }

private:
  void heading(const llvm::Twine &title) { os << "<h2>" << title << "</h2>\n"; }
  void row(std::initializer_list<std::string> cells, StringRef tag = "td") {
    os << "<tr>";
    for (const std::string &cell : cells)
      os << "<" << tag << ">" << cell << "</" << tag << ">";
    os << "</tr>\n";
  }
  static std::string textOf(const Object &object, StringRef key) { return object.getString(key).value_or("").str(); }
  static int64_t numberOf(const Object &object, StringRef key) { return object.getInteger(key).value_or(0); }

  void addSizes() {
    os << "<h1>Memory of a training step</h1>\n<table>\n";
    row({"", "MiB"}, "th");
    row({"process", inMiB(numberOf(report, "process_bytes"))});
    row({"arena", inMiB(numberOf(report, "peak_bytes"))});
    if (const Object *segments = report.getObject("segments"))
      for (StringRef name : {"parameters", "optimizer_state", "inputs", "gradients", "activations", "workspace"})
        row({"&nbsp; " + name.str(), inMiB(numberOf(*segments, name))});
    os << "</table>\n";
    const Object *peak = report.getObject("peak");
    if (peak && !peak->empty())
      os << "<p>The peak is at <code>" << escape(textOf(*peak, "op")) << "</code> of @"
         << escape(textOf(*peak, "graph")) << ".</p>\n";
  }

  /// What ranks send, and how long a step takes.
  void addStep() {
    const Array *communication = report.getArray("communication");
    if (communication && !communication->empty()) {
      heading("What a rank sends in a step");
      os << "<table>\n";
      row({"", "times", "MiB", "of it between nodes", "s"}, "th");
      for (const Value &entry : *communication) {
        const Object &traffic = *entry.getAsObject();
        row({textOf(traffic, "collective"), std::to_string(numberOf(traffic, "count")),
             inMiB(numberOf(traffic, "bytes")), inMiB(numberOf(traffic, "between_nodes_bytes")),
             llvm::formatv("{0:f4}", traffic.getNumber("seconds").value_or(0)).str()});
      }
      os << "</table>\n";
    }
    if (const Object *step = report.getObject("step"))
      os << llvm::formatv(
          "<p>A step takes {0:f4} s: {1:f4} computing, {2:f4} waiting for other ranks, which exchange {3:f4} "
          "meanwhile. MFU {4:f1}%.</p>\n",
          *step->getNumber("seconds"), *step->getNumber("computing_seconds"), *step->getNumber("exposed_seconds"),
          *step->getNumber("overlapped_seconds"), 100 * *step->getNumber("mfu"));
  }

  void addPasses() {
    const Array *passes = report.getArray("passes");
    if (!passes)
      return;
    heading("What each pass saved, and what it costs");
    os << "<table>\n";
    row({"", "arena, MiB", "saved", "step, s", "added"}, "th");
    for (const Value &entry : *passes) {
      const Object &pass = *entry.getAsObject();
      double seconds = pass.getNumber("seconds").value_or(0), added = pass.getNumber("added_seconds").value_or(0);
      row({escape(textOf(pass, "pass")) + " <code>" + escape(textOf(pass, "flags")) + "</code>",
           inMiB(numberOf(pass, "arena_bytes")), inMiB(numberOf(pass, "saved_bytes")),
           llvm::formatv("{0:f4}", seconds).str(), llvm::formatv("{0:f4}", added).str()});
    }
    os << "</table>\n";
  }

  /// The points of both programs as steps, over time from left to right.
  void addTimeline() {
    const Object *timeline = report.getObject("timeline");
    if (!timeline)
      return;
    constexpr double width = 860, height = 360, left = 60, bottom = 30;
    double mostSeconds = 1e-12, mostBytes = 1;
    for (auto &[name, points] : *timeline)
      for (const Value &point : *points.getAsArray()) {
        mostSeconds = std::max(mostSeconds, *(*point.getAsArray())[0].getAsNumber());
        mostBytes = std::max(mostBytes, *(*point.getAsArray())[1].getAsNumber());
      }
    auto x = [&](double seconds) { return left + seconds / mostSeconds * (width - left - 10); };
    auto y = [&](double bytes) { return height - bottom - bytes / mostBytes * (height - bottom - 10); };
    heading("What is alive during a step");
    os << "<p>Grey: the program without flags that save memory. Blue: this one. A loop is shown as one iteration, as "
          "long as "
          "all of them take.</p>\n";
    os << llvm::formatv("<svg width=\"{0}\" height=\"{1}\" font-size=\"12\">\n", width, height);
    for (int i = 0; i <= 4; ++i) {
      double bytes = mostBytes * i / 4, seconds = mostSeconds * i / 4;
      os << llvm::formatv("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:f1}\" y2=\"{2:f1}\" stroke=\"#ddd\"/>", left, width,
                          y(bytes))
         << llvm::formatv("<text x=\"{0}\" y=\"{1:f1}\" text-anchor=\"end\">{2:f0} MiB</text>", left - 4, y(bytes) + 4,
                          bytes / 0x1p20)
         << llvm::formatv("<text x=\"{0:f1}\" y=\"{1}\" text-anchor=\"middle\">{2:f3} s</text>\n", x(seconds),
                          height - 8, seconds);
    }
    for (auto [name, color] : {std::pair<StringRef, StringRef>{"plain", "#999"}, {"chosen", "#06c"}}) {
      const Array *points = timeline->getArray(name);
      if (!points || points->empty())
        continue;
      os << "<path fill=\"none\" stroke=\"" << color << "\" d=\"";
      bool isFirst = true;
      for (const Value &point : *points) {
        double atX = x(*(*point.getAsArray())[0].getAsNumber()), atY = y(*(*point.getAsArray())[1].getAsNumber());
        os << (isFirst ? llvm::formatv("M{0:f1} {1:f1}", atX, atY) : llvm::formatv("H{0:f1}V{1:f1}", atX, atY));
        isFirst = false;
      }
      os << "\"/>\n";
    }
    os << "</svg>\n";
  }

  void addList(StringRef key, StringRef title, std::initializer_list<StringRef> texts,
               std::initializer_list<StringRef> numbers, size_t most) {
    const Array *list = report.getArray(key);
    if (!list || list->empty())
      return;
    heading(title);
    os << "<table>\n";
    for (size_t i = 0; i < std::min(most, list->size()); ++i) {
      const Object &object = *(*list)[i].getAsObject();
      os << "<tr>";
      for (StringRef name : texts)
        os << "<td>" << escape(textOf(object, name)) << "</td>";
      for (StringRef name : numbers)
        os << "<td>"
           << (name == "bytes" ? inMiB(numberOf(object, name)) + " MiB"
                               : llvm::formatv("{0:f3} GFLOP", numberOf(object, name) / 1e9).str())
           << "</td>";
      os << "</tr>\n";
    }
    os << "</table>\n";
    if (list->size() > most)
      os << "<p>and " << list->size() - most << " more</p>\n";
  }

  void addSearch() {
    const Object *search = report.getObject("search");
    if (!search)
      return;
    heading("What the budget of " + inMiB(numberOf(*search, "budget_bytes")) + " MiB was chosen from");
    os << "<table>\n";
    row({"", "process, MiB", "step, s"}, "th");
    StringRef chosen = search->getString("chosen").value_or("");
    for (const Value &entry : *search->getArray("candidates")) {
      const Object &candidate = *entry.getAsObject();
      std::string flags = "<code>" + escape(textOf(candidate, "flags")) + "</code>";
      row({textOf(candidate, "flags") == chosen ? "<b>" + flags + "</b>" : flags,
           inMiB(numberOf(candidate, "process_bytes")),
           llvm::formatv("{0:f4}", candidate.getNumber("seconds").value_or(0)).str()});
    }
    os << "</table>\n";
    for (const Value &entry : *search->getArray("impossible"))
      os << "<p>Not possible: <code>" << escape((*entry.getAsObject()->getArray("flags"))[0].getAsString().value_or(""))
         << "</code>: " << escape(textOf(*entry.getAsObject(), "why")) << "</p>\n";
  }

  const Object &report;
  std::string text;
  llvm::raw_string_ostream os;
};
} // namespace

std::string mlir::scrimp::drawReport(const Object &report) { return Page(report).draw(); }
