#include "tools/time_table.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "tools/contract_table.h"

namespace l2l::tools {
namespace {

template <typename... Arguments>
std::string print(const char* format, Arguments... arguments) {
  char buffer[256];
  std::snprintf(buffer, sizeof(buffer), format, arguments...);
  return buffer;
}

// Bytes and their rate, where the resource moves any.
std::string traffic(const PredictionLine& line) {
  if (line.bytes == 0 || line.ms <= 0) return {};
  return print("%10s %7.1f GB/s", human_bytes(line.bytes).c_str(), 1e-6 * static_cast<double>(line.bytes) / line.ms);
}

std::string line_of(const PredictionLine& line, const StepPrediction& prediction) {
  const double hidden = std::max(0.0, line.ms - line.exposed_ms);
  std::string text =
      print("    %-24s %10.2f ms, %8.2f of them hidden %s", line.what.c_str(), line.ms, hidden, traffic(line).c_str());
  if (line.what == "parameter server" && prediction.memory_gb_per_second) {
    text += print(" (memory carries %.1f)", *prediction.memory_gb_per_second);
  }
  return text + "\n";
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

void print_prediction(std::ostream& out, const StepPrediction& prediction) {
  if (!prediction.step_ms) {
    out << "time of a step: not known; l2l-plan measures what this machine was not yet measured to take: "
        << list(prediction.missing) << "\n";
    return;
  }
  out << "time of a step\n"
      << print("  predicted %.4g ms, %.0f tokens/s; the bound is: %s\n", *prediction.step_ms,
               prediction.tokens_per_second, prediction.bound.c_str());
  if (prediction.measured_ms) {
    out << print("  measured %.4g ms: predicted / measured %.3f\n", *prediction.measured_ms,
                 *prediction.step_ms / *prediction.measured_ms);
  }
  for (const PredictionLine& line : prediction.lines) out << line_of(line, prediction);
  out << "  " << prediction.measured << " figures measured now, " << prediction.cached << " from cache ("
      << (prediction.file.empty() ? "none: set L2L_CALIBRATION" : prediction.file) << ")\n";
}

}  // namespace l2l::tools
