#include "runtime/data/buckets.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace l2l::runtime {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr double kMatters = 1.02;

// The lengths to choose from, ascending.
std::vector<std::int64_t> candidates(std::int64_t longest) {
  const std::int64_t step = std::max<std::int64_t>(8, (longest / 128 + 7) / 8 * 8);
  std::vector<std::int64_t> all;
  for (std::int64_t length = step; length < longest; length += step) all.push_back(length);
  all.push_back(longest);
  return all;
}

// `value`, below the power of two `count`, with its bits in reverse order.
int reverse_bits(int value, int count) {
  int reversed = 0;
  for (int bit = 1; bit < count; bit *= 2, value /= 2) reversed = 2 * reversed + value % 2;
  return reversed;
}

}  // namespace

// Dynamic programme over the candidates: the fewest rows for all samples up to candidate `end`, which is taken, when
// `count` candidates are.
std::vector<std::int64_t> choose_lengths(std::span<const std::uint64_t> samples, int most) {
  const std::vector<std::int64_t> all = candidates(static_cast<std::int64_t>(samples.size()) - 1);
  std::vector<std::uint64_t> up_to;  // samples that a candidate holds
  for (const std::int64_t length : all) {
    up_to.push_back(std::accumulate(samples.begin(), samples.begin() + length + 1, std::uint64_t{0}));
  }
  std::vector<std::vector<std::uint64_t>> rows(static_cast<std::size_t>(most) + 1,
                                               std::vector<std::uint64_t>(all.size(), kNever));
  std::vector<std::vector<std::size_t>> before(rows.size(), std::vector<std::size_t>(all.size()));
  for (std::size_t end = 0; end < all.size(); ++end) rows[1][end] = up_to[end] * static_cast<std::uint64_t>(all[end]);
  for (std::size_t count = 2; count < rows.size(); ++count) {
    for (std::size_t end = 1; end < all.size(); ++end) {
      for (std::size_t last = 0; last < end; ++last) {
        if (rows[count - 1][last] == kNever) continue;
        const std::uint64_t sum =
            rows[count - 1][last] + (up_to[end] - up_to[last]) * static_cast<std::uint64_t>(all[end]);
        if (sum >= rows[count][end]) continue;
        rows[count][end] = sum;
        before[count][end] = last;
      }
    }
  }
  std::uint64_t best = kNever;
  for (const auto& of_count : rows) best = std::min(best, of_count.back());
  std::size_t count = 1;
  while (static_cast<double>(rows[count].back()) > kMatters * static_cast<double>(best)) ++count;
  std::vector<std::int64_t> lengths(count);
  for (std::size_t end = all.size() - 1; count > 0; end = before[count--][end]) lengths[count - 1] = all[end];
  return lengths;
}

Deal deal_samples(std::span<const std::int64_t> rows, std::span<const std::int64_t> lengths, int micro_batch,
                  int devices, int parts) {
  std::vector<int> sorted(rows.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int a, int b) { return rows[static_cast<std::size_t>(a)] > rows[static_cast<std::size_t>(b)]; });
  const int microbatches = static_cast<int>(rows.size()) / micro_batch;
  const int shares = parts > 0 ? parts : devices;
  Deal deal{std::vector<int>(rows.size()), std::vector<int>(static_cast<std::size_t>(microbatches))};
  for (int i = 0; i < microbatches; ++i) {
    // The upper bits of a part's number tell its device, the lower bits of i whose turn it is.
    const int share = parts > 0 ? reverse_bits(i % shares, shares) : i % shares;
    const int to = share * (microbatches / shares) + i / shares;
    const auto first = sorted.begin() + static_cast<std::ptrdiff_t>(i) * micro_batch;
    std::copy_n(first, micro_batch, deal.sample_of.begin() + static_cast<std::ptrdiff_t>(to) * micro_batch);
    const auto length = std::lower_bound(lengths.begin(), lengths.end(), rows[static_cast<std::size_t>(*first)]);
    deal.length_of[static_cast<std::size_t>(to)] = static_cast<int>(length - lengths.begin());
  }
  return deal;
}

}  // namespace l2l::runtime
