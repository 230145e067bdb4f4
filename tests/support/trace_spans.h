// A written trace, read back as Perfetto would.
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/trace.h"
#include "tests/support/temporary_folder.h"

namespace l2l::testing {

struct TraceSpan {
  std::string track, name;
  double begin, end;  // microseconds
  nlohmann::json arguments;
};

// The complete events ("X") of a Chrome trace, in the order of the file. Throws when one is not well-formed.
inline std::vector<TraceSpan> spans_of(const nlohmann::json& trace) {
  std::map<int, std::string> tracks;
  std::vector<TraceSpan> spans;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") tracks[event.at("tid")] = event.at("args").at("name");
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts"), duration = event.at("dur");
    spans.push_back({tracks.at(event.at("tid")), event.at("name"), begin, begin + duration, event.at("args")});
  }
  return spans;
}

inline std::vector<TraceSpan> read_spans(const Trace& trace) {
  const TemporaryFolder folder;
  trace.write(folder / "trace.json");
  std::ifstream file(folder / "trace.json");
  return spans_of(nlohmann::json::parse(file));
}

}  // namespace l2l::testing
