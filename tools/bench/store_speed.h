// A parameter store with made-up layers and gradients, to time its steps without a model.
#pragma once

#include <memory>
#include <vector>

#include "core/failure.h"
#include "eps/parameter_store.h"

namespace l2l::tools {

// Thread-bound.
class StoreBench {
 public:
  // Memory that `memory` must have left.
  static Bytes bytes(std::int64_t parameters, std::int64_t layer_parameters, const eps::StoreOptions& options);
  // Layers of `layer_parameters` elements, at most `parameters` in all and at least one; `options` give wire, optimizer
  // and threads. Every layer has gradients of its own, so that none is in a cache because another one's was. `memory`
  // must outlive this.
  StoreBench(std::int64_t parameters, std::int64_t layer_parameters, const eps::StoreOptions& options,
             eps::MemorySource& memory);

  std::int64_t parameters() const { return store_->layout().parameters(); }
  std::uint64_t state_hash() const { return store_->state_hash(); }
  // Of all layers.
  std::uint64_t updates() const;
  // A step from its first push to the last version, in seconds.
  double step();

 private:
  void fill_gradients();

  Failure failure_;
  std::unique_ptr<eps::ParameterStore> store_;
  std::uint64_t steps_ = 0;
};

}  // namespace l2l::tools
