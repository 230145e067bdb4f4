#include "runtime/data/masking.h"

#include <algorithm>
#include <cmath>

namespace l2l::runtime {
namespace {

// 80% and 90% of 2^32: the mask token below the first, another token below the second.
constexpr std::uint32_t kMasked = 3435973837u, kReplaced = 3865470566u;

std::int32_t replacement(const Masking& masking, std::int32_t token, const PhiloxBlock& words) {
  if (words[1] < kMasked) return masking.mask_token;
  if (words[1] >= kReplaced) return token;
  const auto others = static_cast<std::uint64_t>(masking.vocabulary - 1);  // all but the mask
  const auto drawn = static_cast<std::int32_t>(words[2] * others >> 32);
  return drawn < masking.mask_token ? drawn : drawn + 1;
}

}  // namespace

std::int64_t masked_tokens(const Masking& masking, std::int64_t count) {
  const auto share = static_cast<std::int64_t>(std::floor(masking.share * static_cast<double>(count) + 0.5));
  return std::clamp<std::int64_t>(share, 1, count);
}

// Knuth, The Art of Computer Programming, vol. 2, 3.4.2, algorithm S: each token is taken with probability (tokens
// still wanted) / (tokens still to come).
void mask_tokens(const Masking& masking, const RngKey& key, std::span<std::int32_t> tokens,
                 std::span<std::int32_t> targets) {
  auto left = static_cast<std::uint64_t>(tokens.size());
  auto wanted = static_cast<std::uint64_t>(masked_tokens(masking, static_cast<std::int64_t>(left)));
  for (std::size_t i = 0; i < tokens.size(); ++i, --left) {
    const PhiloxBlock words = philox(key, static_cast<std::uint32_t>(i));
    targets[i] = -1;
    if (words[0] * left >= wanted << 32) continue;
    --wanted;
    targets[i] = tokens[i];
    tokens[i] = replacement(masking, tokens[i], words);
  }
}

}  // namespace l2l::runtime
