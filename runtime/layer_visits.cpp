#include "runtime/layer_visits.h"

#include <algorithm>

#include "core/activity.h"

namespace l2l::runtime {

using device::BufferView;
using transfer::StashItem;

LayerVisits::LayerVisits(const ExecutorResources& resources)
    : runner_(resources.runner),
      stash_(resources.stash),
      saved_(resources.saved),
      gradients_(resources.gradients),
      model_(resources.runner.model()),
      compute_(resources.runner.compute()),
      first_block_(model_.block(1)),
      head_(model_.head()),
      head_in_chunks_(model_.head_in_chunks()),
      live_(static_cast<int>(resources.input_gradients.size()) - 1),
      input_gradients_(resources.input_gradients) {
  while (lowest_embedding_ < first_block_ && !model_.visited_again(lowest_embedding_)) ++lowest_embedding_;
  for (int block = head_ - 1; block >= std::max(first_block_, model_.lowest_visited()); --block) {
    if (model_.rebuilds(block)) continue;
    for (int u = 0; u < live_; ++u) backward_order_.push_back({block, u});
  }
}

void LayerVisits::begin_forward(bool keep) {
  stash_.begin_forward(keep);
  saved_.begin_forward(keep);
  input_gradients_.restart();
}

void LayerVisits::made(StashItem item, int microbatch) {
  stash_.made(item, compute_, needed(item.layer, runner_.model_of(microbatch).activation_bytes(item.layer)));
}

void LayerVisits::begin_backward() {
  stash_.begin_backward(backward_order_, compute_);
  saved_.begin_backward(backward_order_, compute_);
}

void LayerVisits::forward(int layer, int microbatch, BufferView wire) {
  const ActivitySpan span(Doing::acts, "a forward visit", layer);
  if (layer < first_block_) return embedding_forward(layer, microbatch, wire);
  if (layer < head_) return block_forward(layer, microbatch, wire);
  if (layer == head_) return head_forward(microbatch, wire);
  runner_.forward(layer, microbatch,
                  {.wire = wire, .normed = normed(microbatch), .carry = runner_.carry(live(microbatch))});
}

// Each layer of the embedding adds its rows to what those before it have made: in the input of block 1 itself, or in
// memory of its own where that has another shape.
void LayerVisits::embedding_forward(int layer, int microbatch, BufferView wire) {
  const StashItem item = input_of(first_block_, microbatch);
  const BufferView output = layer == 0 ? stash_.make(item, compute_) : stash_.read(item);
  const BufferView rows = model_.embedding_carries() ? input_gradients_.incoming(live(microbatch)) : output;
  runner_.forward(layer, microbatch, {.wire = wire, .output = output, .carry = rows});
  if (layer + 1 == first_block_) made(item, microbatch);
}

void LayerVisits::block_forward(int block, int microbatch, BufferView wire) {
  const StashItem input = input_of(block, microbatch), output = input_of(block + 1, microbatch);
  const BufferView room = stash_.make(output, compute_), saved = saved_.make(input, compute_);
  runner_.forward(block, microbatch, {.wire = wire, .input = stash_.read(input), .output = room, .saved = saved});
  made(output, microbatch);
  stash_.read_done(input, compute_);
  saved_.made(input, compute_, needed(block, runner_.model_of(microbatch).saved_bytes(block)));
  saved_.read_done(input, compute_);
}

// All of a head that is one layer; of one in chunks the norm, before the chunks gather the softmax of every row.
void LayerVisits::head_forward(int microbatch, BufferView wire) {
  const BufferView input = stash_.read(input_of(head_, microbatch));
  if (!head_in_chunks_) {
    return runner_.forward(head_, microbatch,
                           {.wire = wire, .input = input, .output = runner_.label_logits(microbatch)});
  }
  runner_.device().fill_zero(compute_, runner_.carry(live(microbatch)));
  runner_.forward(head_, microbatch, {.wire = wire, .input = input, .output = normed(microbatch)});
}

void LayerVisits::end_forward(int microbatch) { stash_.read_done(input_of(head_, microbatch), compute_); }

void LayerVisits::backward(int layer, int microbatch, BufferView wire, BufferView gradients) {
  const ActivitySpan span(Doing::acts, "a backward visit", layer);
  if (layer < first_block_) return embedding_backward(layer, microbatch, gradients);
  if (layer > head_) {
    return runner_.backward(
        layer, microbatch,
        {.wire = wire, .gradients = gradients, .normed = normed(microbatch), .carry = runner_.carry(live(microbatch))});
  }
  if (layer == head_) {
    head_backward(microbatch, wire, gradients);
  } else if (model_.rebuilds(layer)) {
    reversible_backward(layer, microbatch, wire, gradients);
  } else {
    block_backward(layer, microbatch, wire, gradients);
  }
  if (live(microbatch) + 1 == live_) input_gradients_.advance();
}

// Of a head in chunks the norm, after the chunks.
void LayerVisits::head_backward(int microbatch, BufferView wire, BufferView gradients) {
  const StashItem input = input_of(head_, microbatch);
  runner_.backward(head_, microbatch,
                   {.wire = wire,
                    .input = stash_.read(input),
                    .input_gradient = input_gradients_.outgoing(live(microbatch)),
                    .gradients = gradients,
                    .carry = runner_.carry(live(microbatch))});
  const bool last_block_reads = model_.rebuilds(head_ - 1) && model_.visited_again(head_ - 1);
  if (!last_block_reads) stash_.read_done(input, compute_);
}

// Recomputes from the block's input and what was saved beside it.
void LayerVisits::block_backward(int block, int microbatch, BufferView wire, BufferView gradients) {
  const StashItem input = input_of(block, microbatch);
  if (model_.rebuilds(block + 1)) stash_.read_done(input_of(block + 1, microbatch), compute_);
  runner_.backward(block, microbatch,
                   {.wire = wire,
                    .input = stash_.fetch(input, compute_),
                    .saved = saved_.fetch(input, compute_),
                    .output_gradient = input_gradients_.incoming(live(microbatch)),
                    .input_gradient = input_gradients_.outgoing(live(microbatch)),
                    .gradients = gradients});
  stash_.fetch_done(input, compute_);
  saved_.fetch_done(input, compute_);
}

// Rebuilds the block's input from its output; nothing was stashed.
void LayerVisits::reversible_backward(int block, int microbatch, BufferView wire, BufferView gradients) {
  const StashItem input = input_of(block, microbatch), output = input_of(block + 1, microbatch);
  const BufferView rebuilt = stash_.make(input, compute_);
  runner_.backward(block, microbatch,
                   {.wire = wire,
                    .input = stash_.read(output),
                    .output = rebuilt,
                    .output_gradient = input_gradients_.incoming(live(microbatch)),
                    .input_gradient = input_gradients_.outgoing(live(microbatch)),
                    .gradients = gradients});
  made(input, microbatch);
  stash_.read_done(output, compute_);
  if (!is_taken_below(block)) stash_.read_done(input, compute_);
}

// Reads a rebuilt output only to measure how far it has drifted.
void LayerVisits::embedding_backward(int layer, int microbatch, BufferView gradients) {
  const StashItem output = input_of(first_block_, microbatch);
  runner_.backward(layer, microbatch,
                   {.input = model_.drifts() ? stash_.read(output) : BufferView{},
                    .output_gradient = input_gradients_.incoming(live(microbatch)),
                    .gradients = gradients});
  if (layer == lowest_embedding_ && model_.rebuilds(first_block_)) stash_.read_done(output, compute_);
}

void LayerVisits::predict(int layer, const Rows& rows, BufferView wire, const LayerRunner::TakeRow& take) {
  const BufferView input = stash_.read(input_of(head_, 0));
  const Bytes row_bytes = static_cast<Bytes>(model_.hidden) * size_of(model_.compute);
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    if (rows.hidden) {
      if (layer == head_) take(row, 0, runner_.row_of(input, row));
      continue;
    }
    const BufferView own =
        head_in_chunks_ ? normed(0).slice(static_cast<Bytes>(row) * row_bytes, row_bytes) : BufferView{};
    runner_.predict(layer, row, wire, runner_.row_of(input, row), own, take);
  }
}

void LayerVisits::zero(BufferView gradients) {
  if (gradients.size > 0) runner_.device().fill_zero(compute_, gradients);
}

void LayerVisits::add_gradients(int layer, BufferView sums, BufferView others) {
  if (model_.trained(layer)) runner_.add_gradients(layer, sums, others);
}

void LayerVisits::send_gradients(int layer, BufferView gradients) {
  if (!model_.trained(layer)) return;
  runner_.round_gradients(layer, gradients, gradients_.acquire(layer, compute_));
  gradients_.drain(compute_);
}

}  // namespace l2l::runtime
