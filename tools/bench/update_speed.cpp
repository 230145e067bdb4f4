#include "tools/bench/update_speed.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "core/host_memory.h"
#include "core/trace.h"
#include "eps/group_memory.h"
#include "l2l/errors.h"
#include "runtime/tuning/median.h"
#include "tools/bench/store_speed.h"
#include "tools/bench/update_arrays.h"
#include "tools/bench/update_jobs.h"

namespace l2l::tools {
namespace {

constexpr std::int64_t kLayer = 768 * eps::kBlock;  // 12.6 million elements: a block of width 1,024
constexpr std::int64_t kTensor = 8 * eps::kBlock;   // of LAMB

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// One update of all parameters: layer by layer, each cut into the jobs of the parameter server. In seconds.
double pass(const UpdateArrays& arrays, Workers& workers, const UpdateJob& job, const UpdateRun& run) {
  const std::int64_t block = job.optimizer == "lamb" ? kTensor : eps::kBlock;
  const Clock::time_point begin = Clock::now();
  for (std::int64_t layer = 0; layer < arrays.parameters(); layer += kLayer) {
    const std::int64_t end = std::min(layer + kLayer, arrays.parameters());
    workers.parallel_for((end - layer + block - 1) / block, [&](std::int64_t index, int) {
      const std::int64_t first = layer + index * block;
      UpdateArrays::Gradients gradients;
      run(arrays.run(first, static_cast<std::size_t>(std::min(block, end - first)), job.wire, job.moments,
                     job.contributions, gradients));
    });
  }
  return seconds_since(begin);
}

// A row and the results of its rounds.
struct Measured {
  UpdateJob job;
  const optimizers::Kernels* kernels;
  int threads = 1;
  std::vector<double> rates, limits, ratios;

  bool same_baseline(const Measured& other) const {
    return kernels == other.kernels && threads == other.threads && job.same_streams(other.job);
  }
  void add(double rate, double limit) {
    rates.push_back(rate);
    limits.push_back(limit);
    ratios.push_back(rate / limit);
  }
  UpdateSpeed speed(const std::string& kind) const {
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    return {.kind = kind,
            .instruction_set = kernels->name,
            .optimizer = job.optimizer,
            .wire = job.wire_name(),
            .moments = job.moments_name(),
            .contributions = job.contributions,
            .threads = threads,
            .bytes_per_parameter = job.bytes(),
            .params_per_second = runtime::median(rates),
            .limit_params_per_second = runtime::median(limits),
            .ratio = runtime::median(ratios),
            .least_ratio = *least,
            .most_ratio = *most};
  }
};

// The row that the store runs and is compared with.
bool is_stored(const UpdateJob& job) { return job.name() == "adamw bf16 fp32" && job.contributions == 1; }

// The rows, the arrays that kernels run on, and the store, which is measured unless rows are left out.
class UpdateBench {
 public:
  UpdateBench(const UpdateSpeedSettings& settings, const std::vector<UpdateJob>& jobs)
      : parameters_(settings.parameters),
        most_threads_(*std::max_element(settings.threads.begin(), settings.threads.end())),
        memory_(bytes(settings, jobs), settings.huge_pages) {
    for (const int threads : settings.threads) pools_.emplace(threads, new Workers("bench", threads));
    arrays_.emplace(parameters_, most_contributions(jobs), memory_, *pools_.at(most_threads_));
    for (const optimizers::Kernels* const kernels : kernels_of(settings)) {
      for (const int threads : settings.threads) {
        for (const UpdateJob& job : jobs) rows_.push_back({job, kernels, threads, {}, {}, {}});
      }
    }
    if (!has_store(settings, jobs)) return;
    stored_.job = *std::find_if(jobs.begin(), jobs.end(), is_stored);
    stored_.kernels = &optimizers::kernels();
    stored_.threads = most_threads_;
    store_.emplace(parameters_, kLayer, store_options(most_threads_), memory_);
  }
  static Bytes bytes(const UpdateSpeedSettings& settings, const std::vector<UpdateJob>& jobs) {
    return UpdateArrays::bytes(static_cast<Bytes>(settings.parameters), most_contributions(jobs)) +
           (has_store(settings, jobs) ? store_bytes(settings.parameters) : 0);
  }

  void round(bool counts) {
    double limit = 0, kernel = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      Measured& row = rows_[i];
      if (i == 0 || !row.same_baseline(rows_[i - 1])) limit = baseline_rate(row);
      const double rate = rate_of(row, update_of(*row.kernels, row.job));
      if (row.threads == most_threads_ && row.kernels == stored_.kernels && is_stored(row.job)) kernel = rate;
      if (counts) row.add(rate, limit);
    }
    if (!store_) return;
    const double rate = static_cast<double>(store_->parameters()) / store_->step();
    if (counts) stored_.add(rate, kernel);
  }
  UpdateSpeeds speeds() const {
    UpdateSpeeds speeds{memory_.allocated(), {}};
    for (const Measured& row : rows_) speeds.rows.push_back(row.speed("kernel"));
    if (store_) speeds.rows.push_back(stored_.speed("store"));
    return speeds;
  }

 private:
  static std::vector<const optimizers::Kernels*> kernels_of(const UpdateSpeedSettings& settings) {
    if (settings.instruction_sets.empty()) return {&optimizers::kernels()};
    std::vector<const optimizers::Kernels*> all;
    try {
      for (const std::string& name : settings.instruction_sets) all.push_back(&optimizers::kernels_named(name));
    } catch (const BadInput& error) {
      throw BadInput(std::string("--instruction-set: ") + error.what());
    }
    return all;
  }
  // The store has the kernels that are in use.
  static bool has_store(const UpdateSpeedSettings& settings, const std::vector<UpdateJob>& jobs) {
    const std::vector<const optimizers::Kernels*> all = kernels_of(settings);
    return settings.only.empty() && std::find(all.begin(), all.end(), &optimizers::kernels()) != all.end() &&
           std::any_of(jobs.begin(), jobs.end(), is_stored);
  }
  static int most_contributions(const std::vector<UpdateJob>& jobs) {
    int most = 1;
    for (const UpdateJob& job : jobs) most = std::max(most, job.contributions);
    return most;
  }
  static eps::StoreOptions store_options(int threads) {
    eps::StoreOptions options;
    options.wire = options.gradients = DType::bf16;
    options.optimizer = optimizers::AdamWSettings{.weight_decay = 0.01f};
    options.threads = threads;
    return options;
  }
  static Bytes store_bytes(std::int64_t parameters) {
    const Bytes allocations = 8 * static_cast<Bytes>(parameters / kLayer + 1);
    return StoreBench::bytes(parameters, kLayer, store_options(1)) + allocations * BenchMemory::kSlack;
  }
  double rate_of(const Measured& row, const UpdateRun& run) const {
    return static_cast<double>(parameters_) / pass(*arrays_, *pools_.at(row.threads), row.job, run);
  }
  // Over two runs: the second undoes what the first did to the arrays.
  double baseline_rate(const Measured& row) const {
    const UpdateRun run = baseline_of(*row.kernels, row.job);
    const double first = rate_of(row, run), second = rate_of(row, run);
    return 2 / (1 / first + 1 / second);
  }

  const std::int64_t parameters_;
  const int most_threads_;
  BenchMemory memory_;
  std::map<int, std::unique_ptr<Workers>> pools_;
  std::optional<UpdateArrays> arrays_;
  std::vector<Measured> rows_;
  Measured stored_ = {};
  std::optional<StoreBench> store_;
};

// 1, 2, 4, ... and all.
std::vector<int> default_threads() {
  std::vector<int> threads;
  for (int count = 1; count < available_cores(); count *= 2) threads.push_back(count);
  threads.push_back(available_cores());
  return threads;
}

void check_settings(const UpdateSpeedSettings& settings, const std::vector<UpdateJob>& jobs) {
  if (jobs.empty()) {
    throw BadInput(
        "--only \"" + settings.only +
        "\": no row of these contributions begins so; rows are called OPTIMIZER WIRE MOMENTS, \"adamw bf16 int8\"");
  }
  const Bytes need = UpdateBench::bytes(settings, jobs);
  const HostAvailable available = HostMemory().available();
  if (need <= available.bytes) return;
  throw OutOfMemory("memory of the benchmark: needs " + format_bytes(need) + ", has " + format_bytes(available.bytes) +
                    " by " + available.source + ", " + format_bytes(need - available.bytes) +
                    " short: lower --parameters or --contributions");
}

}  // namespace

UpdateSpeeds measure_updates(UpdateSpeedSettings settings) {
  if (settings.threads.empty()) settings.threads = default_threads();
  std::vector<UpdateJob> jobs = all_update_jobs(settings.contributions);
  std::erase_if(jobs, [&](const UpdateJob& job) { return !job.name().starts_with(settings.only); });
  check_settings(settings, jobs);
  UpdateBench bench(settings, jobs);
  bench.round(/*counts=*/false);
  for (int round = 0; round < settings.rounds; ++round) bench.round(/*counts=*/true);
  return bench.speeds();
}

std::vector<std::pair<int, double>> memory_limits(const UpdateSpeeds& speeds) {
  std::map<int, double> limits;
  for (const UpdateSpeed& row : speeds.rows) {
    if (row.kind != "kernel") continue;
    double& limit = limits[row.threads];
    limit = std::max(limit, 1e-9 * row.bytes_per_parameter * row.limit_params_per_second);
  }
  return {limits.begin(), limits.end()};
}

}  // namespace l2l::tools
