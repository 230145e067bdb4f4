// The weights of a Hugging Face model directory as the initial weights of a model.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/weight_source.h"
#include "formats/safetensors_shards.h"
#include "l2l/options.h"

namespace l2l::models {

// Thread-safe after construction. Tensors are F32, BF16 or F16, and are read in pieces, as they are asked for; nothing
// is mapped.
class HubWeights final : public WeightSource {
 public:
  // Finds a tensor for every parameter of `layout`, that of make_model(model). With `new_head`, parameters of the head
  // may have none, all of them or some, and the directory's head may be another, or of another number of classes. Those
  // of adapters come from the PEFT directory `adapter`, or have none where that is empty. Where `model` lists its
  // blocks, tensors of blocks that it has not are left alone, and blocks of other types than the architecture's have
  // none. `saves`: checkpoints will be saved, which have frozen parameters from the directory: what the adapter has of
  // them is refused. Throws BadInput with the list of all tensors that are missing, unexpected, or of a wrong shape or
  // type; CorruptFile.
  HubWeights(const std::filesystem::path& directory, const ModelOptions& model, const ModelLayout& layout,
             bool new_head, const std::filesystem::path& adapter = {}, bool saves = false);

  // Throws CorruptFile, also where an element is not finite.
  bool read(const ParameterSpec& parameter, std::int64_t first, std::span<float> destination) const override;

  // XXH64 of all tensors of the directory, which it reads.
  std::uint64_t hash() const;
  // Tells models apart in a moment: of the names and types of all tensors that parameters have, those of the adapter
  // among them, and of some of their elements.
  std::uint64_t fingerprint() const;
  // Whether a parameter's tensor has another type than this one.
  bool has_other_type(const ParameterSpec& parameter, DType type) const;

  // The rows of classes of the directory's head are no parameter's from now on.
  void leave_out_classes();
  // From now on elements may be NaN or infinite.
  void allow_nonfinite() { allow_nonfinite_ = true; }

  Bytes bytes() const { return bytes_; }  // of all tensors that parameters have
  // Called from any thread, one at a time, with the bytes read so far. Set before the first read().
  void on_progress(std::function<void(Bytes done)> progress) { progress_ = std::move(progress); }

 private:
  void check_copies(const std::vector<formats::ShardedTensor>& copies) const;

  formats::SafetensorsShards shards_;
  std::optional<formats::SafetensorsFile> adapter_;
  std::unordered_map<std::string, formats::ShardedTensor> tensors_;  // by parameter
  Bytes bytes_ = 0;
  bool allow_nonfinite_ = false;
  std::function<void(Bytes)> progress_;
  mutable std::atomic<Bytes> done_{0};
  mutable std::atomic_flag reporting_;
};

}  // namespace l2l::models
