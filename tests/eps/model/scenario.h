// What the threads of a run do to the hand-over, for exploration: each thread is a list of transitions, or one of the
// loops of eps/ and transfer/ (updater, saver, courier).
#pragma once

#include <string>
#include <vector>

#include "core/model_layout.h"

namespace l2l::eps::model {

// Every transition of the machine and every half of the work between two of them is a step of its own. Those that wait
// in eps/ are blocked until they can go on.
enum class Action : std::uint8_t {
  restore,           // to version `step`
  begin_step,        // `step`
  finish_step,       // waits until all groups are checked; Scenario::broken_* and skipped_step say how it ends
  complete_updates,  // waits until every group rests
  pull,              // waits for version `step` of `layer`
  copy_first_half,   // reads the leased layer
  copy_second_half,
  release,
  await_copies,  // until this device has copied `layer` `count` times: its gradients need its weights
  await_step,    // until `step` is open
  take_buffer,   // waits until `layer` accepts gradients
  push,
  expect_full,  // `layer` accepts no second contribution of a device in one step
  begin_save,
  await_save,  // until the save that was begun is over
  exchange,    // the layers are those of `step`
};

struct Operation {
  Action action;
  LayerIndex layer = 0;
  int step = 0;
  int device = 0;
  int count = 0;
};

enum class Role : std::uint8_t { script, updater, saver, courier };

struct ThreadSpec {
  std::string name;
  Role role = Role::script;
  std::vector<Operation> script;
  int lane = 0;  // of an updater
};

struct Scenario {
  std::string name;
  int devices = 1;  // of each rank
  int ranks = 1;    // the machine is the last of them
  bool held = false;
  int sums = 0;  // of several ranks: groups at a time that may be summed over devices and on their way; 0: none is
  bool sharded_wire = false;  // of several ranks
  int first_step = 0, steps = 1;
  int broken_step = -1;  // its gradients of `broken_group` are not finite; the run ends with it
  GroupIndex broken_group = -1;
  int skipped_step = -1;    // held: ends without updates, its version is the one before it under a new name
  int exchanged_step = -1;  // has other layers than the others, as have `exchanged_steps` steps from it on
  int exchanged_steps = 1;
  int give_up_after = -1;    // groups that the saver reads before it gives up
  std::vector<int> lanes{};  // of each group; empty: one lane
  std::vector<ThreadSpec> threads;

  int all_devices() const { return ranks * devices; }
  int first_device() const { return (ranks - 1) * devices; }  // of the machine's rank
  bool exchanged(int step_number) const {
    return exchanged_step >= 0 && step_number >= exchanged_step && step_number < exchanged_step + exchanged_steps;
  }
};

inline constexpr LayerIndex kLayers = 3;  // embedding, block, head
inline constexpr GroupIndex kGroups = 4;  // table (tied: embedding and head), block, norm (head), other block
inline constexpr int kMostDevices = 2;    // of all ranks

// Layers 0, 1, 2 hold groups {table}, {block}, {norm, table}; exchanged: {table}, {other block}, {norm}.
ModelLayout tied_layout(bool exchanged);
inline bool uses(bool exchanged, LayerIndex layer, GroupIndex group) {
  if (layer == 0) return group == 0;
  if (layer == 1) return group == (exchanged ? 3 : 1);
  return group == 2 || (group == 0 && !exchanged);
}

std::vector<Scenario> all_scenarios();

}  // namespace l2l::eps::model
