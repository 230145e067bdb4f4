// What a run tells while it trains, and how it ends. Trainer::run() is the run.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "l2l/export.h"

namespace l2l {

// One training step; the fields of a --metrics line.
struct StepReport {
  std::int64_t step = 0;  // from 1: steps completed
  double loss = 0;        // mean over predicted tokens, in nats
  double learning_rate = 0;
  double gradient_norm = 0;  // before clipping; not finite when skipped
  std::int64_t tokens = 0;   // processed in this step
  double tokens_per_second = 0;
  double step_ms = 0;
  std::uint64_t device_peak_bytes = 0;     // the largest of all devices
  std::uint64_t host_bytes = 0;            // peak resident memory of the process so far
  std::uint64_t h2d_bytes = 0;             // copied to the devices in this step
  std::uint64_t d2h_bytes = 0;             // copied from the devices in this step
  std::uint64_t gathered_bytes = 0;        // of weights, received by devices from each other in this step
  std::uint64_t exchanged_bytes = 0;       // of gradients, likewise
  std::uint64_t rows_exchanged_bytes = 0;  // of rows and their statistics, likewise: the passes of split layers
  double weight_stall_ms = 0;              // compute waited for weights; the mean of all devices, as are the next two
  double stash_stall_ms = 0;               // compute waited for the stash
  double update_stall_ms = 0;              // the weight stream waited for updates; prefetch may hide this from compute
  double loss_scale = 1;                   // in this step
  bool skipped = false;  // fp16 gradients overflowed: weights and moments are unchanged, the loss scale halves
  std::optional<double> predicted_ms;  // the prediction for step_ms; nothing when measurements are missing
  double eps_gb_per_second = 0;        // what the parameter server read and wrote while it was busy in this step
  // The same over the bandwidth that memory was seen to reach: when it was measured, or in this run. Nothing where it
  // was not measured, and where caches may hold much of the state.
  std::optional<double> eps_fraction;
  // model.reversible = "float", not of a custom model: the root mean square of the difference between the two streams
  // when they are rebuilt down to the embedding, where they began equal, over that of the streams. Else nothing.
  std::optional<double> stream_drift;
};

// The step as one line of JSON; numbers round-trip.
L2L_API std::string to_json(const StepReport& report);

// A validation.
struct Evaluation {
  double loss = 0;  // in nats per predicted token
  std::int64_t tokens = 0;
  // How well the head does its task: name and value; empty where it predicts tokens. Classification: "accuracy", "f1"
  // (of class 1; of more than two classes the mean over all) and "matthews". Regression: "pearson" and "spearman".
  // Words: "accuracy" and, where model.label_names are BIO or IOBES tags, "f1" of entities. Choices: "accuracy". Of
  // MNLI also those of the second validation set, as NAME_mismatched; the loss is that of the first. Of a custom model
  // those of model.metrics.
  std::vector<std::pair<std::string, double>> metrics = {};
};

// Where a run ends, at the latest.
struct RunLimits {
  std::int64_t steps = -1;  // completed in all, those before a resume included; -1: run.steps
  // From when run.seconds is counted.
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

// Why a run has ended: all steps are done; run.patience; run.seconds; Trainer::request_stop().
enum class RunEnd { steps, patience, seconds, stopped };

// Why a checkpoint is written: checkpoint.every or .minutes; Trainer::request_save(); the best validation so far; the
// run's end. For the first two, training goes on meanwhile.
enum class SaveReason { due, asked, best, end };

struct RunResult {
  RunEnd end = RunEnd::steps;
  std::filesystem::path checkpoint = {};                // of the last step; empty where no directory is set
  std::optional<StepReport> last = std::nullopt;        // nothing where no step was left
  std::optional<Evaluation> validation = std::nullopt;  // the last one
};

// Is told what happens, in the thread that called Trainer::run(), which goes on when a function returns. They may call
// request_stop(), request_save(), set_layers(), read_parameter(), write_parameter(), generate(), generate_all(),
// logits(), hidden_states(), weights_hash() and all that is const; step(), run(), resume(), save(), start_save(),
// finish_save(), evaluate() and predict(source) throw Error. What they throw ends the run, and run() throws it.
//
// After each step: step(); saving(), where one is due, and saved() when it is done; validating() and validated(). At
// the end: ending(), saving(), saved(), validating(), validated(); a validation that request_stop() ends has no
// validated(). So a list of layers that is set in step() is the one that the checkpoint of that step has, and what
// validating() sets is validated.
class L2L_API RunObserver {
 public:
  virtual ~RunObserver();
  // Everything is ready; step `completed` + 1 of `steps` is next.
  virtual void begin(std::int64_t completed, std::int64_t steps);
  virtual void step(const StepReport& report);
  virtual void saving(std::int64_t step, SaveReason reason);
  virtual void saved(const std::filesystem::path& checkpoint);
  virtual void validating(std::int64_t step);
  // Between validating() and validated(), before each minibatch: the share that is done. Only request_stop() and what
  // is const may be called.
  virtual void validation_goes_on(double share);
  virtual void validated(std::int64_t step, const Evaluation& evaluation);
  // It was the best so far; `checkpoint` is what checkpoint.best keeps.
  virtual void kept_best(const std::filesystem::path& checkpoint);
  // No further step follows, but the last save and validation.
  virtual void ending(RunEnd end);
};

}  // namespace l2l
