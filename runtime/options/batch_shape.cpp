#include "runtime/options/batch_shape.h"

#include <algorithm>
#include <bit>
#include <string>

#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

constexpr std::int64_t kUsualMicroBatch = 8;

std::string show(const std::string& key, std::int64_t value) { return key + " = " + std::to_string(value); }
std::string show_minibatch(const BatchOptions& batch) { return show("batch.minibatch", batch.minibatch); }
std::string show_micro_batch(const BatchOptions& batch) { return show("batch.micro_batch", batch.micro_batch); }
std::string show_micro_batches(const BatchOptions& batch) { return show("batch.micro_batches", batch.micro_batches); }

// "; set KEY = 3 or 5"; a `below` of 0 and an `above` of 0 are none.
std::string way_out(const std::string& key, std::int64_t below, std::int64_t above) {
  std::string values = below > 0 ? std::to_string(below) : "";
  if (above > 0) values += (values.empty() ? "" : " or ") + std::to_string(above);
  return "; set " + key + " = " + values;
}

// The same with those that are nearest to `value` of the divisors of `share`, times `unit`.
std::string nearest_divisors(const std::string& key, std::int64_t value, std::int64_t share, std::int64_t unit) {
  std::int64_t below = 0, above = 0;
  const auto see = [&](std::int64_t candidate) {
    if (candidate <= value) below = std::max(below, candidate);
    if (candidate > value) above = above == 0 ? candidate : std::min(above, candidate);
  };
  for (std::int64_t divisor = 1; divisor <= share / divisor; ++divisor) {
    if (share % divisor != 0) continue;
    see(divisor * unit);
    see(share / divisor * unit);
  }
  return way_out(key, below, above);
}

void check_agreement(const BatchOptions& batch) {
  const std::int64_t product = batch.micro_batch * batch.micro_batches;
  if (batch.minibatch == product) return;
  throw BadInput(show_minibatch(batch) + ", but " + show_micro_batch(batch) + " x " + show_micro_batches(batch) +
                 " are " + std::to_string(product) + " sequences; leave one of the three out, or set it to 0");
}

// What microbatches are shared among: devices, or the parts of the minibatch.
struct Shares {
  std::int64_t count;
  bool parts = false;
  std::int64_t processes = 1;

  std::string show() const {
    if (parts) return runtime::show("batch.parts", count);
    if (processes == 1) return runtime::show("device.count", count);
    return "the " + std::to_string(count) + " devices of " + std::to_string(processes) + " processes";
  }
};

void check_parts(const BatchOptions& batch, std::int64_t devices) {
  const std::string given = show("batch.parts", batch.parts);
  if (!std::has_single_bit(static_cast<std::uint64_t>(batch.parts))) {
    throw BadInput(given + " is no power of two, so that its parts make no whole binary tree" +
                   way_out("batch.parts",
                           std::int64_t{1} << (std::bit_width(static_cast<std::uint64_t>(batch.parts)) - 1),
                           std::int64_t{1} << std::bit_width(static_cast<std::uint64_t>(batch.parts))));
  }
  if (batch.parts % devices == 0) return;
  throw BadInput(given + " cannot be shared by " + std::to_string(devices) +
                 " devices: as many parts on each, so their number is a power of two and at most that of the parts");
}

// Devices do the same work, so that they wait for each other as little as can be.
void check_shares(const std::string& key, std::int64_t value, const std::string& what, const Shares& shares) {
  if (value % shares.count == 0) return;
  const std::int64_t below = value / shares.count * shares.count;
  throw BadInput(show(key, value) + " is not divisible by " + shares.show() + ": each " +
                 (shares.parts ? "part" : "device") + " takes an equal share of " + what +
                 way_out(key, below, below + shares.count));
}

void check_micro_batch(const BatchOptions& batch, const Shares& shares) {
  const std::int64_t share = batch.minibatch / shares.count;
  if (share % batch.micro_batch == 0) return;
  const std::string problem = shares.count == 1
                                  ? show_minibatch(batch) + " is not divisible by " + show_micro_batch(batch)
                                  : show_minibatch(batch) + " over " + shares.show() + " is " + std::to_string(share) +
                                        " sequences each, which is not divisible by " + show_micro_batch(batch);
  throw BadInput(problem + nearest_divisors("batch.micro_batch", batch.micro_batch, share, 1));
}

void check_micro_batches(const BatchOptions& batch, const Shares& shares) {
  const bool equal_shares = batch.micro_batches % shares.count == 0;
  if (equal_shares && batch.minibatch % batch.micro_batches == 0) return;
  const std::string each = shares.count == 1 ? "" : ", as many on each of " + shares.show();
  throw BadInput(
      show_minibatch(batch) + " cannot be cut into " + show_micro_batches(batch) + " of one size" + each +
      nearest_divisors("batch.micro_batches", batch.micro_batches, batch.minibatch / shares.count, shares.count));
}

// Of quotients; what is given is within its range.
void check_ranges(const BatchOptions& batch) {
  if (batch.micro_batch > kMostMicroBatch) {
    throw BadInput(show_minibatch(batch) + " and " + show_micro_batches(batch) + " make microbatches of " +
                   std::to_string(batch.micro_batch) + " sequences; at most " + std::to_string(kMostMicroBatch) +
                   " are possible, so set more batch.micro_batches");
  }
  if (batch.micro_batches > kMostMicroBatches) {
    throw BadInput(show_minibatch(batch) + " in microbatches of " + std::to_string(batch.micro_batch) + " makes " +
                   std::to_string(batch.micro_batches) + " of them; at most " + std::to_string(kMostMicroBatches) +
                   " are possible, so set a larger batch.micro_batch");
  }
}

std::int64_t largest_divisor(std::int64_t number, std::int64_t most) {
  while (number % most != 0) --most;
  return most;
}

bool is_possible(std::int64_t micro_batch, std::int64_t minibatch, std::int64_t share) {
  return share % micro_batch == 0 && minibatch / micro_batch <= kMostMicroBatches;
}

}  // namespace

BatchOptions resolved(const BatchOptions& given, std::int64_t devices, std::int64_t processes) {
  BatchOptions batch = given;
  if (batch.parts > 0) check_parts(batch, devices);
  const Shares shares{shares_of(batch, devices), batch.parts > 0, processes};
  if (batch.micro_batch == BatchOptions::kChosen) batch.micro_batch = 0;
  if (batch.minibatch == 0) {
    if (batch.micro_batch == 0) batch.micro_batch = kUsualMicroBatch;
    if (batch.micro_batches == 0) batch.micro_batches = 1;
    batch.minibatch = batch.micro_batch * batch.micro_batches;
  }
  if (batch.micro_batch > 0 && batch.micro_batches > 0) {
    check_agreement(batch);
    if (given.minibatch > 0) check_shares("batch.minibatch", batch.minibatch, "its sequences", shares);
    check_shares("batch.micro_batches", batch.micro_batches, "them", shares);
    return batch;
  }
  check_shares("batch.minibatch", batch.minibatch, "its sequences", shares);
  if (batch.micro_batches > 0) {
    check_micro_batches(batch, shares);
    batch.micro_batch = batch.minibatch / batch.micro_batches;
  } else {
    if (batch.micro_batch == 0) batch.micro_batch = largest_divisor(batch.minibatch / shares.count, kUsualMicroBatch);
    check_micro_batch(batch, shares);
    batch.micro_batches = batch.minibatch / batch.micro_batch;
  }
  check_ranges(batch);
  return batch;
}

std::int64_t shares_of(const BatchOptions& batch, std::int64_t devices) {
  return batch.parts > 0 ? batch.parts : devices;
}

bool leaves_micro_batch(const Options& options) { return options.batch.micro_batch == BatchOptions::kChosen; }

std::optional<std::int64_t> micro_batch_to_keep(const Options& options, const Options& saved) {
  const BatchOptions batch = resolved(saved.batch, saved.device.groups());
  if (batch.minibatch != options.batch.minibatch) return std::nullopt;
  if (batch.minibatch % (shares_of(options.batch, options.device.groups()) * batch.micro_batch) != 0)
    return std::nullopt;
  return batch.micro_batch;
}

std::vector<std::int64_t> micro_batch_candidates(std::int64_t minibatch, std::int64_t shares) {
  const std::int64_t share = minibatch / shares, most = std::min(share, kMostMicroBatch);
  std::vector<std::int64_t> least;  // of each octave that has one
  for (std::int64_t octave = 1; octave <= most; octave *= 2) {
    std::int64_t candidate = octave;
    const std::int64_t end = std::min(2 * octave, most + 1);
    while (candidate < end && !is_possible(candidate, minibatch, share)) ++candidate;
    if (candidate < end) least.push_back(candidate);
  }
  if (least.size() <= kMostCandidates) return least;
  std::vector<std::int64_t> spread;
  const std::size_t gaps = kMostCandidates - 1, last = least.size() - 1;
  for (std::size_t i = 0; i <= gaps; ++i) spread.push_back(least[(2 * i * last + gaps) / (2 * gaps)]);
  return spread;
}

}  // namespace l2l::runtime
