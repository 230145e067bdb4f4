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
#include "runtime/arena_plan.h"
#include "runtime/dataset.h"
#include "runtime/programs.h"
#include "runtime/recomputation.h"

namespace l2l::runtime {

// The device that the options name; the first of several. Host devices share the cores.
device::DeviceSettings device_settings(const Options& options);

using Devices = std::vector<std::unique_ptr<device::Device>>;

// Immutable once made, but for count_trace().
struct RunPlan {
  // Opens the devices, finds (and does not read) the data, compiles the programs. Throws BadInput; OutOfMemory when
  // what the run needs exceeds a limit of the options or of the machine, naming need, limit and shortfall.
  // `devices`: what to run on, when not those that the options name (tests): device.count of them.
  // `arrangement`: of the blocks, when not what the options say (a model like another one with more blocks).
  // `limits`: unchecked where nothing will be allocated.
  enum class Limits : bool { unchecked, checked };
  explicit RunPlan(const Options& options, Devices devices = {}, const Arrangement* arrangement = nullptr,
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

  Options options;          // as given, with `batch` resolved and "budget" as the "full" that it is
  bool micro_batch_chosen;  // here, by what steps take
  std::optional<DataFiles> train, validation;
  std::string device_choice;            // what device.kind = "auto" took and why, else empty
  Devices devices;                      // device.count of them
  device::Device* device;               // the first: speaks for all where they are alike
  std::optional<Arrangement> arranged;  // given or chosen; nothing: all blocks do what the options say
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
