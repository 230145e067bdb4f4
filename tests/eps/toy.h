// A toy model for the parameter store: embedding, two blocks and a head, the token table tied between embedding and
// head, padding between and after parameters, blocks larger than one job of the worker pool.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "eps/parameter_store.h"

namespace l2l::eps::testing {

// Plain zeroed memory; remembers what was asked for.
class TestMemory final : public MemorySource {
 public:
  std::byte* allocate(Bytes size, std::string_view purpose) override;

  Bytes total() const { return total_; }
  // Sum of the requests whose purpose contains `text`.
  Bytes total_for(std::string_view text) const;

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  struct Request {
    Bytes size;
    std::string purpose;
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
  std::vector<Request> requests_;
  Bytes total_ = 0;
};

inline constexpr GroupIndex kTable = 0, kPositions = 1, kBlock0 = 2, kBlock1 = 3, kNorm = 4;
inline constexpr LayerIndex kEmbedding = 0, kFirstBlock = 1, kSecondBlock = 2, kHead = 3;

ModelLayout toy_layout();

// Options with AdamW as in toy runs; threads and devices 1.
StoreOptions toy_options();
double toy_learning_rate(std::uint64_t step);

// Gradients of one layer from one device, already rounded to `type`. Padding holds NaNs: nobody may look at it.
std::vector<float> toy_gradient(const ModelLayout& layout, LayerIndex layer, int device, std::uint64_t step,
                                DType type);
// Writes fp32 values to a buffer of `type`, which holds them exactly.
void store_as(const std::vector<float>& values, DType type, std::byte* destination);

// Gets a buffer, fills it and pushes it.
void push_gradient(ParameterStore& store, const std::vector<float>& values, DType type, LayerIndex layer, int device,
                   std::optional<double> squares = std::nullopt);
// The toy gradients of all layers and devices of one step, from the head down.
void push_all(ParameterStore& store, const StoreOptions& options, std::uint64_t step);
// A whole step: begin, push_all, finish, complete.
void run_step(ParameterStore& store, const StoreOptions& options, std::uint64_t step);

// Master and moments of all parameters, one after the other.
std::vector<float> whole_state(const ParameterStore& store);
// The bytes of a leased layer, as they would lie in a weight slot; gaps are 0.
std::vector<std::byte> leased_bytes(const WeightLease& lease);

}  // namespace l2l::eps::testing
