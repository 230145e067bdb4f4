// Lengths of padded sequences ("buckets"): samples whose lengths differ are computed in microbatches of few lengths,
// for each of which a model's programs are planned, so that little is spent on padding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace l2l::runtime {

inline constexpr int kMostBuckets = 8;

// The lengths that spend the fewest rows on `samples`, each of which takes the shortest length that holds it; no more
// of them than matter (within 2% of what `most` lengths reach). `samples`: how many have so many rows, [longest + 1].
// Ascending; the last is the longest, the others are multiples of 8, or of about a 128th of a longest over 1,024.
std::vector<std::int64_t> choose_lengths(std::span<const std::uint64_t> samples, int most);

// How the samples of a minibatch are dealt to its microbatches.
struct Deal {
  std::vector<int> sample_of;  // of each sequence, in the order of the minibatch
  std::vector<int> length_of;  // of each microbatch: index into the lengths
};

// Samples of like length share a microbatch: sorted by their rows, the longest first, and of equal ones in their order.
// `rows`: of each sample, at most the last of `lengths`. Devices get equal runs of consecutive microbatches, and are
// dealt microbatches in turn, so that none has all the long ones. With `parts` (batch.parts; a power of two that
// `devices` divides; 0: none) so are the parts, in an order that does so for any such number of devices: the deal, on
// which the bits depend, does not depend on it.
Deal deal_samples(std::span<const std::int64_t> rows, std::span<const std::int64_t> lengths, int micro_batch,
                  int devices, int parts);

}  // namespace l2l::runtime
