#include "tools/plan_modes.h"

#include <algorithm>
#include <iostream>

#include "base/json.h"
#include "compiler/remat/dtr/simulate.h"

namespace l2l::tools {
namespace {

namespace dtr = compiler::remat::dtr;

const std::vector<std::string> kUnreferenced = {"keep", "evict", "banish"};  // as dtr::Unreferenced
const std::vector<std::string> kShortcuts = {"small", "sample", "batch"};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// One of those that the option allows.
template <typename Choice>
Choice choice(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<Choice>(std::find(names.begin(), names.end(), name) - names.begin());
}

dtr::Options options_of(const TraceArguments& arguments) {
  dtr::Options options;
  options.heuristic = choice<dtr::Score>(dtr::score_names(), arguments.heuristic);
  options.unreferenced = choice<dtr::Unreferenced>(kUnreferenced, arguments.unreferenced);
  options.shortcuts.ignore_small = contains(arguments.shortcuts, "small");
  options.shortcuts.sample = contains(arguments.shortcuts, "sample");
  options.shortcuts.batch = contains(arguments.shortcuts, "batch") ? 1 : 0;
  return options;
}

nlohmann::ordered_json failure_of(const dtr::Simulation& simulation) {
  if (simulation.failure == dtr::Failure::none) return nullptr;
  return simulation.failure == dtr::Failure::out_of_memory ? "out of memory" : "thrashing";
}

}  // namespace

void TraceArguments::add_to(Command& command) {
  const std::string given = "--trace";
  command.add(given, &trace, "run the operator trace in this file under a memory budget, recomputing");
  command.add(
      "--budget", &budget,
      "bytes, or a size such as 8GiB; 0: no limit; one that is too small is reported as \"failed\" in the JSON, with "
      "exit status 0",
      {.needs = given});
  command.add("--heuristic", &heuristic, "what is evicted first: dtr, dtr_eq, local, lru, size or msps",
              {.one_of = dtr::score_names(), .needs = given});
  command.add("--unreferenced", &unreferenced, "storages that the program dropped: keep, evict or banish",
              {.one_of = kUnreferenced, .needs = given});
  command.add("--shortcut", &shortcuts, "search less: small (ignored), sample (of sqrt(n)), batch (evict several)",
              {.one_of = kShortcuts, .needs = given});
}

int plan_trace(const TraceArguments& arguments) {
  dtr::Options options = options_of(arguments);
  const Bytes budget = parse_bytes(arguments.budget);
  const dtr::Trace trace = dtr::read_trace(arguments.trace);
  options.repeated_limit = trace.time;
  const dtr::Simulation free = dtr::simulate(trace, options);
  options.budget = budget;
  const dtr::Simulation bound = budget == 0 ? free : dtr::simulate(trace, options);
  const nlohmann::ordered_json json = {
      {"trace", arguments.trace},
      {"budget", budget},
      {"heuristic", arguments.heuristic},
      {"ops", trace.ops.size()},
      {"base_ns", trace.time},
      {"total_ns", bound.clock - 1},
      {"overhead", trace.time > 0 ? static_cast<double>(bound.clock) / static_cast<double>(trace.time) : 1.0},
      {"evictions", bound.evictions},
      {"released", bound.released},
      {"rematerializations", bound.rematerializations},
      {"peak_bytes", bound.peak},
      {"unbudgeted_peak_bytes", free.peak},
      {"failed", failure_of(bound)}};
  std::cout << json_text(json) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools
