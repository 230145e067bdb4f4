// What a Trainer is made of. Private to trainer.cpp, trainer_kernels.cpp, trainer_saves.cpp and trainer_use.cpp.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/activity.h"
#include "core/host_memory.h"
#include "core/trace.h"
#include "core/watchdog.h"
#include "eps/checkpoint/checkpoint_locks.h"
#include "eps/checkpoint/checkpoint_room.h"
#include "eps/checkpoint/checkpoint_writer.h"
#include "l2l/trainer.h"
#include "models/hub/weights.h"
#include "optimizers/schedule.h"
#include "runtime/data/dataset.h"
#include "runtime/engine.h"
#include "runtime/plan_run.h"
#include "runtime/ranks.h"
#include "runtime/read_ahead.h"
#include "runtime/run_loop.h"
#include "runtime/run_requests.h"
#include "runtime/step_meter.h"
#include "runtime/tuning/prediction.h"

namespace l2l {

struct Trainer::Implementation {
  using LoadProgress = std::function<void(std::uint64_t, std::uint64_t)>;

  // `of`: what `ranks` is then set to.
  Implementation(const Options& options, const Measuring& how, const runtime::Ranks& of);
  ~Implementation() { requests.disconnect(); }

  // Throws Aborted, and Error while a function of the program is called that may not use the trainer.
  void check_use();
  // Runs `body`; where it throws on this rank of several alone, it ends all of them.
  template <typename Body>
  auto guarded(const Body& body);
  bool writes() const { return plan.options.rank.index == 0; }  // files of the run
  // Throws BadInput, on all ranks alike, where one of them has other options or data.
  void check_ranks(runtime::Ranks& others);
  // Where it is not an option of every rank.
  void measure_network(runtime::Ranks& others);
  // What all ranks have chosen by time; where several have chosen for one problem, what the first of them has.
  KernelChoices kernels_of_all(runtime::Ranks& others) const;
  // Compiles the programs again where they have other kernels; warns instead where an engine runs them. `whose`: for
  // people.
  void use_kernels(const KernelChoices& choices, const std::string& whose);
  // Those of a checkpoint.
  void take_kernels(const std::filesystem::path& folder);
  // Sets the contract, with what was added to the plan since it was made.
  void count_memory();
  // Throws Error while an observer is called.
  void check_no_observer(const char* function) const;
  // The engine; allocates everything on first use.
  runtime::Engine& running(const LoadProgress& loading = {});
  // Makes all threads, and allocates all that a run needs.
  void start(const LoadProgress& loading);
  // Undoes start(), also half of it.
  void stop();
  // By what is known of the machine, and what is measured in `session`, unless it is null.
  StepPrediction predict(runtime::MeasuringSession* session) const;

  std::uint64_t samples_per_step() const {
    return static_cast<std::uint64_t>(plan.options.batch.micro_batch * plan.options.batch.micro_batches);
  }
  models::HubWeights open_weights() const;
  // Throws BadInput, on all ranks alike, where one of them begins with others. Null: with random ones.
  void check_same_weights(const models::HubWeights* weights);
  std::unique_ptr<runtime::Engine> make_engine(const LoadProgress& loading);
  void fill_training();
  std::optional<Evaluation> evaluate(const runtime::Samples& samples, const std::function<bool()>& stop);
  // Trainer::logits(), or with `hidden` hidden_states().
  void predict_sequence(std::span<const std::int32_t> tokens, bool hidden, const runtime::TakeValues& take);
  double learning_rate();
  StepReport run_step();
  void check_room(eps::DirectoryUse use) const;
  void check_seen_by_all(eps::DirectoryUse use);
  std::optional<std::chrono::duration<double>> visit(std::optional<double> step_ms) const;
  void start_watchdog();
  std::string how_to_go_on() const;
  void restore(const eps::SavedRun& state);
  void tell(const std::vector<std::string>& changes);
  eps::ParameterStore& prepared_store();
  std::filesystem::path resume(const std::filesystem::path& from, const std::vector<std::string>& allowed);
  void set_layers(std::vector<std::uint32_t> ids);

  runtime::Ranks ranks;
  runtime::RunRequests requests;
  runtime::RunState run;          // newest: in the checkpoint directory, that this run has written or goes on from
  runtime::OwnCheckpoint saving;  // that was started last, without its folder
  std::vector<std::string> told;  // changes of settings that a resume goes on with
  runtime::MeasuringSession measuring;
  // Constant but for the bandwidth of the network, and the list of layers, which is the longest until there is an
  // engine.
  runtime::RunPlan plan;
  const eps::CheckpointSize checkpoint_size;
  MemoryContract contract;
  optimizers::Schedule schedule;
  std::filesystem::path companions_from;  // the Hugging Face directory that this model was last in; or empty
  std::unique_ptr<runtime::Samples> train, validation, mismatched;
  std::unique_ptr<runtime::ReadAhead> reader;  // of these; made with the engine
  std::unique_ptr<Trace> trace;
  std::unique_ptr<runtime::GenerationPlan> generation;
  std::unique_ptr<runtime::Engine> engine;
  std::optional<eps::StateGather> gather;            // of whoever saves, or between saves reads the state
  bool claimed = false;                              // the checkpoint directory
  bool seen_by_all = false;                          // one checkpoint directory by all ranks
  std::optional<eps::RunLock> lock;                  // of that, from the first claim on; of rank 0
  std::optional<eps::CheckpointWriter> checkpoints;  // made with the engine, as is the next
  StepPrediction prediction;                         // of a training step, from earlier measurements
  runtime::MemoryShare memory_share;                 // of updates
  std::unique_ptr<Watchdog> watchdog;                // made before the engine; none where the environment says so
  PeakResident peak;
  bool stepped = false;      // this Trainer has made a step
  bool handing_out = false;  // a function of the program is called in the middle of a pass or an evaluation
  std::int64_t device_threads = 0, eps_threads = 0;  // as the options had them, before ranks divided the cores
  std::uint64_t step = 0;                            // completed
  std::uint64_t data_position = 0;                   // samples consumed
  std::uint64_t data_hash = 0;                       // of `train`; constant after construction
  KernelChoices kernels;                             // of all ranks, and of the run that this one goes on with
  Bytes message_bytes = 0, trace_bytes = 0;          // lines of the contract
  std::vector<std::uint32_t> list;                   // of layers, where they may be exchanged
  std::uint64_t tokenizer_hash = 0;  // of data.tokenizer; 0: it is bytes, or not there. From the first claim on
  std::uint64_t base_hash = 0;       // of model.base, where that is set, from the first use of the engine on
};

template <typename Body>
auto Trainer::Implementation::guarded(const Body& body) {
  if (!ranks.several()) return body();
  try {
    return body();
  } catch (const NumericError&) {  // which all ranks find
    ranks.end_is_agreed();
    throw;
  } catch (const eps::FailureOfAll&) {
    ranks.end_is_agreed();
    throw;
  } catch (const std::exception& error) {
    if (!ranks.is_end_agreed()) ranks.abort(error.what());
    throw;
  }
}

}  // namespace l2l
