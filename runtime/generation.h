// Runs texts that are continued through a model, layer by layer, with a cache of keys and values: a layer visits the
// device, and all texts go through it.
//
//   run_texts()   all rows of some texts: their keys and values go into the cache, and the last row gives logits
//   run_rows()    one more row of each text, which sees the cache
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/plan/generation_plan.h"
#include "transfer/link.h"
#include "transfer/weight_stream.h"

namespace l2l::runtime {

// A text and tokens of it.
struct TextTokens {
  std::size_t text = 0;  // its number
  std::span<const std::int32_t> tokens;
};

// A text and the token behind those that the cache has of it.
struct NextToken {
  std::size_t text = 0;
  std::int32_t token = 0;
  std::int64_t place = 0;  // of the token in its text: how many the cache has before it
};

// Logits of a text from `first_token` on, in fp32.
using TakeTextLogits = std::function<void(std::size_t text, std::int64_t first_token, std::span<const float> logits)>;

// Thread-bound: the relay thread of device 0. Calls wait until the logits are there.
class Generation {
 public:
  // What the device's other work uses, too: nothing of it may be running. All references must outlive this object, and
  // `staging`, page-locked, has plan.staging_bytes().
  Generation(const GenerationPlan& plan, transfer::Link& link, transfer::WeightStream& weights, device::Stream& compute,
             device::BufferView staging);
  ~Generation();

  // With weights of `version`. At most plan.longest() tokens of each text, at least one; what the cache has of the
  // text is lost.
  void run_texts(std::uint64_t version, std::span<const TextTokens> texts, const TakeTextLogits& take);
  void run_rows(std::uint64_t version, std::span<const NextToken> rows, const TakeTextLogits& take);

 private:
  using Visit = transfer::WeightStream::Visit;

  void upload(std::size_t index, std::span<const std::int32_t> tokens, std::span<const std::int32_t> places,
              std::span<const bool> used);
  template <typename Below>
  void pass(std::uint64_t version, std::span<const std::size_t> texts, const TakeTextLogits& take, const Below& below);
  void below_head(const GenerationPrograms& programs, int layer, device::BufferView wire, std::size_t index,
                  std::int64_t text, std::size_t& current, std::span<device::BufferView> activations);
  void launch(const device::Executable& program, int layer, device::Bindings bindings);
  void head(int layer, device::BufferView wire, std::span<const std::size_t> texts, const TakeTextLogits& take);
  void synchronize();

  const GenerationPlan& plan_;
  const models::Model& model_;  // of one row of each text; its layers are those of the run
  transfer::Link& link_;
  transfer::WeightStream& weights_;
  device::Stream& compute_;
  const std::unique_ptr<device::Buffer> memory_;
  const std::unique_ptr<device::Event> done_;
  const std::vector<device::BufferView> cache_, ids_, fields_, rows_;
  std::vector<device::BufferView> prefill_;
  const device::BufferView normed_, logits_, scratch_;
  std::vector<device::BufferView> staged_ids_, staged_fields_;
  device::BufferView staged_logits_;
  std::vector<LayerIndex> order_;
  std::uint64_t version_ = 0;
};

}  // namespace l2l::runtime
