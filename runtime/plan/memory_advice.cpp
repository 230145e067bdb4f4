#include "runtime/plan/memory_advice.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "core/host_memory.h"
#include "l2l/errors.h"
#include "runtime/options/batch_shape.h"
#include "runtime/plan/fixed_decisions.h"
#include "runtime/plan/memory_contract.h"

namespace l2l::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// A refusal may take 2 s, of which making the plan that is refused has taken some.
constexpr std::chrono::milliseconds kMostTime{1000};

constexpr std::size_t kMostRemedies = 3;  // that are enough
constexpr Bytes kLeastShare = 20;         // what saves less than a twentieth of the shortfall is not told

const char* const kHostMemory = "host memory";

struct Setting {
  std::string text;  // "transfer.prefetch = 1"
  std::function<void(ResolvedOptions&)> apply;
  std::string also = {};  // " with batch.micro_batches = 8", unless that is set otherwise
};

// What may be set otherwise, from what costs nothing but time in which copies are waited for, over what computes more,
// to what trains otherwise. Of a list the first that is enough counts.
std::vector<std::vector<Setting>> candidates(const RunPlan& plan) {
  const Options& now = plan.options;
  std::vector<std::vector<Setting>> all;
  const auto add = [&](bool applies, const char* text, std::function<void(ResolvedOptions&)> apply) {
    if (applies) all.push_back({{text, std::move(apply)}});
  };
  const bool relay = now.device.execution == "relay", fp16 = now.precision.compute == "fp16";
  add(now.optimizer.update != "eager", "optimizer.update = \"eager\"", [](auto& o) { o.optimizer.update = "eager"; });
  add(plan.options.rank.count > 1 && now.distributed.wire == "replicated", "distributed.wire = \"sharded\"",
      [](auto& o) { o.distributed.wire = "sharded"; });
  add(relay && now.transfer.resident_layers > 0, "transfer.resident_layers = 0",
      [](auto& o) { o.transfer.resident_layers = 0; });
  add(relay && now.transfer.prefetch > 1, "transfer.prefetch = 1", [](auto& o) { o.transfer.prefetch = 1; });
  add(now.transfer.vocabulary_chunk > 0, "transfer.vocabulary_chunk = 0",
      [](auto& o) { o.transfer.vocabulary_chunk = 0; });
  add(now.transfer.stash == "device", "transfer.stash = \"host\"", [](auto& o) { o.transfer.stash = "host"; });
  add(now.transfer.stash != "device" && !plan.model.rebuilds(), "transfer.stash = \"device\"",
      [](auto& o) { o.transfer.stash = "device"; });
  add(!relay, "device.execution = \"relay\"", [](auto& o) { o.device.execution = "relay"; });
  add(now.recompute.policy != "full" && !now.recompute.leaves_choice(), "recompute.policy = \"full\"",
      [](auto& o) { o.recompute.policy = "full"; });
  std::vector<Setting> smaller;
  for (std::int64_t parts = 2; now.batch.micro_batch % parts == 0; parts *= 2) {
    const std::int64_t size = now.batch.micro_batch / parts, count = now.batch.micro_batches * parts;
    smaller.push_back({"batch.micro_batch = " + std::to_string(size),
                       [=](auto& o) { o.batch.micro_batch = size, o.batch.micro_batches = count; },
                       " with batch.micro_batches = " + std::to_string(count)});
  }
  all.push_back(smaller);
  std::vector<Setting> larger_parts;  // with fewer accumulators
  for (std::int64_t parts = now.batch.parts / 2; parts >= plan.options.all_groups(); parts /= 2) {
    larger_parts.push_back({"batch.parts = " + std::to_string(parts), [=](auto& o) { o.batch.parts = parts; }});
  }
  all.push_back(larger_parts);
  add(now.model.attention == "core", "model.attention = \"fused\"", [](auto& o) { o.model.attention = "fused"; });
  add(now.optimizer.clip == "global", "optimizer.clip = \"per_layer\"",
      [](auto& o) { o.optimizer.clip = "per_layer"; });
  add(now.precision.compute != "bf16" && (!fp16 || now.precision.loss_scale == 0) && now.precision.gradients == "auto",
      "precision.compute = \"bf16\"", [](auto& o) { o.precision.compute = "bf16"; });
  std::vector<Setting> moments;
  const std::vector<std::string> formats = {"fp32", "bf16_first", "bf16", "int8"};
  auto format = std::find(formats.begin(), formats.end(), now.optimizer.moments);
  for (format += format != formats.end(); format < formats.end(); ++format) {
    if (*format == "bf16_first" && now.optimizer.name == "sgd") continue;  // has one moment
    moments.push_back(
        {"optimizer.moments = \"" + *format + "\"", [name = *format](auto& o) { o.optimizer.moments = name; }});
  }
  all.push_back(moments);
  std::vector<Setting> fewer;
  const std::int64_t least = shares_of(now.batch, plan.options.all_groups());
  const bool by_minibatch = std::count(now.given.begin(), now.given.end(), "batch.minibatch") > 0;
  for (std::int64_t count = now.batch.micro_batches / 2; count >= least; count /= 2) {
    const std::int64_t whole = count / least * least, minibatch = whole * now.batch.micro_batch;
    const std::string text = by_minibatch ? "batch.minibatch = " + std::to_string(minibatch)
                                          : "batch.micro_batches = " + std::to_string(whole) + " (a smaller minibatch)";
    fewer.push_back({text, [=](auto& o) {
                       o.batch.micro_batches = by_minibatch ? minibatch / o.batch.micro_batch : whole;
                       o.batch.minibatch = o.batch.micro_batches * o.batch.micro_batch;
                     }});
  }
  all.push_back(fewer);
  return all;
}

// Plans variants of a run that is too large.
class Adviser {
 public:
  Adviser(const RunPlan& plan, const MemoryContract& contract, const ContractLimit& exceeded)
      : plan_(plan),
        exceeded_(exceeded),
        before_(contract_limits(plan, contract)),
        more_(more_than_planned(plan, contract)) {}

  std::string advice() {
    const std::vector<std::vector<Setting>> all = candidates(plan_);
    std::vector<Remedy> enough, helpful;
    for (const std::vector<Setting>& settings : all) {
      const std::optional<Remedy> remedy = best_of(settings, {}, exceeded_.need);
      if (!remedy) continue;
      (remedy->need <= exceeded_.have ? enough : helpful).push_back(*remedy);
      if (enough.size() == kMostRemedies) break;
    }
    if (!enough.empty()) return "what is enough: " + list(enough);
    const std::string smaller = smaller_model();
    if (helpful.empty()) return (hurried_ ? "there was no time to try all other settings; " : "") + smaller;
    time_ = kMostTime;
    const auto [settings, need] = together(all);
    return "what helps: " + list(helpful) + (settings.empty() ? "" : "; together " + settings) +
           (need <= exceeded_.have ? "" : "; " + smaller);
  }

 private:
  struct Remedy {
    Setting setting;
    Bytes need;
  };

  std::string smaller_model() const {
    const Options& options = plan_.options;
    if (options.model.pretrained.empty()) return "make the model smaller (model.hidden, model.layers, model.sequence)";
    const bool adapters = options.lora.rank == 0 && exceeded_.what == kHostMemory;
    return std::string(adapters ? "train adapters (lora.rank), " : "") +
           "make model.sequence smaller, or take a smaller model";
  }

  // What the contract has beside what follows from the plan: a timeline, continued texts.
  static std::vector<Bytes> more_than_planned(const RunPlan& plan, const MemoryContract& contract) {
    const std::vector<ContractLimit> all = contract_limits(plan, contract);
    const std::vector<ContractLimit> planned = contract_limits(plan, memory_contract(plan));
    std::vector<Bytes> more;
    for (std::size_t i = 0; i < all.size(); ++i) more.push_back(all[i].need - std::min(all[i].need, planned[i].need));
    return more;
  }

  static std::string list(const std::vector<Remedy>& remedies) {
    std::string text;
    for (const Remedy& each : remedies) {
      text += (text.empty() ? "" : "; ") + each.setting.text + each.setting.also + ": " + format_bytes(each.need);
    }
    return text;
  }

  // Beside `others`, with which the need is `before`: the first that is enough, else the last if it saves anything to
  // speak of. The need falls from setting to setting.
  std::optional<Remedy> best_of(const std::vector<Setting>& settings, const std::vector<Setting>& others,
                                Bytes before) {
    const auto need_of = [&](std::size_t i) {
      std::vector<Setting> with = others;
      with.push_back(settings[i]);
      return need_with(with);
    };
    if (settings.empty()) return std::nullopt;
    std::size_t from = 0, to = settings.size() - 1;  // the first that is enough lies between
    std::optional<Bytes> need = need_of(to);
    if (!need || *need + (before - exceeded_.have) / kLeastShare >= before) return std::nullopt;
    while (from < to && *need <= exceeded_.have) {
      const std::size_t middle = (from + to) / 2;
      const std::optional<Bytes> other = need_of(middle);
      if (other && *other <= exceeded_.have) {
        to = middle;
        need = other;
      } else {
        from = middle + 1;
      }
    }
    return Remedy{settings[to], *need};
  }

  // One setting after the other that saves something beside those before it, until that is enough; and the need.
  std::pair<std::string, Bytes> together(const std::vector<std::vector<Setting>>& all) {
    std::vector<Setting> taken;
    Bytes need = exceeded_.need;
    for (const std::vector<Setting>& settings : all) {
      const std::optional<Remedy> remedy = best_of(settings, taken, need);
      if (!remedy) continue;
      // What changes the minibatch says what becomes of its microbatches.
      if (remedy->setting.text.starts_with("batch.mini") || remedy->setting.text.starts_with("batch.micro_batches")) {
        for (Setting& earlier : taken) earlier.also.clear();
      }
      taken.push_back(remedy->setting);
      need = remedy->need;
      if (need <= exceeded_.have) break;
    }
    std::string text;
    for (const Setting& each : taken) text += (text.empty() ? "" : ", ") + each.text + each.also;
    text += ": " + format_bytes(need);
    if (need > exceeded_.have) text += ", still short by " + format_bytes(need - exceeded_.have);
    return {taken.size() < 2 ? "" : text, need};
  }

  // Of the kind of memory that is short. Nothing where the settings do not go together, where more would be lacking of
  // another kind than before, or where there is no time to plan it.
  std::optional<Bytes> need_with(const std::vector<Setting>& settings) {
    const Clock::time_point begin = Clock::now();
    if (begin - start_ + longest_ > time_) {
      hurried_ = true;
      return std::nullopt;
    }
    std::optional<Bytes> need;
    try {
      need = planned_need(settings);
    } catch (const Error&) {
    }
    longest_ = std::max(longest_, Clock::now() - begin);
    return need;
  }

  std::optional<Bytes> planned_need(const std::vector<Setting>& settings) const {
    ResolvedOptions options = plan_.options;
    for (const Setting& setting : settings) setting.apply(options);
    validate_options(options);
    // A device chooses its kernels by the policy.
    const bool same = options.recompute.policy == plan_.options.recompute.policy;
    RunParts parts = same ? make_parts(std::move(options), plan_.devices, plan_.peers) : make_parts(std::move(options));
    Decisions decisions = parts.options.recompute.leaves_choice() ? least_decisions(parts) : fixed_decisions(parts);
    const RunPlan plan(std::move(parts), std::move(decisions));
    const std::vector<ContractLimit> limits = contract_limits(plan, memory_contract(plan));
    std::optional<Bytes> need;
    for (std::size_t i = 0; i < limits.size(); ++i) {
      if (limits[i].what == exceeded_.what) {
        need = limits[i].need + more_.at(i);
      } else if (limits[i].need + more_.at(i) > std::max(limits[i].have, before_[i].need)) {
        return std::nullopt;
      }
    }
    return need;
  }

  const RunPlan& plan_;
  const ContractLimit& exceeded_;
  const std::vector<ContractLimit> before_;
  const std::vector<Bytes> more_;  // by limit, as before_
  bool hurried_ = false;           // whether there was no time for a setting
  const Clock::time_point start_ = Clock::now();
  Clock::duration longest_{}, time_ = kMostTime / 2;  // of making a plan; for all of them
};

}  // namespace

std::vector<ContractLimit> contract_limits(const RunPlan& plan, const MemoryContract& contract) {
  std::vector<ContractLimit> limits;
  const ResolvedOptions& options = plan.options;
  if (const std::optional<DeviceLimit> limit = device_limit(plan)) {
    limits.push_back({"device memory", limit->name, contract.device_bytes, limit->bytes});
  }
  if (options.eps.memory > 0) {
    const eps::StoreBytes store = eps::ParameterStore::bytes_needed(plan.model.layout, plan.store);
    limits.push_back({"parameter server", "eps.memory", store.from_source(), options.eps.memory});
  }
  if (options.eps.stash_memory > 0) {
    const HostStaging staging = host_staging(plan.model, plan.execution);
    const Bytes need = static_cast<Bytes>(plan.execution.devices()) * (staging.stash + staging.saved);
    limits.push_back({"host stash", "eps.stash_memory", need, options.eps.stash_memory});
  }
  const HostAvailable capacity = HostMemory().capacity(options.rank.neighbours);
  limits.push_back({kHostMemory, capacity.source, contract.host_bytes, capacity.bytes});
  return limits;
}

std::string memory_advice(const RunPlan& plan, const MemoryContract& contract, const ContractLimit& exceeded) {
  return Adviser(plan, contract, exceeded).advice();
}

}  // namespace l2l::runtime
