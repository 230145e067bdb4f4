// A schedule report as text: a table for people, and JSON.
#include <cstdio>
#include <iterator>

#include "tools/bench/schedule_report.h"

#include "base/json.h"

namespace l2l::tools {
namespace {

constexpr const char* kKinds[] = {"forward", "turn", "backward"};  // by VisitKind

template <typename... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  char line[512];
  std::snprintf(line, sizeof line, pattern, arguments...);
  return line;
}

std::string row(const char* kind, const std::string& name, const VisitTimes& t) {
  return format("%-8s %-12.12s %9.3f %9.3f %9.3f %9.3f %9.3f | %9.3f %9.3f %9.3f %9.3f\n", kind, name.c_str(),
                t.compute, t.h2d, t.d2h, t.check, t.update, t.wait_weights, t.wait_stash, t.wait_gradients, t.idle);
}

nlohmann::ordered_json to_json(const VisitTimes& t) {
  return {{"compute_ms", t.compute},
          {"h2d_ms", t.h2d},
          {"d2h_ms", t.d2h},
          {"check_ms", t.check},
          {"update_ms", t.update},
          {"waited_weights_ms", t.wait_weights},
          {"waited_stash_ms", t.wait_stash},
          {"waited_gradients_ms", t.wait_gradients},
          {"idle_ms", t.idle}};
}

}  // namespace

std::string ScheduleReport::table() const {
  std::string text = format("%-21s %9s %9s %9s %9s %9s | %9s %9s %9s %9s\n", "visit, ms", "compute", "h2d", "d2h",
                            "check", "update", "weights", "stash", "gradients", "nothing");
  for (const VisitReport& visit : visits) {
    text += row(kKinds[static_cast<std::size_t>(visit.kind)], visit.name, visit.times);
  }
  text += row("sum", "", sum());
  text += "Left of the line: work for the visit. Right of it: what compute stood still for.\n";
  text += format(
      "step %.3f ms (median of %d); perfect overlap %.3f ms: the longest of compute, h2d and d2h of each visit, first\n"
      "fill %.3f, last update %.3f; step / perfect = %.3f\n",
      step_ms, steps, bound_ms(), first_fill_ms(), last_update_ms(), step_ms / bound_ms());
  return text;
}

std::string ScheduleReport::json() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const VisitReport& visit : visits) {
    nlohmann::ordered_json entry = {
        {"kind", kKinds[static_cast<std::size_t>(visit.kind)]}, {"layer", visit.layer}, {"name", visit.name}};
    entry.update(to_json(visit.times));
    rows.push_back(std::move(entry));
  }
  return json_text(nlohmann::ordered_json{{"steps", steps},
                                          {"step_ms", step_ms},
                                          {"bound_ms", bound_ms()},
                                          {"first_fill_ms", first_fill_ms()},
                                          {"last_update_ms", last_update_ms()},
                                          {"sum", to_json(sum())},
                                          {"visits", rows}});
}

}  // namespace l2l::tools
