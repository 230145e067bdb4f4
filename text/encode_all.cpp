#include <algorithm>

#include "core/workers.h"
#include "l2l/errors.h"
#include "text/tokenizer.h"

namespace l2l::text {

void Encoder::encode_pair(std::string_view, std::string_view, std::vector<std::int32_t>&, std::vector<std::int32_t>&) {
  throw BadInput("this tokenizer does not say how two texts become one; it takes a tokenizer.json");
}

std::vector<std::vector<std::int32_t>> encode_all(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                                                  bool special, int threads) {
  constexpr std::size_t kAtOnce = 16;
  std::vector<std::vector<std::int32_t>> ids(texts.size());
  Workers workers("tokenizer", threads);
  std::vector<std::unique_ptr<Encoder>> encoders;
  for (int slot = 0; slot < threads; ++slot) encoders.push_back(tokenizer.make_encoder());
  const std::size_t blocks = (texts.size() + kAtOnce - 1) / kAtOnce;
  workers.parallel_for(static_cast<std::int64_t>(blocks), [&](std::int64_t block, int slot) {
    const std::size_t begin = static_cast<std::size_t>(block) * kAtOnce, end = std::min(begin + kAtOnce, texts.size());
    for (std::size_t i = begin; i < end; ++i) {
      encoders[static_cast<std::size_t>(slot)]->encode(texts[i], special, ids[i]);
    }
  });
  return ids;
}

}  // namespace l2l::text
