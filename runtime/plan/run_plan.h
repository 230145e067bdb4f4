// Everything about a run that is decided before step 1: device, model, programs, arena, parameter server, and the
// memory contract that follows from them (law 3). Making a plan allocates nothing large.
#pragma once

#include <memory>
#include <optional>

#include "core/placement.h"
#include "device/open.h"
#include "eps/parameter_store.h"
#include "l2l/options.h"
#include "l2l/trainer.h"
#include "models/model.h"
#include "optimizers/loss_scaler.h"
#include "runtime/data/dataset.h"
#include "runtime/plan/arena_plan.h"
#include "runtime/plan/programs.h"
#include "runtime/plan/recomputation.h"

namespace l2l::runtime {

// The device that the options name; the first of several. Host devices share the cores.
device::DeviceSettings device_settings(const Options& options);

// Plans that are made one after the other, to choose between them, share them.
using Devices = std::vector<std::shared_ptr<device::Device>>;
// `choice`, where not null: what device.kind = "auto" took and why, else empty.
Devices open_devices(const Options& options, std::string* choice = nullptr);

// `given` with `batch` resolved, and "budget" as the "full" that it is. Throws BadInput.
Options resolved_options(const Options& given);

// The files that the options name, found and not read. Throws BadInput.
std::optional<DataFiles> training_data(const Options& options);
std::optional<DataFiles> validation_data(const Options& options);

// What was decided before planning: what options leave open (runtime/choice), or what a caller wants otherwise.
struct Chosen {
  Arrangement arrangement;
  bool micro_batch = false;        // was chosen, by what steps take
  std::string device_choice = {};  // as of open_devices()
  Bytes peak = 0;                  // of the process, where choosing has raised it
};

// Immutable once made, but for count_trace().
struct RunPlan {
  // Opens the devices, finds (and does not read) the data, compiles the programs. Throws BadInput; OutOfMemory when
  // what the run needs exceeds a limit of the options or of the machine, naming need, limit and shortfall.
  // `devices`: what to run on, when not those that the options name: device.count of them, idle.
  // `chosen`: what blocks do, when not what the options say; options that leave it open need it (plan_run()).
  // `limits`: unchecked where nothing will be allocated.
  enum class Limits : bool { unchecked, checked };
  explicit RunPlan(const Options& options, Devices devices = {}, std::optional<Chosen> chosen = {},
                   Limits limits = Limits::checked);
  RunPlan(const Options& options, std::unique_ptr<device::Device> device);
  RunPlan(RunPlan&&) = delete;  // programs refer to the model

  DatasetSettings dataset_settings() const;
  // Adds a timeline of `bytes` to the contract. Throws OutOfMemory.
  void count_trace(Bytes bytes);
  Arrangement arrangement() const { return {recomputation, execution.places}; }
  // The highest that any device's memory has been.
  Bytes device_peak_bytes() const;
  void set_trace(Trace* trace) const;

  Options options;               // as of resolved_options()
  std::optional<Chosen> chosen;  // nothing: all blocks do what the options say
  std::optional<DataFiles> train, validation;
  std::string device_choice;  // as of open_devices()
  Devices devices;            // device.count of them
  device::Device* device;     // the first: speaks for all where they are alike
  models::Model model;
  Recomputation recomputation;  // of the blocks of `model`; none where they rebuild their inputs
  Placement placement;          // of the parameter server's workers
  eps::StoreOptions store;
  optimizers::LossScaler scaler;  // as a new run begins
  ExecutionPlan execution;
  std::vector<std::unique_ptr<Programs>> programs;  // by device
  std::optional<Bytes> device_available;            // on the tightest one, before anything large was allocated;
                                                    // nothing: unknown
  std::unique_ptr<ArenaPlan> arena;                 // of each device
  MemoryContract contract;

 private:
  void find_available();
  void make_arena();
  bool fits() const;
  // The least of what bounds an arena, and its name; nothing: unbounded.
  struct DeviceLimit {
    Bytes bytes;
    std::string name;
  };
  std::optional<DeviceLimit> device_limit() const;
  void choose_places();
  void split_stash();
  void write_contract();
  void write_devices();
  void check_limits() const;

  device::Device* tightest_ = nullptr;  // with the least memory available
};

}  // namespace l2l::runtime
