#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/json.h"
#include "tools/bench/benches.h"
#include "tools/bench/h100_nodes.h"

namespace l2l::tools {
namespace {

constexpr int kDevices = 8;  // of a node
constexpr int kBuffers = 8;  // eps.gradient_buffers
constexpr std::int64_t kSequence = 4096;

struct Case {
  const char* model;
  LlamaSize size;
  std::int64_t tokens;  // a step of each device
  double gigabits;      // a second, each way, of a node's network
};

StepPrediction predict(const Case& of, int nodes, const char* wire) {
  Options options = llama(of.size, kSequence, of.tokens, kDevices, nodes);
  options.distributed.wire = wire;
  options.eps.gradient_buffers = kBuffers;
  options.distributed.bandwidth = of.gigabits / 8;
  return predict_on_h100s(options, kUpdatesOfTwoProcessors);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [model, size] :
       {std::pair{"Llama-3.1-8B", LlamaSize::b8}, std::pair{"Llama-3.1-70B", LlamaSize::b70}}) {
    for (const std::int64_t tokens : {16'384, 65'536}) {
      for (const double gigabits : {100., 400.}) all.push_back({model, size, tokens, gigabits});
    }
  }
  return all;
}

}  // namespace

int bench_scaling(bool json) {
  constexpr int kNodes[] = {2, 4, 8, 16, 32, 64};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) {
    std::printf(
        "Calculated: efficiency of nodes with %d H100s against one, percent. Tokens: of each device in a step.\n",
        kDevices);
    std::printf("%-14s %7s %5s %8s |", "model", "tokens", "Gb/s", "one, s");
    for (const int nodes : kNodes) std::printf(" %4d", nodes);
    std::printf(" | %9s %12s | %s\n", "GB, of 64", "hidden, Gb/s", "64, sharded");
  }
  for (const Case& of : cases()) {
    nlohmann::ordered_json row = {
        {"model", of.model}, {"tokens_per_device", of.tokens}, {"gigabits_per_second", of.gigabits}};
    NodesPrediction last;
    std::string cells;
    for (const int nodes : kNodes) {
      last = predict(of, nodes, "replicated").nodes.value();
      char cell[16];
      std::snprintf(cell, sizeof cell, " %4.0f", 100 * last.efficiency.value());
      cells += cell;
      row["efficiency"][std::to_string(nodes)] = last.efficiency.value();
    }
    const NetworkCounters& network = last.network;
    const std::uint64_t sent = network.gradients_sent + network.squares_sent + network.weights_sent;
    const double sharded = predict(of, kNodes[std::size(kNodes) - 1], "sharded").nodes->efficiency.value();
    row["efficiency_of_64_sharded"] = sharded;
    row["one_node_ms"] = last.one_node_ms.value();
    row["sent_bytes"] = sent;
    row["hidden_from_gb_per_second"] = last.hidden_from_gb_per_second.value();
    rows.push_back(row);
    if (json) continue;
    std::printf("%-14s %7d %5.0f %8.2f |%s | %9.0f %12.0f | %11.0f\n", of.model, static_cast<int>(of.tokens),
                of.gigabits, 1e-3 * *last.one_node_ms, cells.c_str(), 1e-9 * static_cast<double>(sent),
                8 * *last.hidden_from_gb_per_second, 100 * sharded);
    std::fflush(stdout);
  }
  if (json) std::cout << json_text(rows) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools
