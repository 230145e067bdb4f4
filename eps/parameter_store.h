// The eager parameter server: weights and optimizer state in host DRAM, with versions and leases; a layer is updated as
// soon as its gradients are there.
//
// Life of a group in step t (transitions under one mutex, work outside it):
//
//   resting(version t) --push x (devices * uses)--> complete --reduce, check--> checked --verdict--> updating
//   --> resting(version t + 1)
//
// A group that no layer of the step uses becomes version t + 1 as it is, and its updates are not counted.
// eps/hand_over.h has the whole state machine, saving included. Eager: a group is approved by its own check (finite).
// Held (`after_backward`, global clipping or loss scaling): the whole step is approved at once, and the updates run in
// the order in which the next forward pass needs the layers. An update waits until no lease of the group lives. A
// skipped step publishes version t + 1 without an update.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/failure.h"
#include "core/hash.h"
#include "core/model_layout.h"
#include "core/placement.h"
#include "core/trace.h"
#include "core/weight_source.h"
#include "core/workers.h"
#include "eps/rank_exchange.h"
#include "eps/shards.h"
#include "eps/version.h"
#include "optimizers/format.h"
#include "optimizers/optimizer.h"

namespace l2l::eps {

enum class UpdateMode : std::uint8_t { eager, after_backward };
// Which norm is clipped to max_norm: none, that of each parameter group, or that of all gradients.
enum class ClipMode : std::uint8_t { none, per_layer, global };

inline constexpr int kMostDevices = 64;                       // of a rank
inline constexpr int kMostSummands = 64;                      // of all ranks, to the gradient of one use
inline constexpr int kMostContributions = 2 * kMostSummands;  // of all uses and ranks, to the gradient of one element

struct StoreOptions {
  // f32: the wire is the master. bf16: split master. f16: the master lies beside the wire; a weight beyond 65504 is
  // infinite on it, and the step overflows.
  DType wire = DType::f32;
  DType gradients = DType::f32;  // of the devices: f32 or bf16, and with an f16 wire also f16
  UpdateMode update = UpdateMode::eager;
  ClipMode clip = ClipMode::none;
  double max_norm = 1.0;
  optimizers::Optimizer optimizer;    // learning rate and corrections are set per step
  optimizers::MomentFormats moments;  // one of optimizers::kMomentFormatNames
  bool loss_scaling = false;          // gradients come multiplied by a factor, and a step may be skipped
  bool verify = true;                 // checksums of the state: taken when it is written, compared when it is read
  int devices = 1;                    // of this rank
  // The devices add their gradients among themselves, in fp32, and each brings a slice of the sum. Of several ranks,
  // for a power of two of devices alone: see sums_devices().
  bool devices_sum = false;
  Rank rank;            // of the run; state and updates are those of its shards
  int threads = 1;      // workers, where `placement` is empty
  Placement placement;  // a pool and an updater thread per lane, its groups in the memory of its node
  // Gradient buffers where holds_gradients() does not say that each layer has its own, divided among the devices, at
  // least one each (devices that sum share all): how far a device may run ahead of the updates, or of what is sent, and
  // of the other devices.
  int staging_slots = 3;
  // Of several ranks: each has its shard of a group's wire alone, unless a parameter of the group is frozen. A layer's
  // wire is gathered for every visit, into one of `wire_slots` slots.
  bool shard_wire = false;
  int wire_slots = 3;    // one that is gathered, one that is copied, one for a device that is behind
  int microbatches = 1;  // of each device: what they measured for statistics comes as their sum, in fp32
  // Whether a device's sum of squares is taken where it has the whole gradient. Else sums are by blocks alone, so that
  // they do not depend on the number of devices.
  bool device_squares = true;
  std::uint64_t seed = 0;  // of the initial weights, and of stochastic rounding

  // LAMB compares norms of whole tensors.
  bool whole_tensors() const { return std::holds_alternative<optimizers::LambSettings>(optimizer); }
  bool held() const { return update == UpdateMode::after_backward || clip == ClipMode::global || loss_scaling; }
  // Gradients of an element of each use of a group:
  //
  //                                              the devices push       the rank sends
  //   one rank                                   each its own           -
  //   devices_sum                                one sum                that sum
  //   several ranks, where sums_devices()        each its own           one sum, by the store
  //   several ranks otherwise                    each its own           each device's own
  //
  // What comes from this rank's devices: so many numbers, of this type.
  int pushed_gradients() const { return devices_sum ? 1 : devices; }
  DType pushed_type() const { return devices_sum ? DType::f32 : gradients; }
  // Whether a sum over this rank's devices is fewer bytes than their gradients: sums are fp32.
  bool sums_are_smaller() const { return static_cast<Bytes>(devices) * size_of(gradients) > sizeof(float); }
  // Whether a sum over this rank's devices is a part of the tree over all devices (eps/group_gradient.h), so that it
  // changes no bit.
  bool sums_are_subtrees() const { return rank.count == 1 || std::has_single_bit(static_cast<unsigned>(devices)); }
  // Whether the store sums the devices' gradients before they leave for the other ranks.
  bool sums_devices() const { return rank.count > 1 && !devices_sum && sums_are_smaller() && sums_are_subtrees(); }
  // What a rank sends: so many numbers, of this type.
  int sent_gradients() const { return sums_devices() ? 1 : pushed_gradients(); }
  DType sent_type() const { return sums_devices() ? DType::f32 : pushed_type(); }
  // Why so many ranks with so many devices cannot train together; empty: they can.
  std::string too_many() const;
  bool shards_wires() const { return shard_wire && rank.count > 1; }
  bool shards_wire_of(const GroupSpec& group) const {
    return shards_wires() && std::ranges::all_of(group.parameters, &ParameterSpec::trained);
  }
  // Whether the gradients of a whole step wait as the devices left them.
  bool holds_gradients() const { return held() && !sums_devices(); }
};

// Source of page-locked host memory: a device in production, plain memory in tests. allocate() lets the calling thread,
// or threads that it starts, touch the memory first, so that the NUMA node follows from the caller's memory policy.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Zeroed and 4096-byte aligned; lives as long as the source. Throws OutOfMemory naming `purpose`.
  virtual std::byte* allocate(Bytes size, std::string_view purpose) = 0;
};

// A part of a layer's wire: `bytes` bytes at `data` that belong at byte `offset` of the weight slot.
struct WirePart {
  const std::byte* data;
  Bytes bytes;
  Bytes offset;
};

class ParameterStore;
class StateSave;   // eps/state_save.h
struct RawMoment;  // eps/group_memory.h

enum class StatePart : std::uint8_t { master, moment1, moment2 };

// A stable view of one layer at one version. Movable; while it lives, no group of the layer is updated.
class WeightLease {
 public:
  std::span<const WirePart> parts() const;
  void release() { store_.reset(); }

 private:
  friend class ParameterStore;
  struct Release {
    LayerIndex layer;
    std::optional<std::uint64_t> visit;  // of a store that shards wires
    void operator()(ParameterStore* store) const noexcept;
  };
  std::unique_ptr<ParameterStore, Release> store_;
};

// Host memory for one layer's gradients, in StoreOptions::pushed_type(): of one device, or of all together, which write
// a slice each. Movable; returned to the store by push() or by its destructor.
class GradientBuffer {
 public:
  std::byte* data() const { return data_; }
  Bytes bytes() const { return bytes_; }

 private:
  friend class ParameterStore;
  struct Return {
    LayerIndex layer;
    int device;
    int slot;
    void operator()(ParameterStore* store) const;
  };
  std::unique_ptr<ParameterStore, Return> store_;
  std::byte* data_ = nullptr;
  Bytes bytes_ = 0;
};

// The loss scale of a step.
struct GradientScale {
  double factor = 1;            // gradients come multiplied by it; the store divides by it
  bool overflow_skips = false;  // a gradient that is not finite skips the step instead of stopping the run
};

// Outcome of a step.
struct StepVerdict {
  double gradient_norm = 0;  // before clipping, over all groups, without the factor; not finite when skipped
  bool skipped = false;      // a gradient was not finite: every weight, moment and update count stays as it was
};

// Exact bytes that a store allocates, by line of the memory contract.
struct StoreBytes {
  Bytes state = 0;     // wire, low halves or master, moments
  Bytes held = 0;      // held gradients
  Bytes staging = 0;   // gradient buffers that layers share, and of tied groups
  Bytes received = 0;  // gradients from other ranks; the sums of this rank's shard beside them
  Bytes sums = 0;      // of this rank's devices, for other ranks
  Bytes visits = 0;    // layers' wires, gathered from all ranks
  Bytes blocks = 0;    // the lists of the blocks that updates are cut into, with checksums; not from the MemorySource

  Bytes gathered = 0;  // of several ranks: the whole state of the largest group that this one brings together

  Bytes from_source() const { return state + held + staging + received + sums + visits + gathered; }
};

// Work of a store's jobs so far.
struct EpsWork {
  Bytes bytes = 0;                   // read and written, once per job: gradients, wire, master, moments
  std::chrono::nanoseconds busy{0};  // in checks and updates, summed over the lanes
};

// Thread-safe. Once `failure` has stored a failure, blocking calls throw it.
class ParameterStore {
 public:
  static StoreBytes bytes_needed(const ModelLayout& layout, const StoreOptions& options);
  // Bytes that one step adds to work().bytes where devices push sums of squares.
  static Bytes bytes_moved(const ModelLayout& layout, const StoreOptions& options);

  // Allocates everything and sets the initial weights, version 0: those of `weights`, read by the workers, or where it
  // has none, or is null, random ones (Philox, key: seed, step 0, group id, op = index of the parameter). Throws
  // OutOfMemory, and what `weights` throws.
  ParameterStore(ModelLayout layout, StoreOptions options, MemorySource& memory, Failure& failure, Trace* trace,
                 const WeightSource* weights = nullptr);
  // When all calls have returned, and leases, buffers and saves are gone.
  ~ParameterStore();

  const ModelLayout& layout() const;
  // Moments per parameter: 2, or 1 (SGD).
  int moments() const;
  optimizers::MomentFormats moment_formats() const;

  // Waits until every group of `layer` has `version`. `waited`, if given, receives the time blocked. Throws Error when
  // the update to the next version has begun. `device`: of this rank, which matters where wires are sharded: all ranks
  // then pull the same layers in the same order.
  WeightLease pull(LayerIndex layer, Version version, std::chrono::nanoseconds* waited = nullptr, int device = 0);
  // The same, but returns nothing when it would have to wait.
  std::optional<WeightLease> try_pull(LayerIndex layer, Version version, int device = 0);
  // Says what `device` will pull, so that it can be gathered ahead. `alone`: no other device of this rank will. Does
  // nothing where wires are not sharded; there, a pull that was not announced is one of this device alone.
  void announce(int device, std::span<const LayerIndex> layers, Version version, bool alone);

  // Between steps, of a layout whose layers may be exchanged: the layers of the next steps, made of parts of its
  // groups. Waits for leases, not for updates. There may not be more layers than at first, nor larger ones, nor more
  // uses of groups beyond their first.
  void set_layers(std::vector<LayerSpec> layers);

  // Opens step `step` (from 0) with its learning rate. Call before its first push.
  void begin_step(std::uint64_t step, double learning_rate, const GradientScale& scale = {});
  // Memory for the gradients of `layer` from `device`, with undefined contents; where devices sum, the same for all,
  // each of which asks once in a step. Waits for a free buffer of that device and for the layer's previous updates.
  GradientBuffer gradient_buffer(LayerIndex layer, int device);
  // Hands over the gradients of `layer` from `device`, or its slice. The last contribution of a group triggers reduce
  // (in order of device; of a tied group: head, then embedding) -> check -> update -> encode on the worker pool.
  // `squares`: their sum of squares, if the device computed it; it replaces the check of a group that has no other
  // contribution, and the gradients are then read in the update alone. Where devices sum it is of no effect.
  void push(LayerIndex layer, int device, GradientBuffer gradients, std::optional<double> squares = std::nullopt);
  // Waits until every group of the step is reduced and checked, but not for the updates; held updates start here. When
  // a gradient is not finite, either skips the step (GradientScale) or throws NumericError naming step (counted from
  // 1, as in reports) and layer. Held: the step is then skipped as well. Else that group alone is unchanged, and the
  // error is stored in `failure`.
  StepVerdict finish_step();
  // Waits until every group has the version of the next step.
  void complete_updates();

  // Of one group's gradient in the step that finish_step() closed last, as in StepVerdict; 0 where it is frozen.
  double gradient_norm(GroupIndex group) const;

  // Of several ranks: the next exchange, to be made and given to finish_exchange(); several may be under way, and end
  // in any order. Gradients come in one order on all ranks, the rest in any. Waits for one, at most so long, and gives
  // none after stop_exchanges().
  std::optional<RankExchange> next_exchange(std::chrono::nanoseconds at_most);
  void finish_exchange(const GroupExchange& exchange);
  void stop_exchanges();

  EpsWork work() const;

  // Begins a save of the next step's version, between steps; updates may still run. Throws Error while another runs.
  StateSave begin_save();

  // Elements [first, second) of a parameter are in this rank's shard: all that are trained, of one rank.
  std::pair<std::int64_t, std::int64_t> owned(GroupIndex group, std::size_t parameter) const;
  // Elements [first, first + size of the span) of one part of one parameter's state, in fp32. Call between
  // complete_updates() and the next push; read() also for the group that a StateSave has handed out. Of several ranks,
  // read() throws Error for what another rank has, and write() writes of that the wire alone, if that is here.
  void read(GroupIndex group, std::size_t parameter, StatePart part, std::int64_t first,
            std::span<float> destination) const;
  void write(GroupIndex group, std::size_t parameter, StatePart part, std::int64_t first,
             std::span<const float> source);
  // The wire of one parameter, all that is kept of one that is frozen.
  std::span<const std::byte> wire(GroupIndex group, std::size_t parameter) const;
  DType wire_type() const;
  // A moment of one parameter, or what this rank owns of it, as it lies in memory, valid at the same times. Writing
  // through it changes the state.
  RawMoment raw_moment(GroupIndex group, std::size_t parameter, StatePart moment) const;
  std::uint64_t update_count(GroupIndex group) const;
  // Throws CorruptState where a byte of the group's state is not what was last written there. Does nothing without
  // StoreOptions::verify. Call when read() may be called; every update does the same as it goes.
  void check_state(GroupIndex group) const;
  // Sets counts and version after loading, and takes the checksums of what raw_moment() has written: the next step is
  // `step`.
  void restore(std::uint64_t step, std::span<const std::uint64_t> update_counts);

  // Which rank writes each group into checkpoints (group_writers()).
  static std::vector<int> writers(const ModelLayout& layout, const StoreOptions& options);
  std::span<const int> writers() const;
  int writer(GroupIndex group) const { return writers()[static_cast<std::size_t>(group)]; }
  // Of several ranks: the pieces that bring a group's state to rank `root`, which is its writer or 0; there read(),
  // wire() and raw_moment() have the whole group once they are there, until the next call with this rank as the root.
  // The group may be read, as by read(). Of one thread at a time.
  RankExchange gather_state(GroupIndex group, int root);
  // They have again what this rank has.
  void forget_gathered();

  // Of one rank. Throws as check_state() does. XXH64 over all parameters in layout order: name, then master and moments
  // in fp32. Independent of wire, threads and stash.
  std::uint64_t state_hash() const;
  // What a group adds to it; of several ranks, where it was gathered.
  void add_to_hash(GroupIndex group, Hash64& hash) const;

 private:
  friend class WeightLease;
  friend class GradientBuffer;
  friend class StateSave;
  // Of a layer that may be leased, under the mutex. `visit`: that was taken, of a store that shards wires.
  WeightLease make_lease(LayerIndex layer, std::optional<std::uint64_t> visit);

  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace l2l::eps
