#include "runtime/generation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "core/fault_point.h"

namespace l2l::runtime {
namespace {

using compiler::Region;
using compiler::RowField;
using device::Bindings;
using device::BufferView;
using transfer::Traffic;

BufferView only(std::vector<BufferView> views) { return views.empty() ? BufferView{} : views[0]; }

std::span<std::int32_t> integers(BufferView view) {
  return {reinterpret_cast<std::int32_t*>(view.data), view.size / sizeof(std::int32_t)};
}

void widen(DType dtype, BufferView source, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::f32) {
      std::memcpy(&values[i], source.data + i * sizeof(float), sizeof(float));
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, source.data + i * sizeof(bits), sizeof(bits));
      values[i] = dtype == DType::bf16 ? to_float(bf16{bits}) : to_float(f16{bits});
    }
  }
}

}  // namespace

Generation::Generation(const GenerationPlan& plan, transfer::Link& link, transfer::WeightStream& weights,
                       device::Stream& compute, BufferView staging)
    : plan_(plan),
      model_(plan.decode().model()),
      link_(link),
      weights_(weights),
      compute_(compute),
      memory_(link.device().allocate(plan.device_bytes(), "continuing texts")),
      done_(link.device().create_event()),
      cache_(plan.views(GenerationPart::cache, memory_->view())),
      ids_(plan.views(GenerationPart::ids, memory_->view())),
      fields_(plan.views(GenerationPart::fields, memory_->view())),
      rows_(plan.views(GenerationPart::rows, memory_->view())),
      prefill_(plan.views(GenerationPart::prefill, memory_->view())),
      normed_(only(plan.views(GenerationPart::normed, memory_->view()))),
      logits_(only(plan.views(GenerationPart::logits, memory_->view()))),
      scratch_(only(plan.views(GenerationPart::scratch, memory_->view()))) {
  Bytes end = 0;
  const auto cut = [&](Bytes size) {
    const BufferView view = staging.slice(end, size);
    end += size;
    return view;
  };
  for (const BufferView& ids : ids_) staged_ids_.push_back(cut(ids.size));
  for (const BufferView& fields : fields_) staged_fields_.push_back(cut(fields.size));
  staged_logits_ = cut(logits_.size);
  for (int layer = 0; layer < model_.layers(); ++layer) order_.push_back(layer);
  link_.device().fill_zero(compute_, memory_->view());
}

Generation::~Generation() { link_.quiesce(compute_); }

// Rows that are not used have a place of their own, so that tables are read within their bounds, and see nothing.
void Generation::upload(std::size_t index, std::span<const std::int32_t> tokens, std::span<const std::int32_t> places,
                        std::span<const bool> used) {
  const std::span<std::int32_t> ids = integers(staged_ids_[index]), fields = integers(staged_fields_[index]);
  const std::size_t rows = ids.size();
  std::fill(ids.begin(), ids.end(), 0);
  std::fill(fields.begin(), fields.end(), 0);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    if (!used[row]) continue;
    ids[row] = tokens[row];
    fields[static_cast<std::size_t>(RowField::position) * rows + row] = places[row];
    fields[static_cast<std::size_t>(RowField::end) * rows + row] = places[row] + 1;
  }
  link_.to_device(Traffic::batch, compute_, ids_[index], staged_ids_[index]);
  link_.to_device(Traffic::batch, compute_, fields_[index], staged_fields_[index]);
}

void Generation::launch(const device::Executable& program, int layer, Bindings bindings) {
  bindings[Region::scratch] = scratch_;
  link_.device().annotate(compute_, layer, 0);
  const std::uint32_t id = model_.layout.layers[static_cast<std::size_t>(layer)].id;
  link_.device().launch(compute_, program, bindings,
                        {.step = static_cast<std::uint32_t>(version_),
                         .layer = id,
                         .training = false,
                         .first_token = model_.first_token(layer)});
}

// An embedding's layer makes activations[current]; a block reads that and makes the next one. `index`: of ids and
// fields. `text`: whose part of the cache is used; -1: all.
void Generation::below_head(const GenerationPrograms& programs, int layer, BufferView wire, std::size_t index,
                            std::int64_t text, std::size_t& current, std::span<BufferView> activations) {
  Bindings bindings;
  bindings[Region::weights] = wire;
  bindings[Region::tokens] = ids_[index];
  bindings[Region::rows] = fields_[index];
  if (layer < model_.block(1)) {
    bindings[Region::output] = bindings[Region::carry] = activations[current];
    return launch(programs.forward(layer), layer, bindings);
  }
  const BufferView cache = cache_[static_cast<std::size_t>(layer - model_.block(1))];
  const Bytes each = cache.size / static_cast<Bytes>(plan_.texts());
  bindings[Region::cache] = text < 0 ? cache : cache.slice(static_cast<Bytes>(text) * each, each);
  bindings[Region::input] = activations[current];
  bindings[Region::output] = activations[1 - current];
  launch(programs.forward(layer), layer, bindings);
  current = 1 - current;
}

void Generation::synchronize() {
  link_.device().record(*done_, compute_);
  link_.device().synchronize(*done_);
}

// Reads rows_[0]. A head in chunks begins with a norm, which the chunks read.
void Generation::head(int layer, BufferView wire, std::span<const std::size_t> texts, const TakeTextLogits& take) {
  const bool only_norm = model_.head_in_chunks() && layer == model_.head();
  const std::int64_t first = model_.first_token(layer);
  const std::int64_t tokens = std::min(model_.logits_tokens(), model_.vocabulary - first);
  const Bytes row = static_cast<Bytes>(tokens) * size_of(model_.compute);
  const BufferView logits = logits_.slice(0, only_norm ? 0 : row * static_cast<Bytes>(plan_.texts()));
  Bindings bindings;
  bindings[Region::weights] = wire;
  bindings[Region::input] = rows_[0];
  bindings[Region::normed] = normed_;
  bindings[Region::output] = only_norm ? normed_ : logits;
  launch(plan_.decode().logits(layer), layer, bindings);
  if (only_norm) return;
  const BufferView staged = staged_logits_.slice(0, logits.size);
  link_.to_host(Traffic::results, compute_, staged, logits);
  synchronize();
  std::vector<float> values(static_cast<std::size_t>(tokens));
  for (const std::size_t text : texts) {
    widen(model_.compute, staged.slice(static_cast<Bytes>(text) * row, row), values);
    for (float& value : values) {
      if (model_.logit_softcap > 0) value = model_.logit_softcap * std::tanh(value / model_.logit_softcap);
    }
    take(text, first, values);
  }
}

// below(layer, wire) enqueues a layer below the head; the last one leaves the rows of the texts in rows_[0].
template <typename Below>
void Generation::pass(std::uint64_t version, std::span<const std::size_t> texts, const TakeTextLogits& take,
                      const Below& below) {
  version_ = version;
  weights_.begin_pass(order_, version, transfer::PassOf::this_device);
  for (const LayerIndex layer : order_) {
    const Visit visit = weights_.next(compute_);
    layer < model_.head() ? below(layer, visit.wire) : head(layer, visit.wire, texts, take);
    weights_.release(visit, compute_);
  }
}

// All texts share one more activation: what a block has read is where it writes for the next text.
void Generation::run_texts(std::uint64_t version, std::span<const TextTokens> texts, const TakeTextLogits& take) {
  std::vector<std::size_t> numbers;
  for (const TextTokens& each : texts) {
    numbers.push_back(each.text);
    std::vector<std::int32_t> places(each.tokens.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int32_t>(i);
    const std::unique_ptr<bool[]> used(new bool[places.size()]);
    std::fill_n(used.get(), places.size(), true);
    upload(each.text, each.tokens, places, {used.get(), places.size()});
  }
  const Bytes row = static_cast<Bytes>(model_.hidden) * size_of(model_.compute);
  pass(version, numbers, take, [&](int layer, BufferView wire) {
    for (const TextTokens& each : texts) {
      std::size_t current = 0;
      BufferView pair[] = {prefill_[each.text], prefill_.back()};
      below_head(plan_.prefill(), layer, wire, each.text, static_cast<std::int64_t>(each.text), current, pair);
      if (current == 1) std::swap(prefill_[each.text], prefill_.back());
      if (layer + 1 < model_.head()) continue;
      const BufferView last = prefill_[each.text].slice(static_cast<Bytes>(each.tokens.size() - 1) * row, row);
      link_.device().copy(compute_, rows_[0].slice(static_cast<Bytes>(each.text) * row, row), last);
    }
  });
}

void Generation::run_rows(std::uint64_t version, std::span<const NextToken> rows, const TakeTextLogits& take) {
  const auto texts = static_cast<std::size_t>(plan_.texts());
  std::vector<std::size_t> numbers;
  std::vector<std::int32_t> tokens(texts), places(texts);
  const std::unique_ptr<bool[]> used(new bool[texts]());
  for (const NextToken& next : rows) {
    numbers.push_back(next.text);
    tokens[next.text] = next.token;
    places[next.text] = static_cast<std::int32_t>(next.place) - (fault_point("generation.overwrite_row") ? 1 : 0);
    used[next.text] = true;
  }
  upload(texts, tokens, places, {used.get(), texts});
  std::size_t current = model_.blocks() % 2 == 0 ? 0 : 1;  // so that the last block writes rows_[0]
  BufferView pair[] = {rows_[0], rows_[1]};
  pass(version, numbers, take,
       [&](int layer, BufferView wire) { below_head(plan_.decode(), layer, wire, texts, -1, current, pair); });
}

}  // namespace l2l::runtime
