#include "runtime/ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "collectives/launch.h"
#include "core/affinity.h"
#include "core/error_place.h"
#include "core/host_name.h"
#include "core/log.h"
#include "core/workers.h"
#include "l2l/errors.h"
#include "l2l/trainer.h"

namespace l2l {

int launched_processes() {
  const std::optional<collectives::Launch> launch = collectives::mpi_launch();
  return launch ? std::max(1, launch->processes) : 1;
}

namespace runtime {

Ranks::Ranks(std::unique_ptr<collectives::Transport> transport)
    : peers_(std::make_unique<collectives::Collectives>(std::move(transport))) {}

// Of as many bytes from each.
std::vector<std::byte> Ranks::gather_alike(std::span<const std::byte> mine) {
  const std::vector<Bytes> sizes(static_cast<std::size_t>(count()), mine.size());
  std::vector<std::byte> all(mine.size() * sizes.size());
  peers_->finish(peers_->all_gather(mine, sizes, all));
  return all;
}

std::vector<std::byte> Ranks::gather(std::span<const std::byte> mine) {
  std::vector<Bytes> sizes;
  return peers_->gather_unknown(mine, sizes);
}

std::vector<double> Ranks::gather(std::span<const double> mine) {
  const std::vector<std::byte> bytes = gather_alike(std::as_bytes(mine));
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::int64_t Ranks::sum(std::int64_t mine) {
  if (!several()) return mine;
  const std::vector<std::byte> bytes = gather_alike(std::as_bytes(std::span(&mine, 1)));
  std::vector<std::int64_t> values(static_cast<std::size_t>(count()));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  std::int64_t sum = 0;
  for (const std::int64_t value : values) sum += value;
  return sum;
}

bool Ranks::any(bool here) { return sum(here ? 1 : 0) > 0; }

std::vector<bool> Ranks::any_each(std::span<const bool> here) {
  std::vector<bool> any(here.begin(), here.end());
  if (!several()) return any;
  std::size_t at = 0;
  for (const std::byte of_rank : gather_alike(std::as_bytes(here))) {
    const std::size_t i = at++ % here.size();
    any[i] = any[i] || of_rank != std::byte{0};
  }
  return any;
}

std::string Ranks::from_first(std::string text) {
  if (!several()) return text;
  return gather(rank() == 0 ? text : "").front();
}

double Ranks::measure_bandwidth() {
  constexpr int kRounds = 5;  // the best counts: ranks are not always equally ready
  const std::vector<std::byte> out(4 << 20, std::byte{1});
  std::vector<std::byte> in(out.size());
  const collectives::Send sent{(rank() + 1) % count(), out};
  const collectives::Receive received{(rank() + count() - 1) % count(), in};
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    peers_->barrier();
    const auto begin = std::chrono::steady_clock::now();
    peers_->finish(peers_->exchange(std::span(&sent, 1), std::span(&received, 1), /*channel=*/0));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(out.size()) / took.count());
  }
  return std::ranges::min(gather(std::span<const double>(&best, 1)));
}

void Ranks::together(const std::function<void()>& body) {
  if (!several()) return body();
  std::exception_ptr thrown;
  std::string outcome;  // empty: nothing was thrown; else a letter for its class, and its message
  try {
    body();
  } catch (const BadInput& error) {
    thrown = std::current_exception();
    outcome = std::string("I") + error.what();
  } catch (const std::exception& error) {
    thrown = std::current_exception();
    outcome = std::string("E") + error.what();
  }
  const std::vector<std::string> outcomes = gather(outcome);
  const auto first = std::ranges::find_if(outcomes, [](const std::string& each) { return !each.empty(); });
  if (first == outcomes.end()) return;
  end_is_agreed();
  leave();
  if (thrown) std::rethrow_exception(thrown);
  const std::string message = "rank " + std::to_string(first - outcomes.begin()) + ": " + first->substr(1);
  if (first->front() == 'I') throw BadInput(message);
  throw Error(message);
}

void Ranks::abort(const std::string& reason) {
  if (several()) peers_->abort(reason);
}

std::string binding_advice(int own, int launcher, int neighbours) {
  if (own == 0 || own >= launcher / neighbours) return {};
  return "may run on " + std::to_string(own) + " of the " + std::to_string(launcher) + " cores that " +
         std::to_string(neighbours) + (neighbours == 1 ? " process has" : " processes share") +
         " on its machine, because mpirun binds it to them: start it with mpirun --bind-to none";
}

namespace {

void warn_of_bindings(Ranks& ranks) {
  constexpr const char* kOfOpenMpi = "OMPI_COMM_WORLD_RANK";
  const bool told = std::getenv(kOfOpenMpi) != nullptr;
  const int launcher = told ? cpus_of_ancestor_without(kOfOpenMpi) : 0;
  const std::vector<std::string> all =
      ranks.gather(binding_advice(CpuSet::of_thread().count(), launcher, ranks.neighbours()));
  const auto given = [](const std::string& advice) { return !advice.empty(); };
  const auto first = std::ranges::find_if(all, given);
  if (ranks.rank() > 0 || first == all.end()) return;
  const auto others = std::ranges::count_if(all, given) - 1;
  log(LogLevel::warning, "rank " + std::to_string(first - all.begin()) + " " + *first +
                             (others > 0 ? " (so do " + std::to_string(others) + " others)" : ""));
}

}  // namespace

void share_cores(Options& options, Ranks& ranks) {
  if (!ranks.several()) return;
  warn_of_bindings(ranks);
  std::string own = host_name();
  for (const int cpu : CpuSet::of_thread().list()) own += " " + std::to_string(cpu);
  const std::vector<std::string> all = ranks.gather(own);
  const auto sharing = static_cast<int>(std::ranges::count(all, own));
  if (sharing == 1) return;
  const std::int64_t share = std::max(1, available_cores() / sharing);
  const std::int64_t devices = std::max<std::int64_t>(1, options.device.count);
  if (options.device.threads == 0) options.device.threads = std::max<std::int64_t>(1, share / devices);
  if (options.eps.threads == 0) options.eps.threads = share;
}

Ranks open_ranks(const std::string& kind) {
  if (kind == "single") return Ranks();
  if (launched_processes() == 1 && kind == "auto") {
    const char* const torch = std::getenv("TORCHELASTIC_RUN_ID") != nullptr ? std::getenv("WORLD_SIZE") : nullptr;
    if (torch == nullptr || std::atoi(torch) < 2) return Ranks();
    throw BadInput(std::string("torchrun started ") + torch +
                       " processes, which would train apart from each other: start them with mpirun -n " + torch +
                       " or srun --mpi=pmix",
                   of_key("distributed.kind"));
  }
  return Ranks(collectives::open_mpi());
}

}  // namespace runtime
}  // namespace l2l
