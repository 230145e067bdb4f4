#include "compiler/memory/forbidden.h"
#include "compiler/memory/placed.h"
#include "compiler/memory/search/decoder.h"

namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kBlocksPerQuestion = 64;

class FirstFit : public Decoder {
 public:
  explicit FirstFit(const Blocks& blocks) : blocks_(blocks), forbidden_(blocks) {}

  std::optional<Bytes> decode(std::span<const Index> order, Bytes highest, const std::function<bool()>& stop,
                              std::vector<Bytes>& offsets) override {
    Placed placed(blocks_);
    for (std::size_t at = 0; at < order.size(); ++at) {
      const Index block = order[at];
      if (blocks_.pinned(block)) continue;
      const std::span<const Placed::Extent> neighbours = placed.neighbours_of(block);
      placed.put(block, forbidden_.choose(block, neighbours, Fit::first, 0, Forbidden::kAnywhere));
      if (placed.footprint() > highest || (at % kBlocksPerQuestion == 0 && stop())) return std::nullopt;
    }
    offsets = placed.take_offsets();
    return placed.footprint();
  }

 private:
  const Blocks& blocks_;
  Forbidden forbidden_;
};

}  // namespace

std::unique_ptr<Decoder> first_fit_decoder(const Blocks& blocks) { return std::make_unique<FirstFit>(blocks); }

}  // namespace l2l::compiler::memory
