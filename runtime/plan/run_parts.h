// What resolved options fix of a run, before anything is decided block by block: devices, model, parameter server,
// shape of the execution. Nothing large is allocated.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/placement.h"
#include "device/open.h"
#include "device/peers.h"
#include "device/tensor_group.h"
#include "eps/parameter_store.h"
#include "models/model.h"
#include "optimizers/loss_scaler.h"
#include "runtime/data/prepared_minibatch.h"
#include "runtime/options/resolved_options.h"
#include "runtime/plan/arena_plan.h"

namespace l2l::runtime {

// Runs that are compared before one of them is chosen share their devices.
using Devices = std::vector<std::shared_ptr<device::Device>>;

// The device that the options name; the first of several. Host devices share the cores.
device::DeviceSettings device_settings(const Options& options);

// Devices of a run as groups; each null where they do not exchange.
struct PeerGroups {
  std::shared_ptr<device::Peers> weights;    // what gathers them; null: each device copies all of them
  std::shared_ptr<device::Peers> gradients;  // what exchanges them; null: each device brings all of its own
  std::vector<std::shared_ptr<device::TensorGroup>> tensor;  // over whose devices layers are split; empty: none are
};

struct RunParts {
  // What device `index` of this rank runs.
  const models::Model& model_of(int index) const {
    const int member = index % execution.tensor;
    return member == 0 ? model : others[static_cast<std::size_t>(member - 1)];
  }
  // Those that run `model`.
  Devices first_members() const;
  MinibatchShape minibatch_shape() const;
  // The highest that any device's memory has been.
  Bytes device_peak_bytes() const;
  void set_trace(Trace* trace) const;

  ResolvedOptions options;
  std::string device_choice;           // what device.kind = "auto" took and why, else empty
  std::string compute_choice;          // the same of precision.compute
  Devices devices;                     // device.count of them
  device::Device* device = nullptr;    // the first; stands for all where they do not differ
  device::Device* tightest = nullptr;  // the one with the least memory available
  PeerGroups peers;
  std::string weight_feed, gradient_sums;      // the same for people; of one device empty
  std::optional<Bytes> device_available = {};  // on that one; nothing: unknown
  models::Model model;                         // its blocks keep their inputs alone, until decisions say what they keep
  std::vector<models::Model> shorter;          // the same for each of options.lengths but the last, model.sequence
  std::vector<models::Model> others;           // where layers are split: `model` of the group's further devices
  Placement placement;                         // of the parameter server's workers
  eps::StoreOptions store;
  optimizers::LossScaler scaler;  // as a new run begins
  ExecutionPlan execution;        // without placements of blocks
};

// `devices`: what to run on, idle, when not those that the options name; `peers`: these as groups, where there are some
// already. Throws BadInput, DeviceError, and Error when they are not device.count.
RunParts make_parts(ResolvedOptions options, Devices devices = {}, PeerGroups peers = {});
// The same run with microbatches of so many sequences, which divide its minibatch. Throws BadInput when a tensor would
// be too large.
RunParts with_micro_batch(RunParts parts, std::int64_t micro_batch);

// Runs the model's programs once, so that what code takes of GPUs' memory is not available any more
// (runtime/plan/load_code.h). After the devices know which kernels to take. Throws DeviceError.
void load_programs(RunParts& parts);

// The least of what bounds an arena, and its name for messages; nothing: unbounded.
struct DeviceLimit {
  Bytes bytes;
  std::string name;
};
std::optional<DeviceLimit> device_limit(const RunParts& parts);

}  // namespace l2l::runtime
