// Trains a model with the L2L relay. l2l-train uses nothing but this API.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "l2l/errors.h"
#include "l2l/export.h"
#include "l2l/log.h"
#include "l2l/options.h"
#include "l2l/run.h"

namespace l2l {

// One line of the memory contract.
struct ContractLine {
  std::string what;  // "weight slots (2 x 3.1 MiB)"
  std::uint64_t bytes;
};

// The memory that a run will need, known before step 1. Device and pinned bytes are exact; host bytes predict the peak
// resident memory of the process within 2%. What a GPU's driver and other processes hold is not in device_bytes.
struct MemoryContract {
  std::uint64_t device_bytes = 0;        // of each device
  std::uint64_t device_bytes_apart = 0;  // what device_bytes would be if no two parts shared memory
  std::uint64_t device_other_bytes = 0;  // held by the driver and other processes when this was written
  std::uint64_t device_late_bytes = 0;   // left free for what the driver allocates later
  std::uint64_t device_graph_bytes = 0;  // of these, CUDA graphs; what does not fit is launched kernel by kernel
  std::uint64_t pinned_bytes = 0;        // page-locked host memory, for all devices
  std::uint64_t host_bytes = 0;          // host memory, for all devices
  std::uint64_t checkpoint_bytes = 0;    // of a checkpoint on disk, without a tokenizer
  int devices = 1;                       // of this process
  int nodes = 1;                         // processes that train together, of which this is the contract of one
  std::vector<ContractLine> device;      // sums to device_bytes
  std::vector<ContractLine> host;        // sums to host_bytes
  std::int64_t parameters = 0;           // of the model
  std::int64_t trained_parameters = 0;   // of these, those that are not frozen
  std::string device_description;
  std::string device_choice;   // what device.kind = "auto" chose and why; else empty
  std::string compute_choice;  // what precision.compute = "auto" chose and why; else empty
  std::string weight_feed;     // of several devices: how weights come to them (device.feed), and why; of one empty
  std::string gradient_sums;   // the same of where gradients are summed (device.sums)
  std::string advice;          // on precision.compute, where the device is faster in another; else empty
  std::string stash;           // "host", "device", "split" between them, or "none": blocks rebuild their inputs
  int blocks_stashed_on_device = 0;
  int resident_layers = 0;                 // blocks whose weights stay on the device, each in a slot of its own
  std::string eps_placement;               // "3 workers on node 0 (CPUs 1-3); core of CPU 0 feeds the device"
  std::string recomputation_summary;       // what blocks keep where "auto" chose it; else empty
  std::vector<std::string> recomputation;  // what was chosen for "auto" or a budget, and why; else empty
  std::string update_mode;  // "eager: ..." or "held until the step's verdict: ...", with the reasons and the cost
};

// Bytes that crossed the links of all devices since the run began; h2d is host to device, d2h device to host.
struct LinkCounters {
  std::uint64_t weights_h2d = 0;
  std::uint64_t gradients_d2h = 0;
  std::uint64_t stash_h2d = 0;
  std::uint64_t stash_d2h = 0;
  std::uint64_t batch_h2d = 0;            // token ids and targets
  std::uint64_t results_d2h = 0;          // losses
  std::uint64_t weights_gathered = 0;     // received by devices from each other, which crosses no link of the host
  std::uint64_t gradients_exchanged = 0;  // likewise
  std::uint64_t rows_exchanged = 0;       // likewise, in the forward and backward passes of split layers
  std::uint64_t h2d() const { return weights_h2d + stash_h2d + batch_h2d; }
  std::uint64_t d2h() const { return gradients_d2h + stash_d2h + results_d2h; }
};

// Bytes that this process has sent to the others, and received from them, since the run began: gradients, sums of
// squares, and weights that were updated, or gathered for a visit.
struct NetworkCounters {
  std::uint64_t gradients_sent = 0, gradients_received = 0;
  std::uint64_t squares_sent = 0, squares_received = 0;
  std::uint64_t weights_sent = 0, weights_received = 0;
};

// One resource in a predicted step.
struct PredictionLine {
  std::string what;         // "device compute"
  std::uint64_t bytes = 0;  // moved in a step; 0: it moves none
  double ms = 0;            // busy time in a step
  double exposed_ms = 0;    // by which the step would be shorter without it
};

// What a run of several processes, one on each node, exchanges, and what that costs.
struct NodesPrediction {
  int nodes = 0;
  std::string limit;        // why so many cannot train together yet; empty: they can
  NetworkCounters network;  // of this one in a step
  // Of the network, each way: distributed.bandwidth, or what processes that run have measured. Nothing: not known.
  std::optional<double> gb_per_second;
  std::optional<double> one_node_ms;  // the step of one node alone, with its share of the minibatch
  std::optional<double> efficiency;   // that over the predicted step
  // GB/s each way at which, and above which, the network makes a step at most kHidden longer. Nothing where the step is
  // not known.
  std::optional<double> hidden_from_gb_per_second;
  static constexpr double kHidden = 0.05;
};

// A step's time as modelled from what its pieces take on this machine.
struct StepPrediction {
  std::optional<double> step_ms;  // nothing when measurements are missing
  double tokens_per_second = 0;
  std::string
      bound;  // the resource that limits the step: "device compute", "link to the device", "processor cores", ...
  std::vector<PredictionLine> lines;
  // Bandwidth that updates can reach: the parameter server's limit. Nothing where it was not measured, or where the
  // state is so small that caches hold much of it.
  std::optional<double> memory_gb_per_second;
  bool state_in_caches = false;
  std::vector<std::string> missing;      // what has not been measured on this machine
  int measured = 0, cached = 0;          // how many measurements were made now, and how many were in `file`
  int estimated = 0;                     // figures that follow from other measurements
  std::string file;                      // the calibration file
  std::string work;                      // a hash, equal for plans whose steps do the same work in the same order
  std::optional<double> measured_ms;     // by check_prediction(): the time of real steps
  std::optional<NodesPrediction> nodes;  // where there are several
};

// A measurement of this machine that begins.
struct MeasuringProgress {
  std::string what;         // "copies"
  int number = 0, of = 0;   // which of how many, as far as is known
  double seconds_left = 0;  // about, with this one
};

// How what a step takes is measured, where this machine's calibration has no figures for it.
struct Measuring {
  static constexpr double kThorough = std::numeric_limits<double>::infinity();
  // Seconds after which no further measurement begins: these are brief, and what is left is estimated from them. All
  // figures are kept, estimates too, so that the same calibration gives the same predictions and choices. kThorough:
  // every figure that was not measured thoroughly is, each for some tenths of a second; what shows only when steps run
  // takes minutes. 0: nothing is measured, and estimates are not kept.
  double seconds = 3;
  std::function<void(const MeasuringProgress&)> show = {};  // called by the thread that measures
};

// The processor, cores and instruction sets that measured times belong to, and the version of the library.
L2L_API std::string machine_description();

struct GenerateOptions {
  std::int64_t tokens = 200;  // how many to sample of a text that does not end before, 0 to 2^24
  double temperature = 0.8;   // divides the logits; 0: always the most probable token
  // The next token is one of the top_k most probable ones (0: of all), and of these one of the fewest whose
  // probabilities sum to top_p, in (0, 1]; as in transformers.
  std::int64_t top_k = 0;
  double top_p = 1;
  std::vector<std::int32_t> stop = {};  // tokens behind which a text ends, such as that of the end of a sequence
  std::uint64_t seed = 1;               // of the sampling; each prompt has numbers of its own
};

// What Trainer::generate() will be asked for at most.
struct GenerationShape {
  std::int64_t prompts = 1;
  std::int64_t longest_prompt = 1;  // tokens
  std::int64_t tokens = 200;        // GenerateOptions::tokens
};

// A parameter of the model.
struct Parameter {
  std::string name;  // as in Hugging Face files: "h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;
  bool trained = true;     // else frozen: it has no moments, and is kept in precision.compute
  bool statistic = false;  // no parameter, but LayerBuilder::statistic()
};

// The norm of the gradient of a layer's parameters (of a table that embedding and head share: of both its uses).
struct GradientNorm {
  std::string layer;  // "h.0", as parameters' names begin
  double norm = 0;    // before clipping, without the loss scale; 0 where all of it is frozen
};

// What is kept of a parameter: itself, and the optimizer's moments of it.
enum class ParameterPart : std::uint8_t { value, moment1, moment2 };

// Thread-bound, one thread at a time, but for request_stop(), request_save() and abort(). After a failed step, only
// destruction is allowed, but after a NumericError with nothing_changed() also save() and weights_hash().
class L2L_API Trainer {
 public:
  // Validates the options, reads what data there are, and plans device and host memory. Throws BadInput, or OutOfMemory
  // when the plan does not fit. Neither device memory nor parameter state is allocated, and nothing is written but
  // caches of tokens and hashes. What recompute.policy = "auto" and recompute.budget choose by is what the calibration
  // file knows of this machine (tune()), and estimates.
  explicit Trainer(Options options);
  // The same, but figures that those two miss are measured first, as `measuring` says, and kept in the calibration
  // file. Where that is thorough, small models are trained, too, since only running them tells close choices apart.
  Trainer(Options options, Measuring measuring);
  ~Trainer();
  // One that was moved from may only be destroyed or assigned to.
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  // With every value set: what was left open is filled in.
  const Options& options() const;
  const MemoryContract& contract() const;

  // The predicted time of a step. `measure`: figures that are missing are measured now, as the constructor was told, in
  // what it left of the time, and kept in the calibration file. That takes up to 256 MiB; on a host device, a shallower
  // model is trained, too (thoroughly: two, of up to 1 GiB of state each). Reads no data. Throws Error when called with
  // `measure` after prepare() or a step.
  StepPrediction predict(bool measure);
  // The same, measured thoroughly, and with the measured time of steps: allocates what a run does, and trains on random
  // tokens; but those of several nodes are not measured. Throws Error when called after prepare() or a step.
  StepPrediction check_prediction();

  // Allocates all memory of the contract and, with model.pretrained, loads the weights. `loading`, if given, is called
  // from several threads, one at a time, with the bytes loaded so far and all of them. Without this call, the first one
  // that needs it does so. Throws BadInput with the list of all tensors that are missing, unexpected or of a wrong
  // shape, CorruptFile and OutOfMemory; nothing is half loaded.
  void prepare(const std::function<void(std::uint64_t, std::uint64_t)>& loading = {});

  // Checks that options().checkpoint.directory can hold this run's checkpoints: that it can be made and written, that
  // there is room for two at a time, and that no limit on file sizes is in the way; of several ranks, that all see what
  // one makes there. Leaves nothing behind. Throws BadInput naming need and shortfall; does nothing where no directory
  // is set.
  void check_checkpoint_directory() const;
  // The same, but the directory stays, what a crash left there is removed, and this Trainer holds it for its life:
  // another one that wants to save there, in this process or another, is refused with BadInput that names this process.
  // The first start_save() does so anyway; later ones make a directory anew that was moved or removed, with a warning,
  // and hold that. Of several ranks, all call it.
  void claim_checkpoint_directory();
  // Keeps `newest` and the newest checkpoint.keep in checkpoint.directory, as every save does after its own. For a run
  // that saves nothing more, but that may have been killed before it removed the older ones. Does nothing where no
  // directory is set.
  void prune_checkpoints(const std::filesystem::path& newest);

  // Restores weights, moments, step and data position from the newest good checkpoint in `directory` (in
  // `directory`/checkpoints, if only that has some; from `directory` itself if it is one) and returns its folder. If a
  // damaged one is passed over for an older one, a warning names the one in use and the steps that are lost. Call
  // before the first step. Throws CorruptFile, or BadInput, naming keys and the way out, where the options are not
  // those that the checkpoint was made with: where seed, shape of the model, adapters or what is trained differ, and
  // where the training data ("data.train"), or a key of [model], [optimizer], or of the order of data has changed that
  // is not in `allowed` ("optimizer.learning_rate"), which messages call --allow-change. Functions, such as
  // schedule.rate and model.loss, are not in a checkpoint: that they are others now is not noticed. On a GPU whose
  // programs have other kernels than the checkpoint's (device.kernels_from), they are compiled again, and the contract
  // may change; after prepare() it is too late for that, and a warning says that last bits differ.
  std::filesystem::path resume(const std::filesystem::path& directory, const std::vector<std::string>& allowed = {});
  // Throws what resume() would throw, as far as manifests show it, warns of the changes of options that it would go on
  // with, and returns the steps that are completed in the checkpoint that it would take. Also reads what
  // checkpoint.best goes on with. Loads and changes nothing.
  std::int64_t check_resume(const std::filesystem::path& directory, const std::vector<std::string>& allowed = {}) const;
  // Throws what prepare() would throw because of tensors that model.pretrained or lora.adapter has not, or has too
  // many, or of a wrong shape. Reads no values.
  void check_weights() const;

  // Trains on one minibatch. Returns when the loss and the gradient norm are known; updates may still run and overlap
  // with the next step. Throws NumericError, DeviceError, CorruptState, Aborted, BadInput for samples or a rate of
  // schedule.rate that are refused, Error when called from an observer, and what the source of samples has thrown.
  StepReport step();
  // A whole run: steps until `limits` or an option ends it, with all that options ask for: saves (checkpoint.every and
  // .minutes, at the end, .keep, .best), validations (run.validate_every and .validate_minutes, at the end),
  // run.seconds, run.patience and run.tensorboard. Nothing is saved where no checkpoint.directory is set, which
  // checkpoint.every needs. Calls `observer` on this thread. Checkpoints in the directory that are not of this run are
  // set aside first. Throws what step(), evaluate() and save() throw; where a step fails without changing anything, as
  // where its samples cannot be read, the steps before it are saved first.
  RunResult run(RunObserver& observer, const RunLimits& limits = {});
  RunResult run(const RunLimits& limits = {});
  // From any thread, also before run(): the step in progress is finished and saved, no validation begins or goes on,
  // and run() returns. A request is for one run, the one in progress or else the next, and used up however that ends.
  void request_stop();
  // From any thread: run() saves after the step in progress, beside later steps.
  void request_save();
  // From any thread: the call in progress, and every later one that uses the model, throws Aborted. It does so within a
  // layer's visit of the device; of resident execution, within a step; while a file is read or written, after that.
  // Then only destruction is allowed. Nothing more is saved, and the newest checkpoint stands.
  void abort();
  std::int64_t completed_steps() const;
  // Which of the processes that train together this is (distributed.kind), and how many there are. All of them make the
  // same calls in the same order, and have one Trainer at a time. Losses, norms and evaluations are those of all; rank
  // 0 writes what a run writes, and of checkpoints each its part. Where one fails by itself, all are ended; a save that
  // fails on any throws the same on all.
  int rank() const;
  int ranks() const;
  // Whether it is so on any of them.
  bool on_any_rank(bool here);
  // Runs `check` on each of them. Where it throws on any, all throw: that one what it threw, the others its message
  // with its rank, as BadInput if that was one; the Trainer cannot be used any further.
  void check_on_all_ranks(const std::function<void()>& check);
  // Whether what was thrown last ended all of them, each with an error of its own: nobody needs to be told.
  bool ended_together() const;

  // Between steps: the layers of everything that follows, by id, in their order. Any of model.blocks and model.reserve,
  // of a custom model but for the last, which stays. Does not wait for updates. A layer keeps its parameters, moments
  // and number of updates while it is out of use; its random numbers follow from its id, whatever its place, and those
  // of a further use in a list from the number of that use as well. Checkpoints have the list, and a run that resumes
  // goes on with it. Allocates nothing on the device. Throws BadInput, and changes nothing, where model.reserve has no
  // room for the list, and where a layer does not read what the one before it returns.
  void set_layers(std::span<const std::uint32_t> ids);
  // The list; empty where model.reserve is not set.
  const std::vector<std::uint32_t>& layers() const;

  // Mean loss over the validation data, in nats per predicted token, dropout off. Every token is predicted once; for
  // bert, masked tokens, the same ones in every call. Returns nothing when `stop`, called between minibatches, returns
  // true; within stop() the trainer's other functions throw Error. Throws BadInput when there is no validation data.
  std::optional<double> validation_loss(const std::function<bool()>& stop = {});
  // The same with the number of tokens that were predicted.
  std::optional<Evaluation> evaluate(const std::function<bool()>& stop = {});

  // What the last layer of a custom model returns first, of each sample of `source`, dropout off: calls take(sample,
  // values) in ascending order, in fp32. Reads the samples on this thread. What take() throws ends it; within take()
  // the trainer's other functions throw Error. Throws BadInput for other models.
  using TakeOutputs = std::function<void(std::uint64_t sample, std::span<const float> values)>;
  void predict(const SampleSource& source, const TakeOutputs& take);

  // Starts to write a checkpoint of the completed steps below options().checkpoint.directory, and returns. It is
  // written while later steps run, without a copy of the state (each layer is written before its next update), and
  // appears atomically. Its folder is also a Hugging Face model directory. Waits for an earlier checkpoint that is
  // still being written, and throws its failure. A checkpoint that was started is finished even when a later step
  // fails, unless weights of it still wait for an update that then never comes; the destructor waits for it. Throws
  // BadInput when no directory is set.
  void start_save();
  // Whether a checkpoint is being written.
  bool saving() const;
  // Waits for the checkpoint that was started last and returns its folder. Returns an empty path when none was started
  // since the last call. Throws Error when it could not be written; older ones are then unchanged, and training can go
  // on.
  std::filesystem::path finish_save();
  // start_save(), then finish_save().
  std::filesystem::path save();

  // Plans memory in which generate() keeps the keys and values of every layer, on the first device, so that a token
  // costs one row of its text instead of all; it becomes part of the contract. Without this call, and beyond its shape,
  // every token runs its whole text again. Does nothing for models with two residual streams. Throws Error unless
  // called right after construction, BadInput as generate() does, and OutOfMemory.
  void reserve_generation(const GenerationShape& shape);
  // Continues `prompt`, at least one token id, with sampled tokens, and returns those alone. Throws BadInput for no
  // ids, an id outside the vocabulary, models that cannot continue a text (bert, roberta, heads with labels, custom
  // ones), and where device.tensor > 1.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt, const GenerateOptions& options);
  // The same for several prompts, each of which gets the tokens that it would get in its place among others. A token of
  // `options.stop` is the last of its text. `take`, if given, gets every token when it is drawn, by the number of its
  // prompt; that text ends where it returns false. What it throws ends the call; within take() the trainer's other
  // functions throw Error. Throws BadInput for options out of their range, too.
  using TakeToken = std::function<bool(std::size_t prompt, std::int32_t token)>;
  std::vector<std::vector<std::int32_t>> generate_all(const std::vector<std::vector<std::int32_t>>& prompts,
                                                      const GenerateOptions& options, const TakeToken& take = {});

  // Logits of every token of one sequence, dropout off: of 1 to model.sequence ids; of bert and roberta, which see all
  // of it at once, exactly model.sequence. Calls take(row, first_token, logits) with those of token `row` for the
  // entries from `first_token` on (of the vocabulary; of a head with labels, its labels), in fp32, and in any order.
  // Once take() has thrown it is not called again, and this throws the same; within take() the trainer's other
  // functions throw Error. Throws BadInput for another number of ids, an id outside the vocabulary, custom models, and
  // where device.tensor > 1.
  using TakeLogits = std::function<void(std::int64_t row, std::int64_t first_token, std::span<const float> logits)>;
  void logits(std::span<const std::int32_t> tokens, const TakeLogits& take);
  // What the head reads of every token, [hidden], in the same way: calls take(row, first_element, values). For bert and
  // roberta that is transformers' last_hidden_state; the other families norm it before anything else. Throws BadInput
  // also where model.reversible is set.
  using TakeHidden = std::function<void(std::int64_t row, std::int64_t first_element, std::span<const float> values)>;
  void hidden_states(std::span<const std::int32_t> tokens, const TakeHidden& take);

  // In the order of layers.
  std::vector<Parameter> parameters() const;
  // Of each layer in the last step, in the order of the model; their squares add up to the square of
  // StepReport::gradient_norm. 0 for layers that are out of use (set_layers()). Empty before the first step.
  std::vector<GradientNorm> gradient_norms() const;
  // Elements [first, first + values.size()) of a parameter's part, row-major, in fp32: a piece at a time, so that large
  // ones need no memory of their own. Waits for pending updates. Throws BadInput for a name, a range or a moment that
  // there is not.
  void read_parameter(const std::string& name, ParameterPart part, std::int64_t first, std::span<float> values);
  // Replaces them, from the next step on. Rounds to the format in which they are kept. Also waits for a checkpoint that
  // is being written. Throws BadInput also for values that are not finite, and for a negative
  // second moment.
  void write_parameter(const std::string& name, ParameterPart part, std::int64_t first, std::span<const float> values);

  LinkCounters link_counters() const;
  NetworkCounters network_counters() const;
  // The largest of all devices, so far.
  std::uint64_t device_peak_bytes() const;
  // Peak resident memory of the process, so far.
  std::uint64_t host_peak_bytes() const;
  // Hash of all fp32 master weights and moments. Waits for pending updates.
  std::uint64_t weights_hash();

  // One line for each thread of the library in this process: its name and the span that it is in. May be called from
  // any thread, during a step as well.
  static std::string describe_threads();

  // Records a timeline from now on; its memory becomes a line of the contract. Throws Error unless called right after
  // construction, and OutOfMemory.
  void start_trace();
  // Writes the timeline as Chrome-trace JSON, which opens in Perfetto. Throws Error when start_trace() was not called.
  void write_trace(const std::filesystem::path& file) const;

 private:
  struct L2L_HIDDEN Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Measures what a Trainer of these options chooses by on this machine, and what its step will take, where the
// calibration has no figures, and keeps it there for all later ones, also of other processes. Throws what the
// constructor throws.
L2L_API void tune(const Options& options, const Measuring& measuring = {});

// How many processes mpirun or srun have started together, of which this is one; 1 without them.
L2L_API int launched_processes();

// Whether `directory` has checkpoints, where resume() looks for them. One that is damaged counts: what should not start
// anew in its place then learns from resume() what is wrong. Throws BadInput where the directory cannot be read.
L2L_API bool has_checkpoint(const std::filesystem::path& directory);

// The options with which the newest checkpoint in `directory` was written (found as by resume()). Throws BadInput.
L2L_API Options checkpoint_options(const std::filesystem::path& directory);

// The options for a Trainer that will resume() from `directory`. With model.pretrained, the model becomes the
// checkpoint's, so that its own directory is not needed any more. Where `options` leave the microbatch open
// (batch.micro_batch = "auto"), it becomes that of the newest checkpoint there, since another one would give other
// bits. It stays open when the checkpoint's minibatch differs, or when its microbatch does not divide a device's share.
// The run takes its kernels (device.kernels_from). All else stays. Throws BadInput when there is no checkpoint.
L2L_API Options options_to_resume(Options options, const std::filesystem::path& directory);

// Moves checkpoints of more than `steps` steps that an earlier run left in `directory` to `directory`/earlier-N, so
// that they do not mix with those of a run that starts after `steps` steps. Throws Error.
L2L_API void set_aside_checkpoints(const std::filesystem::path& directory, std::int64_t steps = -1);

}  // namespace l2l
