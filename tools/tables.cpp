#include "tools/tables.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "l2l/allocator.h"
#include "tools/command_line/wrapped_text.h"

namespace l2l::tools {
namespace {

constexpr int kWidth = 46;

// "1.50 GiB"
std::string human_bytes(std::uint64_t bytes) {
  static const char* const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return print("%.*f %s", unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2, value, kUnits[unit]);
}

void line(std::ostream& out, const std::string& what, std::uint64_t bytes) {
  const int over = std::max(0, static_cast<int>(what.size()) - kWidth);
  out << "    " << std::left << std::setw(kWidth) << what << std::right << " " << std::setw(11 - std::min(11, over))
      << human_bytes(bytes) << "\n";
}

void section(std::ostream& out, const std::string& title, std::uint64_t total, const std::vector<ContractLine>& lines) {
  out << "  " << std::left << std::setw(kWidth + 2) << title << std::right << std::setw(12) << human_bytes(total)
      << "  (" << total << " B)\n";
  for (const ContractLine& entry : lines) line(out, entry.what, entry.bytes);
}

void print_allocator(std::ostream& out) {
  const std::optional<AllocatorUse> use = allocator_use();
  if (!use) return;
  std::uint64_t total = 0;
  std::vector<ContractLine> lines;
  for (const AllocatorRole& role : use->roles) {
    lines.push_back({role.name, role.resident});
    total += role.resident;
  }
  section(out, "malloc() now, part of host (" + use->allocator + ")", total, lines);
}

std::string describe_stash(const MemoryContract& contract, const Options& options) {
  if (contract.stash == "none") return "no stash";
  if (contract.stash != "split") return "stash on the " + contract.stash;
  return "stash of " + std::to_string(contract.blocks_stashed_on_device) + " of " +
         std::to_string(options.model.layers) + " layers on the device, else on the host";
}

// Bytes and their rate, where the resource moves any.
std::string traffic(const PredictionLine& line) {
  if (line.bytes == 0 || line.ms <= 0) return {};
  return print("  %9s %6.1f GB/s", human_bytes(line.bytes).c_str(), 1e-6 * static_cast<double>(line.bytes) / line.ms);
}

std::string line_of(const PredictionLine& line, const StepPrediction& prediction) {
  const double hidden = std::max(0.0, line.ms - line.exposed_ms);
  std::string text =
      print("    %-18s %9.2f ms, %9.2f hidden%s\n", line.what.c_str(), line.ms, hidden, traffic(line).c_str());
  if (line.what == "parameter server") {
    if (prediction.state_in_caches) text += "      its state is in caches\n";
    if (prediction.memory_gb_per_second) {
      text += print("      memory carries %.1f GB/s\n", *prediction.memory_gb_per_second);
    }
  }
  return text;
}

// "3.75 MB"
std::string decimal_bytes(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes >= 1'000'000'000 ? print("%.2f GB", 1e-9 * value) : print("%.2f MB", 1e-6 * value);
}

// In decimal units, as those of networks are.
void print_nodes(std::ostream& out, int columns, const NodesPrediction& nodes) {
  const NetworkCounters& network = nodes.network;
  const std::uint64_t sent = network.gradients_sent + network.squares_sent + network.weights_sent;
  const std::uint64_t received = network.gradients_received + network.squares_received + network.weights_received;
  const auto say = [&](const std::string& text) { out << "  " << wrapped(text, columns, 4) << "\n"; };
  out << "network of each of " << nodes.nodes << " nodes\n";
  say("a step sends " + decimal_bytes(sent) + " (gradients " + decimal_bytes(network.gradients_sent) + ", weights " +
      decimal_bytes(network.weights_sent) + ") and receives " + decimal_bytes(received));
  if (!nodes.limit.empty()) say(nodes.limit);
  if (nodes.hidden_from_gb_per_second) {
    say(print("from %.3g GB/s each way on, it makes a step at most %.0f%% longer", *nodes.hidden_from_gb_per_second,
              100 * NodesPrediction::kHidden));
  }
  if (nodes.efficiency) {
    say(print("with %.3g GB/s, efficiency %.3f: one node alone would take ", *nodes.gb_per_second, *nodes.efficiency) +
        milliseconds(*nodes.one_node_ms) + " for its share of the minibatch");
  } else if (nodes.one_node_ms) {
    say("its bandwidth is not known, and not in the time above: set distributed.bandwidth");
  }
}

// Where figures come from.
std::string sources(const StepPrediction& prediction) {
  std::string text =
      std::to_string(prediction.measured) + " figures measured now, " + std::to_string(prediction.cached) + " earlier";
  if (prediction.estimated > 0)
    text += ", " + std::to_string(prediction.estimated) + " estimated (l2l-plan --check measures them)";
  return text + "; " +
         (prediction.file.empty() ? "not kept: set L2L_CALIBRATION to a file" : "kept in " + prediction.file);
}

std::string sizes_of(const ModelOptions& model) {
  std::ostringstream sizes;
  sizes << model.architecture;
  if (model.image_size > 0) {
    sizes << "-" << model.variant << ", " << model.layers << " layers, images of " << model.image_size << " x "
          << model.image_size << ", " << model.labels << " classes";
  } else {
    sizes << ", " << model.layers << " layers";
    if (model.head != "custom") {
      sizes << ", hidden " << model.hidden << ", " << model.heads << " heads, sequence " << model.sequence
            << ", vocabulary " << model.vocabulary;
    }
  }
  return sizes.str();
}

}  // namespace

std::string milliseconds(double ms) { return print(ms < 9999.5 ? "%.4g ms" : "%.0f ms", ms); }

void print_contract(std::ostream& out, int columns, const MemoryContract& contract, const Options& options,
                    Choices choices) {
  const auto say = [&](const std::string& text) { out << "  " << wrapped(text, columns, 4) << "\n"; };
  const std::string& reversible = options.model.reversible;
  const std::string stash = (reversible == "none" ? "" : "reversible (" + reversible + "), ") +
                            describe_stash(contract, options) +
                            (contract.resident_layers == 0
                                 ? ""
                                 : ", weights of " + std::to_string(contract.resident_layers) + " stay on the device");
  const bool tensors = options.model.head == "custom";
  std::ostringstream model;
  model << "L2L: " << sizes_of(options.model) << ": " << contract.parameters << " parameters";
  if (contract.trained_parameters != contract.parameters) {
    model << ", of which " << contract.trained_parameters << " are trained";
  }
  out << wrapped(model.str(), columns, 2) << "\n";
  say("minibatch " + std::to_string(options.batch.micro_batches) + " x " + std::to_string(options.batch.micro_batch) +
      (tensors ? " samples, " : " sequences, ") + options.precision.compute + ", " + options.device.execution + ", " +
      stash);
  say(contract.device_description +
      (contract.device_choice.empty() ? "" : "; device.kind = \"auto\" took " + contract.device_choice));
  if (!contract.compute_choice.empty()) say("precision.compute = \"auto\" took " + contract.compute_choice);
  if (!contract.weight_feed.empty()) say("weights: " + contract.weight_feed);
  if (!contract.gradient_sums.empty()) say("gradients: " + contract.gradient_sums);
  if (!contract.advice.empty()) say(contract.advice);
  say("parameter server: " + contract.eps_placement);
  say("updates are " + contract.update_mode);
  if (choices == Choices::summary && !contract.recomputation_summary.empty()) {
    say("recomputation: " + contract.recomputation_summary + "; l2l-plan says why");
  } else {
    for (const std::string& line : contract.recomputation) say("recomputation: " + line);
  }
  out << "memory before step 1"
      << (contract.nodes > 1 ? ", of each of " + std::to_string(contract.nodes) + " processes" : "") << "\n";
  const std::string each = contract.devices > 1 ? "each of " + std::to_string(contract.devices) + " devices" : "device";
  section(out, each + " (exact)", contract.device_bytes, contract.device);
  if (contract.device_bytes_apart > contract.device_bytes) {
    line(out, "saved by sharing between phases", contract.device_bytes_apart - contract.device_bytes);
  }
  if (contract.device_other_bytes > 0) {
    section(out, "device: driver and other processes (now)", contract.device_other_bytes, {});
  }
  if (contract.device_late_bytes > 0) {
    const std::uint64_t graphs = contract.device_graph_bytes;
    section(out, "device: left to the driver for later", contract.device_late_bytes,
            {{"CUDA graphs", graphs}, {"code, streams", contract.device_late_bytes - graphs}});
  }
  section(out, "pinned (exact; part of host)", contract.pinned_bytes, {});
  section(out, "host (peak of the process)", contract.host_bytes, contract.host);
  print_allocator(out);
  if (!options.checkpoint.directory.empty()) {
    section(out, "on disk: each checkpoint, " + std::to_string(options.checkpoint.keep) + " kept",
            contract.checkpoint_bytes, {});
  }
}

void print_prediction(std::ostream& out, int columns, const StepPrediction& prediction) {
  if (!prediction.step_ms) {
    out << "time of a step: not known (l2l-plan measures it)\n";
    if (prediction.nodes) print_nodes(out, columns, *prediction.nodes);
    return;
  }
  out << "time of a step\n"
      << "  predicted " << milliseconds(*prediction.step_ms)
      << print(", %.0f tokens/s; the bound is: %s\n", prediction.tokens_per_second, prediction.bound.c_str());
  if (prediction.measured_ms) {
    out << "  measured " << milliseconds(*prediction.measured_ms)
        << print(": predicted / measured %.3f\n", *prediction.step_ms / *prediction.measured_ms);
  }
  for (const PredictionLine& line : prediction.lines) out << line_of(line, prediction);
  out << "  " << wrapped(sources(prediction), columns, 4) << "\n";
  if (prediction.nodes) print_nodes(out, columns, *prediction.nodes);
}

}  // namespace l2l::tools
