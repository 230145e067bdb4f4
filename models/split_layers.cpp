#include "models/split_layers.h"

#include <algorithm>

#include "core/dtype.h"
#include "l2l/errors.h"

namespace l2l::models {
namespace {

using compiler::GraphBuilder;
using compiler::OpKind;
using compiler::ValueId;

// Why a model of this kind cannot be split; empty: it can.
std::string unsplittable(const TransformerShape& shape) {
  if (shape.head_kind != HeadKind::language) return "its head does not predict tokens";
  if (!shape.blocks.empty() || shape.reserve) return "model.blocks lists its layers";
  if (shape.streams()) return "model.reversible is set";
  if (shape.core_attention) return "model.attention = \"core\"";
  if (shape.lora.rank > 0) return "it has adapters (lora.rank)";
  if (!shape.train.empty()) return "optimizer.train leaves parameters out";
  if (shape.cache > 0) return "it continues texts";
  return "";
}

}  // namespace

void check_split(const TransformerShape& shape) {
  if (!shape.split()) return;
  const std::int64_t count = shape.shard.count;
  const std::string over = " over " + std::to_string(count) + " devices";
  if (const std::string reason = unsplittable(shape); !reason.empty()) {
    throw BadInput("a model cannot be split" + over + " where " + reason);
  }
  const auto require = [&](std::int64_t size, const std::string& what) {
    if (size % count == 0) return;
    throw BadInput(std::to_string(size) + " " + what + " cannot be split" + over + ": choose a divisor of them");
  };
  require(shape.heads, "heads (model.heads)");
  if (shape.kv_heads > 0 && shape.kv_heads % count != 0 && count % shape.kv_heads != 0) {
    throw BadInput(std::to_string(shape.kv_heads) + " heads of keys and values (model.kv_heads) cannot be split" +
                   over + ", nor can each device have one of them: choose a divisor or a multiple of them");
  }
  require(shape.intermediate, "columns of the MLP (model.intermediate)");
  require(shape.rows(), "rows of a microbatch (batch.micro_batch x model.sequence)");
  TransformerShape last = shape;
  last.shard.index = shape.shard.count - 1;
  if (own_tokens(last).count < 1) {
    throw BadInput("a vocabulary of " + std::to_string(shape.vocabulary) + " tokens cannot be split" + over +
                   ", each with a multiple of 8 tokens but for the last");
  }
}

ValueId gather_rows(GraphBuilder& graph, ValueId x, const TransformerShape& shape) {
  if (!shape.split() || shape.whole_rows) return x;
  return graph.apply(OpKind::all_gather_rows, {x}, {.shard = shape.shard});
}

ValueId sum_rows(GraphBuilder& graph, ValueId x, const TransformerShape& shape) {
  if (!shape.split()) return x;
  const ValueId own = graph.apply(OpKind::reduce_scatter_rows, {x}, {.shard = shape.shard});
  return shape.whole_rows ? graph.apply(OpKind::all_gather_rows, {own}, {.shard = shape.shard}) : own;
}

std::optional<ValueId> bias_of_sums(LayerWeights& weights, const std::string& name, std::int64_t columns,
                                    const TransformerShape& shape) {
  return shape.split() ? weights.row(name, columns, Initial::zeros) : weights.vector(name, columns, Initial::zeros);
}

TokenRange own_tokens(const TransformerShape& shape) {
  const std::int64_t count = shape.shard.count, index = shape.shard.index;
  if (count == 1) return {0, shape.vocabulary};
  const std::int64_t share = compiler::largest_token_share(shape.vocabulary, count);
  return {index * share, std::min(share, shape.vocabulary - index * share)};
}

ValueId look_up_rows(GraphBuilder& graph, ValueId tokens, ValueId table, float factor, const TransformerShape& shape) {
  const ValueId found =
      graph.apply(OpKind::lookup, {tokens, table},
                  {.first = own_tokens(shape).first, .vocabulary = shape.vocabulary, .shard = shape.shard});
  const ValueId rows = sum_rows(graph, found, shape);
  return factor == 1 ? rows : graph.scale(rows, rounded_to(shape.compute, factor));
}

}  // namespace l2l::models
