#include "tools/contract_table.h"

#include <iomanip>
#include <sstream>

namespace l2l::tools {
namespace {

constexpr int kWidth = 52;

void line(std::ostream& out, const std::string& what, std::uint64_t bytes) {
  out << "    " << std::left << std::setw(kWidth) << what << std::right << std::setw(12) << human_bytes(bytes) << "\n";
}

void section(std::ostream& out, const std::string& title, std::uint64_t total, const std::vector<ContractLine>& lines) {
  out << "  " << std::left << std::setw(kWidth + 2) << title << std::right << std::setw(12) << human_bytes(total)
      << "  (" << total << " bytes)\n";
  for (const ContractLine& entry : lines) line(out, entry.what, entry.bytes);
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  static const char* const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  std::ostringstream text;
  text << std::fixed
       << std::setprecision(unit == 0     ? 0
                            : value < 10  ? 2
                            : value < 100 ? 1
                                          : 0)
       << value << " " << kUnits[unit];
  return text.str();
}

namespace {

std::string describe_stash(const MemoryContract& contract, const Options& options) {
  if (contract.stash == "none") return "no stash";
  if (contract.stash != "split") return "stash on the " + contract.stash;
  return "stash of " + std::to_string(contract.blocks_stashed_on_device) + " of " +
         std::to_string(options.model.layers) + " layers on the device, else on the host";
}

}  // namespace

void print_contract(std::ostream& out, const MemoryContract& contract, const Options& options) {
  const std::string& reversible = options.model.reversible;
  const std::string stash = (reversible == "none" ? "" : "reversible (" + reversible + "), ") +
                            describe_stash(contract, options) +
                            (contract.resident_layers == 0
                                 ? ""
                                 : ", weights of " + std::to_string(contract.resident_layers) + " stay on the device");
  out << "L2L: " << options.model.architecture << ", " << options.model.layers << " layers, hidden "
      << options.model.hidden << ", " << options.model.heads << " heads, sequence " << options.model.sequence
      << ", vocabulary " << options.model.vocabulary << ": " << contract.parameters << " parameters\n"
      << "  minibatch " << options.batch.micro_batches << " x " << options.batch.micro_batch << " sequences, "
      << options.precision.compute << ", " << options.device.execution << ", " << stash << "\n"
      << "  " << contract.device_description << "\n";
  if (!contract.device_choice.empty()) out << "  device.kind = \"auto\" took " << contract.device_choice << "\n";
  out << "  parameter server: " << contract.eps_placement << "\n";
  out << "  updates are " << contract.update_mode << "\n";
  for (const std::string& line : contract.recomputation) out << "  recomputation: " << line << "\n";
  out << "memory before step 1\n";
  const std::string each = contract.devices > 1 ? "each of " + std::to_string(contract.devices) + " devices" : "device";
  section(out, each + " (exact)", contract.device_bytes, contract.device);
  if (contract.device_bytes_apart > contract.device_bytes) {
    line(out, "saved by sharing between phases", contract.device_bytes_apart - contract.device_bytes);
  }
  if (contract.device_other_bytes > 0) {
    section(out, "device: driver and other processes (now)", contract.device_other_bytes, {});
  }
  section(out, "pinned (exact; part of host)", contract.pinned_bytes, {});
  section(out, "host (peak of the process)", contract.host_bytes, contract.host);
}

}  // namespace l2l::tools
