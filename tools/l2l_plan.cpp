// l2l-plan: the memory contract of a config; nothing is run. A table on stderr, one JSON object on stdout.
#include <iostream>

#include <nlohmann/json.hpp>

#include "l2l/l2l.h"
#include "tools/command.h"
#include "tools/contract_table.h"

namespace l2l::tools {
namespace {

nlohmann::ordered_json lines(const std::vector<ContractLine>& contract_lines) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ContractLine& line : contract_lines) json.push_back({{"what", line.what}, {"bytes", line.bytes}});
  return json;
}

int plan(const ConfigArguments& arguments) {
  Trainer trainer(arguments.load());
  const MemoryContract& contract = trainer.contract();
  print_contract(std::cerr, contract, trainer.options());
  nlohmann::ordered_json json;
  json["parameters"] = contract.parameters;
  json["device_bytes"] = contract.device_bytes;
  json["pinned_bytes"] = contract.pinned_bytes;
  json["host_bytes"] = contract.host_bytes;
  json["stash"] = contract.stash;
  json["device"] = lines(contract.device);
  json["host"] = lines(contract.host);
  const StepPrediction prediction = trainer.predict(true);
  std::cerr << prediction.step_ms.value_or(-1) << "\n";
  std::cout << json.dump() << std::endl;
  return kSuccess;
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  CLI::App app("Prints the memory that a config will need on device and host; nothing is run.", "l2l-plan");
  ConfigArguments arguments;
  arguments.add_to(app);
  return run(app, argc, argv, [&] { return plan(arguments); });
}
