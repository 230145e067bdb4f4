// How a minibatch is cut into microbatches: what the options say, what follows from it, and what they leave open.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "l2l/options.h"

namespace l2l::runtime {

constexpr std::int64_t kMostMicroBatch = 1 << 20;          // sequences
constexpr std::int64_t kMostMicroBatches = (1 << 24) - 1;  // RngKey::microbatch
constexpr std::int64_t kMostParts = 1 << 12;               // of a minibatch; a power of two
constexpr std::size_t kMostCandidates = 6;                 // of micro_batch_candidates()

// `given` with all three fields set, so that minibatch = micro_batch x micro_batches and each of `devices` runs the
// same number of microbatches. Fields are within the ranges of their keys; 0, and kChosen, are "not set":
//   no minibatch               micro_batch is 8 and micro_batches 1, each where it is not set
//   minibatch and one of them  the other is the quotient
//   minibatch alone            the largest microbatch of at most 8 sequences
// With parts, each of these has the same number of microbatches, and each device of parts.
// `devices`: of all `processes`. Throws BadInput naming keys, values and the nearest ones that would do.
BatchOptions resolved(const BatchOptions& given, std::int64_t devices, std::int64_t processes = 1);

// Into how many equal shares microbatches must divide the minibatch.
std::int64_t shares_of(const BatchOptions& batch, std::int64_t devices);

// Whether the microbatch is the planner's to choose.
bool leaves_micro_batch(const Options& options);

// The microbatch with which a run of `options` goes on bit by bit from a checkpoint of a run of `saved`: that run's
// own, where the minibatch is the same and a device's share of it divides so; else nothing.
std::optional<std::int64_t> micro_batch_to_keep(const Options& options, const Options& saved);

// What a planner may choose from, ascending: of the divisors of one of `shares` of the minibatch that are possible,
// the least one in each octave [2^k, 2^(k + 1)); of more than kMostCandidates such, as many, spread evenly over them
// with both ends. So 1 and the whole share are always among them (of a minibatch below 2^20), and no two divisors of
// one octave, which hardly differ. `minibatch` is one that resolved() accepts alone.
std::vector<std::int64_t> micro_batch_candidates(std::int64_t minibatch, std::int64_t shares);

}  // namespace l2l::runtime
