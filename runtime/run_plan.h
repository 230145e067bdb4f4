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

namespace l2l::runtime {

// The device that the options name.
device::DeviceSettings device_settings(const Options& options);

// Immutable once made, but for count_trace().
struct RunPlan {
  // Opens the device, finds (and does not read) the data, compiles the programs. Throws BadInput; OutOfMemory when
  // what the run needs exceeds a limit of the options or of the machine, naming need, limit and shortfall.
  // `device`: what to run on, when not the one that the options name (tests).
  explicit RunPlan(const Options& options, std::unique_ptr<device::Device> device = nullptr);

  DatasetSettings dataset_settings() const;
  // Adds a timeline of `bytes` to the contract. Throws OutOfMemory.
  void count_trace(Bytes bytes);

  Options options;
  std::optional<DataFiles> train, validation;
  std::string device_choice;  // what device.kind = "auto" took and why, else empty
  std::unique_ptr<device::Device> device;
  models::Model model;
  Placement placement;  // of the parameter server's workers
  eps::StoreOptions store;
  optimizers::LossScaler scaler;  // as a new run begins
  ExecutionPlan execution;
  std::unique_ptr<Programs> programs;
  std::optional<Bytes> device_available;  // before anything large was allocated; nothing: unknown
  std::unique_ptr<ArenaPlan> arena;
  MemoryContract contract;

 private:
  // The least of what bounds the arena, and its name; nothing: unbounded.
  struct DeviceLimit {
    Bytes bytes;
    std::string name;
  };
  std::optional<DeviceLimit> device_limit() const;
  void choose_stash();
  void write_contract();
  void check_limits() const;
};

}  // namespace l2l::runtime
