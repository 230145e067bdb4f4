// Trains a model with the L2L relay. l2l-train uses nothing but this API.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "l2l/errors.h"
#include "l2l/export.h"
#include "l2l/log.h"
#include "l2l/options.h"

namespace l2l {

// One line of the memory contract.
struct ContractLine {
  std::string what;  // "weight slots (2 x 3.1 MiB)"
  std::uint64_t bytes;
};

// The memory that a run will need, known before step 1 (law 3). Device and pinned bytes are exact; host bytes predict
// the peak resident memory of the process. device_bytes does not include what a GPU's driver and other processes hold.
struct MemoryContract {
  std::uint64_t device_bytes = 0;
  std::uint64_t device_bytes_apart = 0;  // what they would be if no two parts shared memory
  std::uint64_t device_other_bytes = 0;  // device memory held by the driver and other processes when this was written
  std::uint64_t pinned_bytes = 0;
  std::uint64_t host_bytes = 0;
  int devices = 1;                   // device_bytes is for each of them, the other sums are for all
  std::vector<ContractLine> device;  // sums to device_bytes
  std::vector<ContractLine> host;    // sums to host_bytes
  std::int64_t parameters = 0;
  std::string device_description;
  std::string device_choice;  // what device.kind = "auto" took and why, else empty
  std::string stash;          // "host", "device", "split" between them, or "none": blocks rebuild their inputs
  int blocks_stashed_on_device = 0;
  int resident_layers = 0;                 // blocks whose weights stay on the device, each in a slot of its own
  std::string eps_placement;               // "3 workers on node 0 (CPUs 1-3); core of CPU 0 feeds the device"
  std::vector<std::string> recomputation;  // what "auto" or a budget made of recompute.policy, and why; else none
  std::string update_mode;  // "eager: ..." or "held until the step's verdict: ...", with the reasons and the price
};

// Bytes that crossed the link since the run began; of several devices, over all links.
struct LinkCounters {
  std::uint64_t weights_h2d = 0;
  std::uint64_t gradients_d2h = 0;
  std::uint64_t stash_h2d = 0;
  std::uint64_t stash_d2h = 0;
  std::uint64_t batch_h2d = 0;    // token ids and targets
  std::uint64_t results_d2h = 0;  // losses
  std::uint64_t h2d() const { return weights_h2d + stash_h2d + batch_h2d; }
  std::uint64_t d2h() const { return gradients_d2h + stash_d2h + results_d2h; }
};

// What one resource does in a predicted step.
struct PredictionLine {
  std::string what;         // "device compute"
  std::uint64_t bytes = 0;  // that it moves; 0: none
  double ms = 0;            // that it is busy
  double exposed_ms = 0;    // of these, what nothing else hides
};

// A step's time, predicted from measured times of its parts on this machine.
struct StepPrediction {
  std::optional<double> step_ms;  // nothing when figures are missing
  double tokens_per_second = 0;
  std::string bound;  // what sets the time: "device compute", "link to the device", "processor cores", ...
  std::vector<PredictionLine> lines;
  std::optional<double> memory_gb_per_second;  // what an update's streams can reach: the limit of the parameter server
  std::vector<std::string> missing;            // what has not been measured on this machine
  int measured = 0, cached = 0;                // figures measured now, and found in `file`
  std::string file;                            // where they are kept
  std::string work;                            // a hash: the same for plans whose steps do the same, in the same order
  std::optional<double> measured_ms;           // by check_prediction(): how long a step takes
};

// One training step; the fields of a --metrics line.
struct StepReport {
  std::int64_t step = 0;  // from 1: steps completed
  double loss = 0;        // mean over predicted tokens, nats
  double learning_rate = 0;
  double gradient_norm = 0;  // before clipping; not finite when skipped
  std::int64_t tokens = 0;   // of this step
  double tokens_per_second = 0;
  double step_ms = 0;
  std::uint64_t device_peak_bytes = 0;  // of several devices, the largest; stalls are their mean
  std::uint64_t host_bytes = 0;         // peak resident memory of the process so far
  std::uint64_t h2d_bytes = 0;          // of this step
  std::uint64_t d2h_bytes = 0;
  double weight_stall_ms = 0;  // compute stood still waiting for weights
  double stash_stall_ms = 0;   // compute stood still waiting for the stash
  double update_stall_ms = 0;  // the weight stream waited for updates; prefetch may hide it from compute
  double loss_scale = 1;       // in this step
  bool skipped = false;        // fp16 gradients overflowed: weights and moments are as they were, the loss scale halves
  std::optional<double> predicted_ms;  // what step_ms was predicted to be; nothing: not all was measured before
  double eps_gb_per_second = 0;        // what the parameter server read and wrote while it was busy in this step
  std::optional<double> eps_fraction;  // of what the machine's memory was measured to carry; nothing: it was not
  // model.reversible = "float": how far the two streams, which begin alike, are apart when they have been rebuilt down
  // to the embedding, relative to their size, in the root mean square; else nothing.
  std::optional<double> stream_drift;
};

// The step as one line of JSON; numbers round-trip.
L2L_API std::string to_json(const StepReport& report);

struct GenerateOptions {
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0: the most probable token
  std::uint64_t seed = 1;
};

// Thread-bound: one thread at a time. After a step has failed, only destruction is allowed.
class L2L_API Trainer {
 public:
  // Validates the options, reads the data, plans device and host memory. Throws BadInput, or OutOfMemory when the plan
  // does not fit. Allocates neither arena nor parameter state, and writes nothing; but recompute.policy = "auto" and
  // recompute.budget measure what this machine was not yet measured to take, as predict() does, with all of a shallower
  // model.
  explicit Trainer(Options options);
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  const Options& options() const;
  const MemoryContract& contract() const;

  // The time of a step. With `measure`, parts not yet measured on this machine are measured now, in some seconds and up
  // to 256 MiB, and kept in the calibration file. (On a host device, two shallower models with up to 1 GiB of state
  // each are trained, which takes longer if their steps are long.) Reads no data. Throws Error when called with
  // `measure` after prepare() or a step.
  StepPrediction predict(bool measure);
  // The same beside the measured time of a step; stores nothing. Allocates all that a run does and trains on random
  // tokens.
  StepPrediction check_prediction();

  // Allocates everything that the contract names; otherwise the first call that needs it does.
  void prepare();

  // Restores weights, moments, step and data position from the newest good checkpoint below `directory` (or from
  // `directory` itself, when it is one) and returns its folder. Falls back from a damaged checkpoint to an older sound
  // one, with a warning that says which is used and which steps are lost. Call before the first step. Throws
  // CorruptFile or BadInput, and then changes nothing.
  std::filesystem::path resume(const std::filesystem::path& directory);

  // Runs one minibatch through the relay. Returns when its loss and gradient norm are known; updates may still run
  // and hide behind the next step. Throws NumericError, DeviceError.
  StepReport step();
  // Runs steps until `steps` are completed or `progress`, called after each one, returns false.
  void train(std::int64_t steps, const std::function<bool(const StepReport&)>& progress);
  std::int64_t completed_steps() const;

  // Mean loss in nats per predicted token over the validation data (every token predicted once; of bert the masked
  // ones, the same in every call), dropout off; nothing when `stop`, asked between minibatches, returned true. Throws
  // BadInput when there is no validation data.
  std::optional<double> validation_loss(const std::function<bool()>& stop = {});

  // Begins to write a checkpoint of the completed steps below options().checkpoint.directory, atomically, and returns:
  // it is written beside the steps that follow, without a copy of the state (a layer is written before its next
  // update). Waits for the checkpoint before, if that is still being written, and throws its failure. A checkpoint that
  // has begun is finished even when a later step fails; the destructor waits for it.
  void start_save();
  // A checkpoint is being written.
  bool saving() const;
  // Waits for the checkpoint that was started last and returns its folder; an empty path when there is none, or it was
  // asked for already. Throws Error when it could not be written: older ones are then as they were, and training can go
  // on.
  std::filesystem::path finish_save();
  // start_save() and finish_save().
  std::filesystem::path save();

  // Continues `prompt` (token ids) with sampled tokens; returns those alone. Throws BadInput for a bert, which fills
  // gaps and continues nothing.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt, const GenerateOptions& options);

  LinkCounters link_counters() const;
  std::uint64_t device_peak_bytes() const;
  // Peak resident memory of the process so far.
  std::uint64_t host_peak_bytes() const;
  // Hash of all FP32 master weights and moments; completes pending updates first.
  std::uint64_t weights_hash();

  // Records spans from now on, in memory that becomes a line of the contract. Call right after construction.
  // write_trace() saves them as Chrome-trace JSON, which opens in Perfetto.
  void start_trace();
  void write_trace(const std::filesystem::path& file) const;

 private:
  struct L2L_HIDDEN Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// The options with which the newest checkpoint below `directory` (or `directory` itself) was written. Throws BadInput.
L2L_API Options checkpoint_options(const std::filesystem::path& directory);

// The options for a Trainer that will resume() from `directory`. Where `options` leave the microbatch to be chosen
// (recompute.policy = "auto", and of `batch` the minibatch alone), it is that of the newest checkpoint there, since
// another one would give other bits; but chosen anew when the checkpoint's minibatch was another one, or when its
// microbatch does not divide a device's share. All else stays. Throws BadInput when there is no checkpoint.
L2L_API Options options_to_resume(Options options, const std::filesystem::path& directory);

// Moves checkpoints of more than `steps` steps that an earlier run left in `directory` to `directory`/earlier-N, so
// that a run which starts after `steps` steps is not mixed up with them. Does nothing when there are none. Throws
// Error.
L2L_API void set_aside_checkpoints(const std::filesystem::path& directory, std::int64_t steps = -1);

}  // namespace l2l
