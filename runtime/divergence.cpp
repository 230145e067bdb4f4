#include "runtime/divergence.h"

#include <sstream>

#include "eps/checkpoint/checkpoint.h"
#include "eps/checkpoint/manifest.h"

namespace l2l::runtime {
namespace {

std::string settings_that_help(const Options& options) {
  std::ostringstream text;
  if (options.schedule.rate) {
    text << "lower rates by schedule.rate";
  } else {
    text << "a lower optimizer.learning_rate (now " << options.optimizer.learning_rate
         << "), a longer schedule.warmup_steps (now " << options.schedule.warmup_steps << ")";
  }
  if (options.optimizer.clip == "global") {
    text << ", a lower optimizer.max_norm (now " << options.optimizer.max_norm << ")";
  } else {
    text << ", optimizer.clip = \"global\" (now \"" << options.optimizer.clip << "\")";
    const bool waits = options.optimizer.update == "after_backward" || options.precision.compute == "fp16";
    if (!waits) text << ", with which the steps before are saved, too";
  }
  if (options.precision.compute == "fp16") text << ", precision.compute = \"bf16\" (now \"fp16\")";
  if (options.precision.compute == "bf16") text << ", precision.compute = \"fp32\" (now \"bf16\")";
  // There a residual stream that leaves its range shows as infinity.
  if (options.model.reversible == "fixed") {
    text << ", model.reversible = \"float\" (now \"fixed\", whose residual streams end at +-32768)";
  }
  return text.str();
}

std::string last_checkpoint(const std::filesystem::path& directory) {
  try {
    if (!directory.empty()) {
      const std::filesystem::path folder = eps::find_checkpoint(directory);
      return "the last checkpoint is " + folder.string() + ", after step " +
             std::to_string(eps::read_manifest(folder).state.step);
    }
  } catch (const BadInput&) {  // there is none
  }
  return "no checkpoint was saved yet";
}

}  // namespace

NumericError with_advice(const NumericError& error, const Options& options) {
  return NumericError(std::string(error.what()) + "; what usually helps: " + settings_that_help(options) +
                          " (a run that goes on takes a changed key with --allow-change KEY); " +
                          last_checkpoint(options.checkpoint.directory),
                      error.nothing_changed());
}

}  // namespace l2l::runtime
