// Implementation of ParameterStore: the hand-over under one mutex, and the updater threads that do the arithmetic, one
// for each lane (a NUMA node that has workers). Private to eps/.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/activity.h"
#include "eps/exchange_slots.h"
#include "eps/gradient_slots.h"
#include "eps/group_gradient.h"
#include "eps/group_memory.h"
#include "eps/group_update.h"
#include "eps/hand_over.h"
#include "eps/parameter_store.h"
#include "eps/wire_visits.h"

namespace l2l::eps {

// Constant after construction: options, groups and lanes; layout, wires and uses but for set_layers().
// Do not call Failure::fail() with the mutex held: it takes the mutex to wake those who wait here.
struct ParameterStore::Implementation {
  Implementation(ModelLayout model, const StoreOptions& store_options, MemorySource& source, Failure& run_failure,
                 Trace* run_trace, const WeightSource* weights);
  ~Implementation();

  // Read by jobs; written under the mutex while the hand-over says that the group rests or is checked.
  struct GroupData {
    GroupMemory memory;
    Bytes state_traffic;                  // of an update
    std::vector<Contribution> gradients;  // by contribution; once devices are summed, by sent_place()
    std::vector<int> slots;               // of this rank's devices, by contribution; -1: none
    int received_slot = -1;               // ExchangeSlots::received; -1: none
    int sum_slot = -1;                    // ExchangeSlots::sums; -1: none
    std::vector<double> block_sums{};     // of several ranks: squares of the last check, of all their blocks
    double sum_of_squares = 0;            // of the last check
    float learning_rate = 0;              // of the step to be applied, which may not be the open one
    float factor = 1;
    std::uint64_t updates = 0;
  };
  // Of a layer whose devices sum: the slot that their slices come to.
  struct Slices {
    int slot = -1;
    std::uint64_t taken = 0;  // by device
    int missing = 0;
  };
  // The workers of one NUMA node, used by its updater thread alone. A group belongs to one lane, so lanes share only
  // the hand-over, and no lock is held between two transitions.
  struct Lane {
    Lane(int lane_index, const WorkerLane& place)
        : index(lane_index), node(place.node), cpus(place.cpus), workers("eps", place.workers, place.cpus) {}
    const int index;
    const int node;     // of its groups' memory; -1: wherever
    const CpuSet cpus;  // of the updater thread; empty: wherever
    int track = 0;
    Workers workers;
    std::vector<double> block_sums;
    UpdateWorkspace workspace;
    std::thread updater;
  };
  // Waits on `lock` until `ready()`. Throws the stored failure once there is one, with `lock` released.
  template <typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready);
  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex); }
  // Wake those who wait for a change of the guarded state, which is made; the first with the lock held.
  void notify_locked();
  void unlock_and_notify(std::unique_lock<std::mutex> guard);

  const LayerSpec& layer_at(LayerIndex layer) const;  // throws Error
  Bytes gradient_bytes(LayerIndex layer) const;
  std::vector<WirePart> wire_parts(const LayerSpec& layer) const;
  void set_wires();

  // With the mutex held:
  bool leasable(LayerIndex layer, Version version) const;  // throws Error when the version is gone
  LayerIndex first_layer(GroupIndex group) const;          // where it is used first, for people; -1: nowhere
  std::optional<int> take_slot(LayerIndex layer, int device);
  void push(LayerIndex layer, int device, int slot, std::optional<double> squares);
  void push_slice(LayerIndex layer, int device, int slot);
  void return_slot(LayerIndex layer, int device, int slot);
  bool is_whole_gradient(const LayerSpec& layer) const;  // its group gets no other contribution
  void take_check(GroupIndex group, double sum_of_squares);
  void release_contributions(GroupIndex group);
  std::optional<GroupIndex> first_not_finite() const;
  double sum_over_groups() const;                              // of squares
  double norm_of(double sum_of_squares) const;                 // without the factor of the step's gradients
  float factor_of(const GroupData& group, double norm) const;  // `norm`: of all groups
  std::string why_overflow_stays() const;                      // with loss scaling, for the message
  [[noreturn]] void refuse_step(GroupIndex broken);
  StepVerdict close_step();  // throws NumericError

  // Of several ranks (rank_exchange.cpp).
  struct Use {
    ElementRange elements;  // of the group's gradients
    std::size_t first;      // of its contributions, of all ranks
  };
  static Bytes gathered_bytes(const ModelLayout& layout, const StoreOptions& options);
  std::vector<std::vector<Use>> uses_of_groups() const;
  // Elements of the group's gradients.
  ElementRange shard(GroupIndex group, int rank) const;
  ElementRange own_shard(GroupIndex group) const { return shard(group, options.rank.index); }
  // Index in GroupData::gradients of what a rank sends of a use: number `which` of sent_gradients().
  std::size_t sent_place(const Use& use, int which, int rank) const;
  void begin_sum(GroupIndex group);
  void take_sums(GroupIndex group);
  void add_gradients(RankExchange& exchange);
  void add_squares(RankExchange& exchange);
  void add_wire(RankExchange& exchange);
  VisitId take_visit(int device, LayerIndex layer, Version version);
  std::optional<RankExchange> start_visit();
  void add_visit(VisitId id, RankExchange& exchange);
  template <typename OfRank>
  void add_all_gather(RankExchange& exchange, const OfRank& of_rank);

  // What reading finds of a group: all that was gathered, or what this rank has.
  const GroupMemory& memory_of(GroupIndex group) const {
    return gathered && gathered_group == group ? *gathered : groups[static_cast<std::size_t>(group)].memory;
  }

  void add_lanes();
  void add_group(const GroupSpec& spec, Lane& lane, MemorySource& source, const WeightSource* weights);
  void start_updaters();
  void stop_updaters();

  // An updater thread (updater.cpp).
  void run_updater(Lane& lane);
  struct Work {
    Job job;
    LayerIndex layer;  // first_layer()
  };
  std::optional<Work> wait_for_work(const Lane& lane);
  bool has_room_for_sums() const { return exchanged.received.has_room() && exchanged.sums.has_room(); }
  void sum(const Work& work, Lane& lane);  // of this rank's devices (rank_sums.cpp)
  void check(const Work& work, Lane& lane);
  void update(const Work& work, Lane& lane);
  [[noreturn]] void throw_corrupt(GroupIndex group, const StateMismatch& found) const;  // CorruptState
  void record(int on_track, const char* name, LayerIndex layer, Clock::time_point begin) const;
  void add_work(Bytes bytes, Clock::time_point begin);  // of a job, for work()
  Contributions contributions_of(const GroupData& group) const {
    const int leaves = options.sent_gradients() * options.rank.count;
    return {group.gradients, options.sent_type(), static_cast<std::size_t>(leaves),
            static_cast<std::size_t>(options.devices / options.sent_gradients())};
  }
  Bytes gradient_traffic(const GroupData& group) const;
  // Elements of its gradients that are this rank's.
  static ElementRange shard_of(const GroupSpec& group, const StoreOptions& options);
  static Bytes state_traffic(const GroupSpec& group, const StoreOptions& options);
  static Bytes sum_traffic(std::int64_t elements, const StoreOptions& options);  // of a use

  ModelLayout layout;
  const StoreOptions options;
  const std::vector<int> writers;  // by group
  Failure& failure;
  Trace* const trace;
  std::deque<Lane> lanes;
  const int save_track;
  std::vector<std::vector<WirePart>> wires;  // by layer
  std::vector<std::vector<Use>> uses;        // by group
  std::atomic<Bytes> bytes_moved{0};         // written by the updater threads
  std::atomic<std::int64_t> busy_ns{0};      // the same; of all of them together
  std::vector<GroupData> groups;

  // Of several ranks: of whoever reads the state.
  std::byte* gather_room = nullptr;
  std::optional<GroupMemory> gathered;
  GroupIndex gathered_group = -1;

  mutable std::mutex mutex;
  std::condition_variable changed;      // of the guarded state, or the failure; updaters do not wait for it
  std::condition_variable job_or_stop;  // of an updater
  HandOver hand_over;                   // guarded by mutex
  GradientSlots slots;                  // guarded by mutex
  std::vector<Slices> slices;           // by layer; guarded by mutex
  ExchangeSlots exchanged;              // guarded by mutex
  WireVisits visits;                    // guarded by mutex; what it has started holds a lease
  float learning_rate = 0;              // guarded by mutex; of the open step
  GradientScale scale;                  // guarded by mutex; of the open step
  int leases = 0;                       // guarded by mutex
  bool stopping = false;                // guarded by mutex
  bool exchanges_stopped = false;       // guarded by mutex
  Failure::Registration registration;
};

template <typename Ready>
void ParameterStore::Implementation::wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
  while (true) {
    if (failure.failed()) {
      lock.unlock();
      failure.rethrow();
      lock.lock();
    }
    if (ready()) return;
    const ActivitySpan span(Doing::rests, "the wait for updates and gradients");
    changed.wait(lock);
  }
}

}  // namespace l2l::eps
