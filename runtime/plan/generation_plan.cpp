#include "runtime/plan/generation_plan.h"

#include <algorithm>

#include "core/checked.h"
#include "l2l/errors.h"
#include "models/hub/adapter.h"
#include "models/make_model.h"
#include "models/own_layers.h"

namespace l2l::runtime {
namespace {

constexpr Bytes kBufferAlignment = 256;

std::vector<Bytes> times(std::int64_t count, Bytes size) {
  return std::vector<Bytes>(static_cast<std::size_t>(count), size);
}

models::Model model_for(const RunParts& parts, std::int64_t texts, std::int64_t rows, std::int64_t capacity) {
  models::Model model =
      models::make_model(parts.options.model, {.micro_batch = texts,
                                               .sequence = rows,
                                               .compute = parts.model.compute,
                                               .vocabulary_chunk = parts.options.transfer.vocabulary_chunk,
                                               .packed = true,
                                               .lora = models::lora_of(parts.options.lora),
                                               .cache = capacity});
  models::check_same_parameters(parts.model.layout, model.layout);
  return model;
}

// Of one block's keys and values.
Bytes cache_bytes(const models::Model& model) {
  Bytes most = 0;
  for (const models::LayerType& type : model.types) {
    most = std::max(most, type.forward.region_bytes(compiler::Region::cache));
  }
  return most;
}

Bytes id_bytes(std::int64_t rows) { return static_cast<Bytes>(rows) * size_of(DType::i32); }

void check_shape(const GenerationShape& shape) {
  const auto check = [](std::int64_t number, const char* what) {
    if (number < 1 || number > (1 << 24)) {
      throw BadInput(std::string("continuing texts: ") + what + " = " + std::to_string(number) +
                     " is not within 1 and 2^24");
    }
  };
  check(shape.prompts, "prompts");
  check(shape.longest_prompt, "longest_prompt");
  if (shape.tokens < 0 || shape.tokens > (1 << 24)) check(shape.tokens, "tokens");
}

}  // namespace

bool can_cache(const models::Model& model) { return model.causal && model.labels == 0 && !model.streams(); }

GenerationPrograms::GenerationPrograms(device::Device& device, models::Model model, bool with_head)
    : model_(std::move(model)) {
  forward_.resize(model_.types.size());
  logits_.resize(model_.types.size());
  for (int layer = 0; layer < (with_head ? model_.layers() : model_.head()); ++layer) {
    const bool head = layer >= model_.head();
    const auto type = static_cast<std::size_t>(model_.type_of[static_cast<std::size_t>(layer)]);
    std::unique_ptr<device::Executable>& program = (head ? logits_ : forward_)[type];
    if (program) continue;
    program = device.compile(head ? model_.types[type].logits : model_.types[type].forward);
    scratch_ = std::max(scratch_, program->program().scratch_bytes);
  }
}

GenerationPlan::GenerationPlan(const RunParts& parts, const GenerationShape& shape)
    : shape_(shape), buffers_(static_cast<std::size_t>(GenerationPart::count)) {
  check_shape(shape);
  const std::int64_t sequence = parts.options.model.sequence;
  // A text that outgrows the context is run as a whole for each further token.
  const std::int64_t all = shape.longest_prompt + shape.tokens;
  capacity_ = std::min(sequence, all);
  longest_ = all > sequence ? sequence : shape.longest_prompt;
  prefill_ = std::make_unique<GenerationPrograms>(*parts.device, model_for(parts, 1, longest_, capacity_), false);
  decode_ = std::make_unique<GenerationPrograms>(*parts.device, model_for(parts, shape.prompts, 1, capacity_), true);
  const models::Model &whole = prefill_->model(), &single = decode_->model();
  const Bytes row_fields = static_cast<Bytes>(compiler::RowField::count);
  std::vector<Bytes> ids = times(shape.prompts, id_bytes(longest_));
  ids.push_back(id_bytes(shape.prompts));
  std::vector<Bytes> fields = ids;
  for (Bytes& bytes : fields) bytes *= row_fields;
  add(GenerationPart::cache, "keys and values of texts", times(single.blocks(), cache_bytes(single)));
  add(GenerationPart::prefill, "activations of whole texts", times(shape.prompts + 1, whole.activation_bytes()));
  add(GenerationPart::rows, "activations of a row of each text", times(2, single.activation_bytes()));
  add(GenerationPart::ids, "tokens of texts", std::move(ids));
  add(GenerationPart::fields, "positions of texts", std::move(fields));
  if (single.head_in_chunks()) {
    add(GenerationPart::normed, "what the head's chunks read", {single.activation_bytes()});
  }
  add(GenerationPart::logits, "logits of a row of each text",
      {static_cast<Bytes>(shape.prompts * single.logits_tokens()) * size_of(single.compute)});
  add(GenerationPart::scratch, "scratch of continuing texts", {std::max(prefill_->scratch(), decode_->scratch())});
}

void GenerationPlan::add(GenerationPart part, const char* what, std::vector<Bytes> sizes) {
  Buffers& buffers = buffers_[static_cast<std::size_t>(part)];
  buffers = {what, std::move(sizes), device_bytes_, 0};
  for (const Bytes size : buffers.sizes) {
    buffers.total = align_up(checked_add(buffers.total, size, what), kBufferAlignment);
  }
  device_bytes_ = checked_add(device_bytes_, buffers.total, what);
}

std::vector<device::BufferView> GenerationPlan::views(GenerationPart part, device::BufferView arena) const {
  const Buffers& buffers = buffers_[static_cast<std::size_t>(part)];
  std::vector<device::BufferView> views;
  Bytes begin = buffers.begin;
  for (const Bytes size : buffers.sizes) {
    views.push_back(arena.slice(begin, size));
    begin = align_up(begin + size, kBufferAlignment);
  }
  return views;
}

Bytes GenerationPlan::staging_bytes() const {
  const auto total = [&](GenerationPart part) { return buffers_[static_cast<std::size_t>(part)].total; };
  return total(GenerationPart::ids) + total(GenerationPart::fields) + total(GenerationPart::logits);
}

Bytes GenerationPlan::logits_bytes() const {
  const models::Model& model = decode_->model();
  const std::int64_t rows = (model.head_in_chunks() ? shape_.prompts : 1) + 2;
  return checked_multiply(static_cast<Bytes>(rows), static_cast<Bytes>(model.vocabulary) * sizeof(float),
                          "logits of texts");
}

std::vector<ContractLine> GenerationPlan::lines() const {
  std::vector<ContractLine> lines;
  for (const Buffers& buffers : buffers_) {
    if (buffers.total > 0) lines.push_back({buffers.what, buffers.total});
  }
  return lines;
}

}  // namespace l2l::runtime
