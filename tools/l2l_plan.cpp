// l2l-plan: the memory contract of a config and the predicted time of a step; no model is kept. Or, with --problem,
// the plan of a bare allocation problem; or, with --trace, the cost of a recorded program under a memory budget. Given
// the directory of a Hugging Face model, what training it takes here. Tables on stderr, one JSON object on stdout,
// which a terminal gets only when asked for beside tables.
#include <unistd.h>

#include <iostream>

#include "base/json.h"
#include "l2l/errors.h"
#include "l2l/l2l.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/plan_run.h"
#include "tools/command.h"
#include "tools/measuring_line.h"
#include "tools/plan_modes.h"
#include "tools/tables.h"
#include "tools/terminal.h"

namespace l2l::tools {
namespace {

nlohmann::ordered_json lines(const std::vector<ContractLine>& contract_lines) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ContractLine& line : contract_lines) json.push_back({{"what", line.what}, {"bytes", line.bytes}});
  return json;
}

nlohmann::ordered_json nodes_of(const NodesPrediction& nodes) {
  const NetworkCounters& network = nodes.network;
  const auto counters = [](std::uint64_t gradients, std::uint64_t squares, std::uint64_t weights) {
    return nlohmann::ordered_json{{"gradients", gradients}, {"squares", squares}, {"weights", weights}};
  };
  return {{"nodes", nodes.nodes},
          {"sent_bytes", counters(network.gradients_sent, network.squares_sent, network.weights_sent)},
          {"received_bytes", counters(network.gradients_received, network.squares_received, network.weights_received)},
          {"gb_per_second", or_null(nodes.gb_per_second)},
          {"one_node_ms", or_null(nodes.one_node_ms)},
          {"efficiency", or_null(nodes.efficiency)},
          {"hidden_from_gb_per_second", or_null(nodes.hidden_from_gb_per_second)}};
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
          {"estimated", prediction.estimated},
          {"work", prediction.work},
          {"file", prediction.file},
          {"measured_ms", or_null(prediction.measured_ms)},
          {"nodes", prediction.nodes ? nodes_of(*prediction.nodes) : nlohmann::ordered_json()}};
}

struct Arguments {
  ConfigArguments config;
  bool no_measure = false, check = false, json = false;

  double seconds() const { return check ? Measuring::kThorough : no_measure ? 0 : Measuring().seconds; }
};

void print_result(const nlohmann::ordered_json& result, const Arguments& arguments) {
  if (arguments.json || isatty(STDOUT_FILENO) == 0) std::cout << json_text(result) << std::endl;
}

nlohmann::ordered_json json_of(const MemoryContract& contract) {
  nlohmann::ordered_json json;
  json["parameters"] = contract.parameters;
  json["trained_parameters"] = contract.trained_parameters;
  json["device_bytes"] = contract.device_bytes;
  json["device_bytes_apart"] = contract.device_bytes_apart;
  json["pinned_bytes"] = contract.pinned_bytes;
  json["host_bytes"] = contract.host_bytes;
  json["stash"] = contract.stash;
  json["blocks_stashed_on_device"] = contract.blocks_stashed_on_device;
  json["resident_layers"] = contract.resident_layers;
  json["devices"] = contract.devices;
  json["nodes"] = contract.nodes;
  json["update_mode"] = contract.update_mode;
  json["recomputation"] = contract.recomputation;
  json["device"] = lines(contract.device);
  json["host"] = lines(contract.host);
  return json;
}

int plan(const Arguments& arguments) {
  MeasuringLine line;
  Trainer trainer(arguments.config.load(), line.measuring(arguments.seconds()));
  line.finish();
  print_contract(std::cerr, message_columns(), trainer.contract(), trainer.options(), Choices::reasons);
  const StepPrediction prediction =
      arguments.check ? trainer.check_prediction() : trainer.predict(/*measure=*/!arguments.no_measure);
  line.finish();
  print_prediction(std::cerr, message_columns(), prediction);
  nlohmann::ordered_json json = json_of(trainer.contract());
  json["time"] = time_of(prediction);
  print_result(json, arguments);
  return kSuccess;
}

int plan_directory(const Arguments& arguments) {
  if (arguments.check || arguments.no_measure) {
    throw BadInput(std::string(arguments.check ? "--check" : "--no-measure") + ": needs a config, and " +
                   arguments.config.config + " is a model directory: name it in a config as model.pretrained");
  }
  const ModelPlan plan = plan_model(arguments.config.config, arguments.config.assignments);
  const runtime::RunPlan run = runtime::plan_run(plan.options);
  const MemoryContract contract = runtime::memory_contract(run);
  nlohmann::ordered_json json = {
      {"fits", plan.fits},
      {"settings", plan.settings},
      {"largest_sequence", plan.fits ? nlohmann::ordered_json(run.options.model.sequence) : nlohmann::ordered_json()},
      {"disk_bytes", contract.checkpoint_bytes}};
  json.update(json_of(contract));
  print_contract(std::cerr, message_columns(), contract, run.options, Choices::reasons);
  std::cerr << "a checkpoint takes " << format_bytes(contract.checkpoint_bytes) << " on disk\n"
            << (plan.fits ? "the longest sequence that fits has " + std::to_string(run.options.model.sequence) +
                                " tokens, with microbatches of one"
                          : "it does not fit: " + plan.shortfall)
            << "\n";
  json["step_ms"] = nullptr;
  if (plan.fits) {
    Trainer trainer(plan.options);
    json["time"] = time_of(trainer.predict(/*measure=*/false));
    json["step_ms"] = json["time"]["step_ms"];
  }
  print_result(json, arguments);
  return kSuccess;
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  Arguments arguments;
  ProblemArguments problem;
  TraceArguments trace;
  const auto body = [&] {
    if (!problem.problem.empty()) return plan_problem(problem);
    if (!trace.trace.empty()) return plan_trace(trace);
    if (arguments.config.config.empty()) {
      throw l2l::BadInput(
          "CONFIG.toml, a folder of --output, the directory of a model, --problem FILE.csv or --trace FILE.json is "
          "required");
    }
    std::string& named = arguments.config.config;
    if (!std::filesystem::is_directory(named)) return plan(arguments);
    const std::filesystem::path of_run = std::filesystem::path(named) / "config.toml";  // of l2l-train --output
    if (!std::filesystem::exists(of_run)) return plan_directory(arguments);
    named = of_run.string();
    return plan(arguments);
  };
  Command command("l2l-plan",
                  "Prints the memory that a config will need, and predicts the time of a step; no model is kept.",
                  body);
  arguments.config.add_to(command, /*required=*/false);
  problem.add_to(command);
  trace.add_to(command);
  command.add("--no-measure", &arguments.no_measure,
              "predict from what this machine was measured to take before, or not at all");
  command.add("--check", &arguments.check,
              "measure thoroughly what was not, for some minutes, and train some steps on drawn tokens to print "
              "the step's time beside its prediction");
  command.add("--json", &arguments.json, "print the JSON object on a terminal, too");
  command.exclude("--trace", "--problem");
  command.exclude("CONFIG", "--problem");
  command.exclude("CONFIG", "--trace");
  command.exclude("--check", "--no-measure");
  for (const char* const of_config : {"--set", "--check", "--no-measure"}) {
    command.exclude(of_config, "--problem");
    command.exclude(of_config, "--trace");
  }
  command.add_example("l2l-plan run.toml", "prints the memory that training takes, and the time of a step");
  command.add_example("l2l-plan models/Llama-3.2-1B",
                      "prints what training a Hugging Face model takes on this machine");
  return command.run(argc, argv);
}
