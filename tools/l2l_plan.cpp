// l2l-plan: the memory contract of a config and the predicted time of a step; nothing is trained. Or, with --problem,
// the plan of a bare allocation problem. Tables on stderr, one JSON object on stdout.
#include <iostream>

#include <nlohmann/json.hpp>

#include "l2l/errors.h"
#include "l2l/l2l.h"
#include "tools/command.h"
#include "tools/contract_table.h"
#include "tools/plan_problem.h"
#include "tools/time_table.h"

namespace l2l::tools {
namespace {

nlohmann::ordered_json lines(const std::vector<ContractLine>& contract_lines) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ContractLine& line : contract_lines) json.push_back({{"what", line.what}, {"bytes", line.bytes}});
  return json;
}

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json time_of(const StepPrediction& prediction) {
  nlohmann::ordered_json resources = nlohmann::ordered_json::array();
  for (const PredictionLine& line : prediction.lines) {
    resources.push_back({{"what", line.what}, {"bytes", line.bytes}, {"ms", line.ms}, {"exposed_ms", line.exposed_ms}});
  }
  return {{"step_ms", or_null(prediction.step_ms)},
          {"tokens_per_second", prediction.tokens_per_second},
          {"bound", prediction.bound},
          {"resources", resources},
          {"memory_gb_per_second", or_null(prediction.memory_gb_per_second)},
          {"missing", prediction.missing},
          {"measured", prediction.measured},
          {"cached", prediction.cached},
          {"file", prediction.file}};
}

int plan(const ConfigArguments& arguments, bool measure) {
  Trainer trainer(arguments.load());
  const MemoryContract& contract = trainer.contract();
  print_contract(std::cerr, contract, trainer.options());
  const StepPrediction prediction = trainer.predict(measure);
  print_prediction(std::cerr, prediction);
  nlohmann::ordered_json json;
  json["parameters"] = contract.parameters;
  json["device_bytes"] = contract.device_bytes;
  json["device_bytes_apart"] = contract.device_bytes_apart;
  json["pinned_bytes"] = contract.pinned_bytes;
  json["host_bytes"] = contract.host_bytes;
  json["stash"] = contract.stash;
  json["devices"] = contract.devices;
  json["update_mode"] = contract.update_mode;
  json["device"] = lines(contract.device);
  json["host"] = lines(contract.host);
  json["time"] = time_of(prediction);
  std::cout << json.dump() << std::endl;
  return kSuccess;
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  CLI::App app("Prints the memory that a config will need, and predicts the time of a step; nothing is trained.",
               "l2l-plan");
  ConfigArguments arguments;
  arguments.add_to(app);
  ProblemArguments problem;
  problem.add_to(app);
  app.get_option("CONFIG")->required(false)->excludes(app.get_option("--problem"));
  bool no_measure = false;
  app.add_flag("--no-measure", no_measure, "predict from what this machine was measured to take before, or not at all");
  return run(app, argc, argv, [&] {
    if (!problem.problem.empty()) return plan_problem(problem);
    if (arguments.config.empty()) throw l2l::BadInput("CONFIG.toml or --problem FILE.csv is required");
    return plan(arguments, !no_measure);
  });
}
