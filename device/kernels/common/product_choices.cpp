#include "device/kernels/common/product_choices.h"

#include <charconv>
#include <string_view>

#include "core/hash.h"
#include "core/log.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

constexpr std::size_t kDigits = 16;  // of a word, hexadecimal

std::string to_text(const ProductAlgorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm) text += to_hex(word);
  return text;
}

ProductAlgorithm parse(const std::string& problem, std::string_view text) {
  const auto refuse = [&] {
    throw BadInput("\"" + problem + "\" is not " + std::to_string(kDigits * ProductAlgorithm().size()) +
                   " hexadecimal digits, an algorithm of cuBLASLt");
  };
  ProductAlgorithm algorithm{};
  if (text.size() != kDigits * algorithm.size()) refuse();
  for (std::uint64_t& word : algorithm) {
    const char* const end = text.data() + kDigits;
    const auto [read, error] = std::from_chars(text.data(), end, word, 16);
    if (error != std::errc() || read != end) refuse();
    text.remove_prefix(kDigits);
  }
  return algorithm;
}

}  // namespace

std::optional<ProductAlgorithm> ProductChoices::get(const std::string& problem, const Accepts& accepts,
                                                    const Choose& choose) {
  const std::lock_guard lock(mutex_);
  if (const auto found = known_.find(problem); found != known_.end()) {
    if (accepts(found->second.algorithm)) {
      found->second.used = true;
      return found->second.algorithm;
    }
    log(LogLevel::warning, "the algorithm that was kept for the product " + problem +
                               " is none that cuBLASLt can use on " + valid_for_ +
                               ": it is chosen anew, and the last bits of results may differ");
  }
  const std::optional<ProductAlgorithm> chosen = choose();
  if (chosen) known_[problem] = {*chosen, true};
  return chosen;
}

KernelChoices ProductChoices::used() const {
  const std::lock_guard lock(mutex_);
  KernelChoices choices;
  auto& mine = choices[valid_for_];
  for (const auto& [problem, choice] : known_) {
    if (choice.used) mine[problem] = to_text(choice.algorithm);
  }
  return choices;
}

void ProductChoices::take(const KernelChoices& choices) {
  const auto mine = choices.find(valid_for_);
  if (mine == choices.end()) return;
  std::map<std::string, ProductAlgorithm> taken;
  for (const auto& [problem, text] : mine->second) taken[problem] = parse(problem, text);
  const std::lock_guard lock(mutex_);
  for (const auto& [problem, algorithm] : taken) known_[problem].algorithm = algorithm;
}

}  // namespace l2l::device::cuda
