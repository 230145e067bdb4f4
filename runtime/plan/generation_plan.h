// What continuing texts with a cache of keys and values needs: graphs and programs for several rows of one text and for
// one row of each text, and every byte of memory. Immutable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "l2l/trainer.h"
#include "models/model.h"
#include "runtime/plan/run_parts.h"

namespace l2l::runtime {

// A model for some rows, with the programs of its layers.
class GenerationPrograms {
 public:
  // `with_head`: those of the head, too.
  GenerationPrograms(device::Device& device, models::Model model, bool with_head);

  const models::Model& model() const { return model_; }
  // Of an embedding's layer or a block.
  const device::Executable& forward(int layer) const { return *of(forward_, layer); }
  // Of a layer of the head: the logits of all rows.
  const device::Executable& logits(int layer) const { return *of(logits_, layer); }
  // The largest of all.
  Bytes scratch() const { return scratch_; }

 private:
  using Executables = std::vector<std::unique_ptr<device::Executable>>;  // by type of layer
  const device::Executable* of(const Executables& executables, int layer) const {
    return executables[static_cast<std::size_t>(model_.type_of[static_cast<std::size_t>(layer)])].get();
  }

  models::Model model_;
  Executables forward_, logits_;
  Bytes scratch_ = 0;
};

// Uses of device memory; each is a list of buffers.
enum class GenerationPart : std::uint8_t {
  cache,    // keys and values: by block, [texts x capacity, keys and values]
  prefill,  // activations of whole texts: one for each, and one more
  rows,     // activations of one row of each text: two
  ids,      // tokens: of each text, then of one row of each text
  fields,   // Region::rows, likewise
  normed,   // what chunks of a head read; none where the head is one layer
  logits,   // of one row of each text, over the rows of the table in one layer
  scratch,
  count
};

class GenerationPlan {
 public:
  // For device 0 of `parts`. Throws BadInput where the model has no such graphs (can_cache()).
  GenerationPlan(const RunParts& parts, const GenerationShape& shape);

  const GenerationShape& shape() const { return shape_; }
  std::int64_t texts() const { return shape_.prompts; }
  std::int64_t capacity() const { return capacity_; }              // rows of each text in the cache
  std::int64_t longest() const { return longest_; }                // rows of a text that are taken at once
  const GenerationPrograms& prefill() const { return *prefill_; }  // all rows of one text
  const GenerationPrograms& decode() const { return *decode_; }    // one row of each text

  Bytes device_bytes() const { return device_bytes_; }
  Bytes staging_bytes() const;  // page-locked host memory: ids and fields, and the logits
  // Host memory for drawing tokens: the logits of a text or, where the head comes in chunks, of each, and two copies of
  // a text's.
  Bytes logits_bytes() const;
  std::vector<device::BufferView> views(GenerationPart part, device::BufferView arena) const;
  std::vector<ContractLine> lines() const;

 private:
  void add(GenerationPart part, const char* what, std::vector<Bytes> sizes);

  struct Buffers {
    std::string what = {};
    std::vector<Bytes> sizes = {};
    Bytes begin = 0, total = 0;  // padding included
  };
  GenerationShape shape_;
  std::int64_t capacity_, longest_;
  std::unique_ptr<GenerationPrograms> prefill_, decode_;
  std::vector<Buffers> buffers_;  // by part
  Bytes device_bytes_ = 0;
};

// Whether texts of the model can be continued with a cache: not those of encoders, of classifiers, and of models with
// two residual streams.
bool can_cache(const models::Model& model);

}  // namespace l2l::runtime
