#include "runtime/tuning/step_costs.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <concepts>
#include <map>
#include <sstream>
#include <string_view>
#include <type_traits>

#include "runtime/tuning/cost_bench.h"

namespace l2l::runtime {
namespace {

using compiler::Graph;

constexpr double kLeast = 1e-12;        // seconds: a calibration holds only what is above 0
constexpr Bytes kLargeCopy = 16 << 20;  // whose time is its bytes over what l2l-bench link measured
constexpr Bytes kLargestStore = 256 << 20;
constexpr double kNominalBandwidth = 1e10;  // bytes per second, as in piece_estimate.h
constexpr double kStoreSteps = 20;          // as many steps as a store takes to be made and measured

// A string that numbers are appended to, as a stream with a precision of 9 has them: there are very many of these.
class Text {
 public:
  Text& operator<<(std::string_view more) {
    text_ += more;
    return *this;
  }
  template <std::integral Number>
  Text& operator<<(Number number) {
    char digits[24];
    if constexpr (std::is_same_v<Number, bool>) {
      text_ += number ? '1' : '0';
    } else {
      text_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
    }
    return *this;
  }
  Text& operator<<(char) = delete;
  Text& operator<<(double) = delete;
  Text& operator<<(float number) {
    char digits[32];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, number, std::chars_format::general, 9).ptr);
    return *this;
  }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

// All that a program's time can depend on, but for the device.
std::string text_of(const Graph& graph) {
  Text text;
  text << graph.name;
  for (const auto& value : graph.values) {
    text << "|" << name_of(value.dtype) << static_cast<int>(value.region) << " " << value.offset;
    for (std::size_t i = 0; i < value.shape.rank(); ++i) text << " " << value.shape[i];
  }
  for (const auto& op : graph.ops) {
    text << "|" << name_of(op.kind);
    for (const auto id : op.inputs) text << " " << id;
    text << ">";
    for (const auto id : op.outputs) text << " " << id;
    const auto& a = op.attributes;
    text << ":" << a.transpose_a << a.transpose_b << a.accumulate << a.causal << a.inverse << a.exact << " "
         << a.probability << " " << a.heads << " " << a.kv_heads << " " << a.sequence << " " << a.vocabulary;
    if (a.custom.op) text << " " << a.custom.op->name << " " << a.custom.op->version << " " << a.columns;
    if (a.word_element != WordElement::whole) text << " of type " << static_cast<int>(a.word_element);
    if (a.shard.count > 1) text << " one of " << a.shard.count;
    if (a.window > 0 || a.softcap > 0 || a.gelu) text << " " << a.window << (a.softcap > 0) << a.gelu;
    if (a.dims != compiler::Attributes().dims) {
      for (const std::int64_t dim : a.dims) text << " " << dim;
      for (const std::uint8_t axis : a.axes) text << " " << int{axis};
      text << " " << a.kept << " " << a.groups;
      const compiler::Window& window = a.image_window;
      for (const auto& pair : {window.size, window.stride, window.padding, window.dilation}) {
        text << " " << pair[0] << " " << pair[1];
      }
    }
  }
  return text.str();
}

// Blocks of the model and nothing else, so many that their state is about as large as the model's, up to kLargestStore.
ModelLayout blocks_of(const RunParts& parts) {
  const ModelLayout& model = parts.model.layout;
  const auto has_parts = [](const LayerSpec& layer) { return !layer.parts.empty(); };
  const auto end = model.layers.begin() + parts.model.block(parts.model.blocks()) + 1;
  const auto block = std::find_if(std::make_reverse_iterator(end), model.layers.rend(), has_parts);
  const GroupSpec& first = block == model.layers.rend() ? model.groups.front()
                                                        : model.groups[static_cast<std::size_t>(block->parts[0].group)];
  ModelLayout layout;
  const auto add = [&](std::uint32_t id) {
    GroupSpec group = first;
    group.name = "block " + std::to_string(id);
    group.id = id;
    for (ParameterSpec& parameter : group.parameters) parameter.name += " of " + group.name;
    layout.layers.push_back({group.name, id, {{static_cast<GroupIndex>(id), 0, 0, 0}}, group.elements});
    layout.groups.push_back(std::move(group));
  };
  add(0);
  const Bytes one = eps::ParameterStore::bytes_needed(layout, of_one_rank(parts.store)).state;
  const Bytes all = eps::ParameterStore::bytes_needed(model, of_one_rank(parts.store)).state;
  const Bytes wanted = std::min(std::bit_ceil(all), kLargestStore);
  for (std::uint32_t id = 1; id < wanted / one; ++id) add(id);
  return layout;
}

}  // namespace

StepCosts::StepCosts(const RunParts& parts, Calibration& calibration, MeasuringSession* session)
    : parts_(parts), calibration_(calibration), session_(session) {}

StepCosts::~StepCosts() = default;

Cost StepCosts::look_up(const Figure& figure, const Measure& measure) {
  if (const auto known = found_.find(figure.name); known != found_.end()) return known->second;
  Cost& cost = found_[figure.name];
  if (const auto known = stored(figure)) {
    cost = known->second;
    ++(known->first == Grade::estimated ? estimated_ : cached_);
    if (known->first != Grade::estimated && !announces_) rates().learn(figure.work, cost);
  } else if (session_ == nullptr) {
    if (std::find(missing_.begin(), missing_.end(), figure.what) == missing_.end()) missing_.push_back(figure.what);
  } else if (announces_) {
    session_->expect(1, seconds_of(figure, effort_for(figure)));
  } else if (session_->thorough() || session_->allows(seconds_of(figure, Effort::brief))) {
    cost = measured(figure, measure);
  } else {
    cost = estimated(figure);
  }
  return cost;
}

void StepCosts::announce(const std::function<void(StepCosts&)>& look_ups) const {
  if (session_ == nullptr || !session_->keeps()) return;
  StepCosts announcing(parts_, calibration_, session_);
  announcing.announces_ = true;
  look_ups(announcing);
}

std::optional<std::pair<Grade, Cost>> StepCosts::stored(const Figure& figure) const {
  for (const Grade grade : {Grade::thorough, Grade::brief, Grade::estimated}) {
    if (grade != Grade::thorough && session_ != nullptr && session_->thorough()) break;
    const std::string name = figure.name + grade_suffix(grade);
    const std::optional<double> seconds = calibration_.find(name), processor = calibration_.find(name + ", processor");
    if (seconds && processor) return std::pair(grade, Cost{*seconds, *processor});
  }
  return std::nullopt;
}

Cost StepCosts::measured(const Figure& figure, const Measure& measure) {
  const Effort effort = effort_for(figure);
  session_->begin(figure.what, seconds_of(figure, effort));
  if (!bench_) bench_ = std::make_unique<Bench>(parts_);
  std::optional<Cost> found;
  try {
    found = measure(*bench_, effort);
  } catch (const OutOfMemory&) {  // a run that is not chosen may need more than there is
    return estimated(figure);
  }
  const Cost cost = valid(figure, *found);
  rates().learn(figure.work, cost);
  ++measured_;
  keep(figure, session_->grade(), cost);
  return cost;
}

// Kept, too, so that the next run does the same.
Cost StepCosts::estimated(const Figure& figure) {
  const Cost cost = valid(figure, figure.estimate ? *figure.estimate : rates().estimate(figure.work));
  ++estimated_;
  session_->keeps() ? keep(figure, Grade::estimated, cost) : session_->guess();
  return cost;
}

Cost StepCosts::valid(const Figure& figure, Cost cost) const {
  if (!parts_.device->uses_host_memory() && !figure.what.starts_with("update"))
    cost.processor = 0;  // what waiting takes
  return {std::max(cost.seconds, kLeast), std::max(cost.processor, kLeast)};
}

void StepCosts::keep(const Figure& figure, Grade grade, const Cost& cost) {
  const std::string name = figure.name + grade_suffix(grade);
  calibration_.set(name, cost.seconds);
  calibration_.set(name + ", processor", cost.processor);
  calibration_.save_now_and_then();
}

// Of a program on the host's cores also those of the run on one thread.
double StepCosts::seconds_of(const Figure& figure, Effort effort) const {
  if (figure.seconds > 0) return figure.seconds;
  constexpr double kRuns = 8;
  const PieceRates& rates = session_ != nullptr ? session_->rates() : own_rates_;
  const Cost once = rates.estimate(figure.work);
  const double least = effort == Effort::thorough ? 0.3 : effort == Effort::quick ? 0.05 : 0.01;
  if (effort == Effort::brief && once.seconds > kLongRun) return once.seconds;
  return measuring_time(least) + kRuns * (once.seconds + once.processor);
}

std::string StepCosts::name_of_launch(const Graph& graph) const {
  return "program " + hash_of(text_of(graph)) + " (" + graph.name + "), " + parts_.device->description();
}

StepCosts::Figure StepCosts::figure_of(const Graph& graph, Effort effort) const {
  return {name_of_launch(graph), "program \"" + graph.name + "\"", work_of(graph), effort};
}

Cost StepCosts::launch(const device::Executable& program, LayerIndex layer, Effort effort) {
  return look_up(figure_of(program.program().graph, effort), [&](Bench& bench, Effort chosen) {
    const bool whole = parts_.execution.tensor == 1;
    return whole ? bench.launch(program, layer, chosen) : bench.launch(program.program().graph, layer, chosen);
  });
}

Cost StepCosts::launch(const Graph& graph, LayerIndex layer, Effort effort) {
  return look_up(figure_of(graph, effort),
                 [&](Bench& bench, Effort chosen) { return bench.launch(graph, layer, chosen); });
}

Cost StepCosts::zero(Bytes bytes) {
  if (bytes == 0) return Cost{};
  const PieceWork work = work_of(PieceSort::memory, static_cast<double>(bytes) / kNominalBandwidth);
  return look_up({"fill of " + std::to_string(bytes) + " bytes, " + parts_.device->description(), "fills", work},
                 [&](Bench& bench, Effort effort) { return bench.zero(bytes, effort); });
}

Cost StepCosts::copy(Direction direction, Bytes bytes) {
  if (bytes == 0) return Cost{};
  const Bytes throttled = parts_.options.transfer.link_bandwidth;
  const std::optional<double> rate =
      calibration_.find(link_bandwidth(parts_.device->description(), direction == Direction::to_device));
  if (rate && throttled == 0 && bytes >= kLargeCopy) {
    const double seconds = static_cast<double>(bytes) / *rate;
    return Cost{seconds, parts_.device->uses_host_memory() ? seconds : 0};
  }
  const double nominal = throttled > 0 ? static_cast<double>(throttled) : kNominalBandwidth;
  return look_up(
      {(direction == Direction::to_device ? "copy h2d of " : "copy d2h of ") + std::to_string(bytes) + " bytes, " +
           parts_.device->description() + (throttled > 0 ? ", link of " + std::to_string(throttled) + " bytes/s" : ""),
       "copies", work_of(PieceSort::link, static_cast<double>(bytes) / nominal)},
      [&](Bench& bench, Effort effort) { return bench.copy(direction, bytes, effort); });
}

// Estimated by what NVLink carries into an H100 (NVIDIA H100 data sheet: 900 GB/s, both directions together).
Cost StepCosts::of_peers(device::PeerCall call, Bytes received) {
  if (received == 0) return Cost{};
  constexpr double kNvlink = 4.5e11;
  const bool host = parts_.device->uses_host_memory();
  const double seconds = static_cast<double>(received) / (host ? kNominalBandwidth : kNvlink);
  const std::string what = call == device::PeerCall::all_gather ? "gather" : "exchange";
  return look_up({what + " of " + std::to_string(received) + " bytes among " + std::to_string(parts_.devices.size()) +
                      " devices, " + parts_.device->description(),
                  what + "s",
                  {},
                  Effort::thorough,
                  0,
                  Cost{seconds, host ? seconds : 0}},
                 [&](Bench& bench, Effort effort) { return bench.of_peers(call, received, effort); });
}

std::string StepCosts::name_of_update(const ModelLayout& layout) const {
  const eps::StoreOptions store = of_one_rank(parts_.store);
  std::ostringstream name;
  name << "update per parameter, " << parts_.options.optimizer.name << ", " << name_of(store.wire) << " wire, "
       << name_of(store.gradients) << " gradients, " << layout.groups.size() << " groups of "
       << layout.groups[0].elements << " in " << eps::ParameterStore::bytes_needed(layout, store).state << " bytes, "
       << store.devices << " devices, " << store.placement.workers() << " threads, " << name_of(store.moments)
       << " moments" << (store.held() ? ", held" : "") << (store.device_squares ? "" : ", checked here")
       << (store.devices_sum ? ", which sum" : "");
  return name.str();
}

// Per parameter; a measurement makes a store and updates all of it some times.
Cost StepCosts::parameter_update() {
  const ModelLayout layout = blocks_of(parts_);
  const double parameters = static_cast<double>(layout.layers.size()) * static_cast<double>(layout.largest_layer());
  const double moved = static_cast<double>(eps::ParameterStore::bytes_moved(layout, of_one_rank(parts_.store)));
  const double step = moved / kNominalBandwidth;
  return look_up({name_of_update(layout), "update of " + parts_.options.optimizer.name,
                  work_of(PieceSort::update, step / parameters), Effort::thorough, kStoreSteps * step},
                 [&](Bench& bench, Effort effort) { return bench.parameter_update(layout, effort); });
}

std::string StepCosts::name_of_step(const RunPlan& plan) const {
  std::ostringstream text;
  std::map<const device::Executable*, std::string> names;  // layers of a type share their programs
  for (const VisitWork& visit : step_work(plan)) {
    for (const auto& launches : visit.launches) {
      std::string& name = names[launches.program];
      if (name.empty()) name = name_of_launch(launches.program->program().graph);
      text << name << launches.count << "|";
    }
    for (const auto& copies :
         {visit.weights, visit.fetched, visit.reloaded, visit.stashed, visit.saved, visit.gradients}) {
      text << copies.bytes << " " << copies.count << "|";
    }
    if (visit.gathered.count > 0) text << "gathered " << visit.gathered.bytes << "|";
    if (visit.exchanged.count > 0) text << "exchanged " << visit.exchanged.bytes << "|";
    if (visit.summed != nullptr) text << name_of_launch(visit.summed->program().graph) << "|";
  }
  text << name_of_update(blocks_of(parts_)) << " " << parts_.options.transfer.link_bandwidth << " "
       << parts_.options.transfer.prefetch << " " << parts_.options.device.execution;
  return hash_of(text.str());
}

double StepCosts::sharing(const RunPlan& plan, double seconds, const std::function<double()>& measure) {
  return look_up({"sharing of step " + name_of_step(plan),
                  "steps of a shallower model",
                  {},
                  Effort::thorough,
                  seconds,
                  Cost{1, 0}},
                 [&](Bench&, Effort) {
                   return Cost{measure(), 0};
                 })
      .seconds;
}

// A step is predicted without it, too.
std::optional<double> StepCosts::memory_bandwidth() {
  constexpr double kSeconds = 0.5;
  const int threads = parts_.store.placement.workers();
  const std::string name = runtime::memory_bandwidth(threads);
  if (const std::optional<double> known = calibration_.find(name)) {
    ++cached_;
    return known;
  }
  if (session_ == nullptr || !session_->thorough()) return std::nullopt;
  session_->begin("memory", kSeconds);
  const double bandwidth = measure_memory(threads);
  calibration_.set(name, bandwidth);
  ++measured_;
  return bandwidth;
}

}  // namespace l2l::runtime
