#include "compiler/ir/op_table.h"

#include <array>
#include <limits>

#include "l2l/errors.h"

namespace l2l::compiler {
namespace {

constexpr std::uint32_t kRngOps = 256;  // RngKey::op

void require(bool condition, const std::string& message) {
  if (!condition) throw BadInput(message);
}

void require_sequences(const Attributes& attributes, const Sizes& sizes) {
  require(attributes.sequence >= 1 && sizes['R'] % attributes.sequence == 0,
          "R = " + std::to_string(sizes['R']) + " rows are no whole number of sequences of " +
              std::to_string(attributes.sequence));
}

void require_shard(const Attributes& attributes, Sizes&) {
  const auto& [count, index] = attributes.shard;
  require(count >= 1 && index >= 0 && index < count,
          "share " + std::to_string(index) + " of " + std::to_string(count) + " of a split layer");
}

// Where rows are split, P are those of all devices.
void derive_embedding(const Attributes& attributes, Sizes& sizes) {
  const std::int64_t sequence = attributes.sequence;
  require_shard(attributes, sizes);
  sizes.set('P', sizes['R'] * attributes.shard.count);
  require(
      sequence >= 1 && sizes['P'] % sequence == 0,
      "R = " + std::to_string(sizes['P']) + " rows are no whole number of sequences of " + std::to_string(sequence));
  require(sizes['S'] == 0 || sequence <= sizes['S'], "a sequence of " + std::to_string(sequence) +
                                                         " is longer than the S = " + std::to_string(sizes['S']) +
                                                         " positions");
}

void require_chunk(const Attributes& attributes, Sizes& sizes) {
  require(attributes.vocabulary >= sizes['V'],
          "a vocabulary of " + std::to_string(attributes.vocabulary) +
              " tokens is smaller than its chunk of V = " + std::to_string(sizes['V']));
}

// Of a table that is split, all tokens.
void require_vocabulary(const Attributes& attributes, Sizes& sizes) {
  require_shard(attributes, sizes);
  require(
      attributes.shard.count == 1 || (attributes.first >= 0 && attributes.first <= attributes.vocabulary - sizes['V']),
      "tokens " + std::to_string(attributes.first) + " to " + std::to_string(attributes.first + sizes['V']) +
          " of a vocabulary of " + std::to_string(attributes.vocabulary));
}

void derive_all_gather(const Attributes& attributes, Sizes& sizes) {
  require_shard(attributes, sizes);
  sizes.set('R', sizes['M'] * attributes.shard.count);
}

void derive_reduce_scatter(const Attributes& attributes, Sizes& sizes) {
  require_shard(attributes, sizes);
  require(sizes['R'] % attributes.shard.count == 0, "R = " + std::to_string(sizes['R']) +
                                                        " rows cannot be split over " +
                                                        std::to_string(attributes.shard.count) + " devices");
  sizes.set('M', sizes['R'] / attributes.shard.count);
}

void require_tree(const Attributes&, Sizes& sizes) {
  require(sizes['R'] <= kMostTreeRows, "a tree of R = " + std::to_string(sizes['R']) + " rows, and " +
                                           std::to_string(kMostTreeRows) + " are possible");
}

// A row's statistics are T = 3 numbers.
void derive_statistics(const Attributes&, Sizes& sizes) { sizes.set('T', 3); }

void derive_softmax_statistics(const Attributes& attributes, Sizes& sizes) {
  require_chunk(attributes, sizes);
  derive_statistics(attributes, sizes);
}

void derive_layer_norm(const Attributes& attributes, Sizes&) {
  require(attributes.epsilon > 0, "epsilon " + std::to_string(attributes.epsilon) + " must be above 0");
}

void derive_matmul(const Attributes& attributes, Sizes& sizes) {
  sizes.set('M', sizes[attributes.transpose_a ? 'B' : 'A']);
  sizes.set('K', sizes[attributes.transpose_a ? 'A' : 'B']);
  sizes.set('K', sizes[attributes.transpose_b ? 'D' : 'C']);
  sizes.set('N', sizes[attributes.transpose_b ? 'C' : 'D']);
}

void derive_dropout(const Attributes& attributes, Sizes& sizes) {
  require_shard(attributes, sizes);
  require(attributes.probability >= 0 && attributes.probability < 1,
          "dropout probability " + std::to_string(attributes.probability) + " must be in [0, 1)");
  require(attributes.probability == 0 || attributes.rng_op < kRngOps, "more than 255 random ops in one layer");
}

void derive_add_norm(const Attributes& attributes, Sizes& sizes) {
  derive_dropout(attributes, sizes);
  derive_layer_norm(attributes, sizes);
}

// The Q columns are `heads` queries, then kv_heads(attributes) keys and as many values. Returns the size of a head.
std::int64_t derive_heads(const Attributes& attributes, const Sizes& sizes) {
  const int heads = attributes.heads, shared = kv_heads(attributes);
  require(heads >= 1 && shared >= 1 && heads % shared == 0,
          std::to_string(heads) + " heads do not share " + std::to_string(shared) + " key and value heads evenly");
  const std::int64_t all = heads + 2 * static_cast<std::int64_t>(shared);
  require(sizes['Q'] % all == 0, "Q = " + std::to_string(sizes['Q']) + " columns of qkv do not hold " +
                                     std::to_string(heads) + " + 2 x " + std::to_string(shared) + " heads");
  return sizes['Q'] / all;
}

// Documents are L = 2 numbers per row.
void derive_scores(const Attributes& attributes, Sizes& sizes) {
  sizes.set('L', 2);
  require(attributes.window >= 0 && (attributes.window == 0 || attributes.causal),
          "a window of " + std::to_string(attributes.window) + " rows needs causal attention");
  require(attributes.scale >= 0 && attributes.softcap >= 0, "scale and softcap must not be negative");
}

void derive_attention(const Attributes& attributes, Sizes& sizes) {
  derive_dropout(attributes, sizes);
  derive_scores(attributes, sizes);
  sizes.set('H', derive_heads(attributes, sizes) * attributes.heads);
  sizes.set('D', attributes.heads);
  require_sequences(attributes, sizes);
}

void derive_core_attention(const Attributes& attributes, Sizes& sizes) {
  derive_scores(attributes, sizes);
  sizes.set('H', derive_heads(attributes, sizes) * attributes.heads);
  require_sequences(attributes, sizes);
  sizes.set('S', attributes.sequence);
  sizes.set('P', sizes['R'] * attributes.heads);
}

// Of N = R / sequence sequences.
void derive_cached_attention(const Attributes& attributes, Sizes& sizes) {
  derive_scores(attributes, sizes);
  const std::int64_t head = derive_heads(attributes, sizes);
  sizes.set('H', head * attributes.heads);
  require_sequences(attributes, sizes);
  require(attributes.capacity >= 1, "a cache of " + std::to_string(attributes.capacity) + " rows has no room");
  sizes.set('C', sizes['R'] / attributes.sequence * attributes.capacity);
  sizes.set('W', 2 * head * kv_heads(attributes));
}

void derive_head_norm(const Attributes& attributes, Sizes& sizes) {
  derive_layer_norm(attributes, sizes);
  sizes.set('D', derive_heads(attributes, sizes));
  sizes.set('K', attributes.heads + kv_heads(attributes));
}

void derive_rotary(const Attributes& attributes, Sizes& sizes) {
  const std::int64_t head = derive_heads(attributes, sizes);
  require(head % 2 == 0, "heads of " + std::to_string(head) + " elements are not made of pairs");
  require(attributes.rotary_base > 1, "a base of " + std::to_string(attributes.rotary_base) + " must be above 1");
  require_sequences(attributes, sizes);
}

void derive_swiglu(const Attributes&, Sizes& sizes) {
  require(sizes['G'] % 2 == 0, "G = " + std::to_string(sizes['G']) + " columns are not gate and up");
  sizes.set('I', sizes['G'] / 2);
}

void derive_columns(const Attributes& attributes, Sizes& sizes) {
  if (attributes.columns > 0) sizes.set('K', attributes.columns);
  require(attributes.first >= 0 && attributes.first <= sizes['N'] - sizes['K'],
          "columns " + std::to_string(attributes.first) + " to " + std::to_string(attributes.first + sizes['K']) +
              " of N = " + std::to_string(sizes['N']));
}

void derive_reshape(const Attributes& attributes, Sizes& sizes) {
  require(
      attributes.columns >= 0 && (attributes.columns == 0 || sizes['E'] % attributes.columns == 0),
      std::to_string(sizes['E']) + " elements are no whole number of rows of " + std::to_string(attributes.columns));
}

void derive_pad_columns(const Attributes& attributes, Sizes& sizes) {
  sizes.set('N', attributes.columns);
  derive_columns({.first = attributes.first}, sizes);
}

void derive_unpack(const Attributes& attributes, Sizes& sizes) {
  const auto& [rows, its_rows, columns, one] = attributes.dims;
  require(attributes.word_element != WordElement::whole && one == 1,
          "unpack: of numbers that share words, in three dims");
  sizes.set('R', rows);
  sizes.set('K', words_for(attributes.word_element, its_rows * columns));
  sizes.set('M', rows * its_rows);
  sizes.set('N', columns);
}

std::int64_t elements_of(const Attributes& attributes) {
  Shape shape;
  for (const std::int64_t dim : attributes.dims) shape.push_back(dim);
  return shape.elements();
}

// Of the dimensions that are kept.
std::int64_t kept_elements(const Attributes& attributes) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < attributes.dims.size(); ++i) {
    if ((attributes.kept >> i & 1u) != 0) elements *= attributes.dims[i];
  }
  return elements;
}

// `rows` and `columns` of a matrix that stands for `dims`.
void require_dims(const Attributes& attributes, Sizes& sizes, char rows, char columns) {
  sizes.set(columns, attributes.dims[3]);
  sizes.set(rows, elements_of(attributes) / attributes.dims[3]);
}

void derive_permute(const Attributes& attributes, Sizes& sizes) {
  require_dims(attributes, sizes, 'R', 'N');
  unsigned seen = 0;
  for (const std::uint8_t axis : attributes.axes) seen |= axis < 4 ? 1u << axis : 0u;
  require(seen == 0xfu, "the axes name each of four dimensions once");
  const std::int64_t columns = attributes.dims[attributes.axes[3]];
  sizes.set('K', columns);
  sizes.set('M', sizes['R'] * sizes['N'] / columns);
}

void derive_broadcast(const Attributes& attributes, Sizes& sizes) {
  require_dims(attributes, sizes, 'M', 'K');
  if (sizes['E'] != 0) sizes.set('E', kept_elements(attributes));
}

void derive_sum(const Attributes& attributes, Sizes& sizes) {
  require_dims(attributes, sizes, 'M', 'K');
  const std::int64_t columns = (attributes.kept >> 3 & 1u) != 0 ? attributes.dims[3] : 1;
  sizes.set('Q', columns);
  sizes.set('P', kept_elements(attributes) / columns);
}

void derive_gather(const Attributes& attributes, Sizes& sizes) {
  const std::int64_t samples = attributes.dims[0];
  require(samples >= 1 && attributes.dims[1] >= 1 && sizes['M'] % samples == 0,
          std::to_string(sizes['M']) + " indices of " + std::to_string(samples) + " samples");
  sizes.set('R', samples * attributes.dims[1]);
}

// Sets R and M, the rows of the image and of what its windows give, and C.
void derive_window(const Attributes& attributes, Sizes& sizes) {
  const Window& window = attributes.image_window;
  require_dims(attributes, sizes, 'R', 'C');
  std::int64_t rows = attributes.dims[0];
  for (const std::size_t side : {0u, 1u}) {
    require(window.size[side] >= 1 && window.stride[side] >= 1 && window.dilation[side] >= 1,
            "size, stride and dilation of a window are 1 or more");
    require(window.padding[side] >= 0 &&
                window.padding[side] <= window.dilation[side] * (std::int64_t{window.size[side]} - 1),
            "the padding of a window is below its extent");
    const std::int64_t extent = window.dilation[side] * (std::int64_t{window.size[side]} - 1) + 1;
    const std::int64_t room = attributes.dims[1 + side] + std::int64_t{2} * window.padding[side];
    const std::int64_t places = extent <= room ? window.places(side, attributes.dims[1 + side]) : 0;
    require(places >= 1, "a window of " + std::to_string(window.size[side]) + " does not fit into " +
                             std::to_string(attributes.dims[1 + side]) + " elements");
    rows *= places;
  }
  sizes.set('M', rows);
}

void derive_depthwise(const Attributes& attributes, Sizes& sizes) {
  derive_window(attributes, sizes);
  sizes.set('W', std::int64_t{attributes.image_window.size[0]} * attributes.image_window.size[1]);
}

// Of what each window covers there must be a largest element.
void derive_max_pool(const Attributes& attributes, Sizes& sizes) {
  derive_window(attributes, sizes);
  for (const std::size_t side : {0u, 1u}) {
    require(attributes.image_window.padding[side] == 0 ||
                attributes.dims[1 + side] >= attributes.image_window.dilation[side],
            "a window covers padding alone");
  }
}

void derive_unfold(const Attributes& attributes, Sizes& sizes) {
  derive_window(attributes, sizes);
  sizes.set('K', std::int64_t{attributes.image_window.size[0]} * attributes.image_window.size[1] * sizes['C']);
}

void derive_upsample(const Attributes& attributes, Sizes& sizes) {
  require_dims(attributes, sizes, 'R', 'C');
  std::int64_t rows = attributes.dims[0];
  for (const std::size_t side : {0u, 1u}) {
    const std::int64_t factor = attributes.image_window.stride[side], extent = attributes.dims[1 + side];
    require(factor >= 1, "an image is made larger by a factor of 1 or more");
    require(
        2 * extent <= std::numeric_limits<std::int32_t>::max() / factor,
        std::to_string(extent) + " elements are too many to make them " + std::to_string(factor) + " times as many");
    rows *= extent * factor;
  }
  sizes.set('M', rows);
}

void derive_group_norm(const Attributes& attributes, Sizes& sizes) {
  derive_layer_norm(attributes, sizes);
  require_dims(attributes, sizes, 'R', 'C');
  require(attributes.groups >= 1 && sizes['C'] % attributes.groups == 0,
          std::to_string(sizes['C']) + " channels are not made of " + std::to_string(attributes.groups) + " groups");
  sizes.set('S', attributes.dims[0]);
  sizes.set('G', attributes.groups);
}

void require_group_for_each_channel(const Attributes& attributes, const Sizes& sizes) {
  require(attributes.dims[0] == 1 && attributes.dims[3] == sizes['C'] && attributes.groups == sizes['C'],
          "takes one sample, of a group for each channel");
}

void derive_batch_norm(const Attributes& attributes, Sizes& sizes) {
  derive_group_norm(attributes, sizes);
  require_group_for_each_channel(attributes, sizes);
}

void derive_batch_statistics(const Attributes& attributes, Sizes& sizes) {
  derive_layer_norm(attributes, sizes);
  require_group_for_each_channel(attributes, sizes);
  require(attributes.dims[1] * attributes.dims[2] > 1, "a microbatch of one row has no variance");
}

// Sums over rows are f32; so are a norm's statistics and attention's logsumexp (D: heads).
constexpr Slot accumulator(std::string_view name, std::string_view dims) { return {name, dims, SlotType::f32, true}; }
// The gradient of a parameter, which may be frozen.
constexpr Slot trained(std::string_view name, std::string_view dims) { return {name, dims, SlotType::f32, true, true}; }

void derive_custom(const Attributes& attributes, Sizes& sizes) {
  require(attributes.custom.op != nullptr, "there is no function");
  require(attributes.columns >= 1, "the result has no columns");
  sizes.set('D', attributes.columns);
}

using Table = std::array<OpRule, static_cast<std::size_t>(OpKind::count)>;

// In the order of OpKind.
Table make_table() {
  using enum SlotType;
  const Slot loss{"loss", "1", f64};
  const Slot statistics{"statistics", "RT", f64};
  const Slot mean{"mean", "R", f32}, inverse_deviation{"inverse_deviation", "R", f32},
      logsumexp{"logsumexp", "RD", f32};
  const Slot places{"places", "R", i32, false, true}, all_places{"places", "P", i32, false, true};
  const Slot documents{"documents", "LR", i32, false, true};
  const Slot tokens{"tokens", "R", i32}, targets{"targets", "R", i32}, numbers{"targets", "R", f32};
  const Slot inverse_rms{"inverse_rms", "R", f32}, head_inverse_rms{"inverse_rms", "RK", f32};
  const Slot sum{"sum", "RH", compute, false, true};
  const Slot bias{"bias", "V", compute, false, true}, dbias{"dbias", "V", f32, true, true};
  return {{
      {OpKind::embedding, {tokens, {"table", "VH"}, {"positions", "SH"}, all_places}, {{"y", "RH"}}, derive_embedding},
      {OpKind::embedding_backward,
       {tokens, {"dy", "RH"}, all_places},
       {accumulator("dtable", "VH"), accumulator("dpositions", "SH")},
       derive_embedding},
      {OpKind::layer_norm,
       {{"x", "RH"}, {"gain", "H"}, {"bias", "H"}},
       {{"y", "RH"}, mean, inverse_deviation},
       derive_layer_norm},
      {OpKind::layer_norm_backward,
       {{"dy", "RH"}, {"x", "RH"}, {"gain", "H"}, mean, inverse_deviation},
       {{"dx", "RH"}, trained("dgain", "H"), trained("dbias", "H")}},
      {OpKind::matmul, {{"a", "AB"}, {"b", "CD"}, {"bias", "N", compute, false, true}}, {{"y", "MN"}}, derive_matmul},
      {OpKind::bias_gradient, {{"dy", "RN"}}, {accumulator("dbias", "N")}},
      {OpKind::gelu, {{"x", "RH"}}, {{"y", "RH"}}},
      {OpKind::gelu_backward, {{"dy", "RH"}, {"x", "RH"}}, {{"dx", "RH"}}},
      {OpKind::tanh, {{"x", "RH"}}, {{"y", "RH"}}},
      {OpKind::tanh_backward, {{"dy", "RH"}, {"y", "RH"}}, {{"dx", "RH"}}},
      {OpKind::sigmoid, {{"x", "RH"}}, {{"y", "RH"}}},
      {OpKind::sigmoid_backward, {{"dy", "RH"}, {"y", "RH"}}, {{"dx", "RH"}}},
      {OpKind::silu, {{"x", "RH"}}, {{"y", "RH"}}},
      {OpKind::silu_backward, {{"dy", "RH"}, {"x", "RH"}}, {{"dx", "RH"}}},
      {OpKind::hard_sigmoid, {{"x", "RH"}}, {{"y", "RH"}}},
      {OpKind::hard_sigmoid_backward, {{"dy", "RH"}, {"x", "RH"}}, {{"dx", "RH"}}},
      {OpKind::hard_swish, {{"x", "RH"}}, {{"y", "RH"}}},
      {OpKind::hard_swish_backward, {{"dy", "RH"}, {"x", "RH"}}, {{"dx", "RH"}}},
      {OpKind::relu, {{"x", "RH"}}, {{"y", "RH"}}},
      {OpKind::relu_backward, {{"dy", "RH"}, {"y", "RH"}}, {{"dx", "RH"}}},
      {OpKind::attention, {{"qkv", "RQ"}, documents}, {{"y", "RH"}, logsumexp}, derive_attention},
      {OpKind::attention_backward,
       {{"dy", "RH"}, {"qkv", "RQ"}, {"y", "RH"}, logsumexp, documents},
       {{"dqkv", "RQ"}},
       derive_attention},
      {OpKind::dropout, {{"x", "RH"}}, {{"y", "RH"}}, derive_dropout},
      {OpKind::add, {{"a", "RH"}, {"b", "RH"}}, {{"y", "RH"}}},
      {OpKind::multiply, {{"a", "RH"}, {"b", "RH"}}, {{"y", "RH"}}},
      {OpKind::add_columns, {{"x", "RN"}, {"y", "RK"}}, {{"z", "RN"}}, derive_columns},
      {OpKind::columns, {{"x", "RN"}}, {{"y", "RK"}}, derive_columns},
      {OpKind::linear_cross_entropy, {{"x", "RH"}, {"table", "VH"}, targets, bias}, {loss}, require_vocabulary},
      {OpKind::linear_cross_entropy_backward,
       {{"x", "RH"}, {"table", "VH"}, targets, bias},
       {loss, {"dx", "RH"}, trained("dtable", "VH"), dbias},
       require_vocabulary},
      {OpKind::squared_error, {{"y", "R1"}, numbers}, {loss}},
      {OpKind::squared_error_backward, {{"y", "R1"}, numbers}, {loss, {"dy", "R1"}}},
      {OpKind::choice_cross_entropy, {{"scores", "R1"}, targets}, {loss}},
      {OpKind::choice_cross_entropy_backward, {{"scores", "R1"}, targets}, {loss, {"dscores", "R1"}}},
      {OpKind::convert, {{"x", "RH", f32}}, {{"y", "RH"}, {"squares", "1", f64, false, true}}},
      {OpKind::accumulate, {{"x", "RH", f32}}, {accumulator("y", "RH")}},
      {OpKind::tree_sum, {{"x", "RH"}}, {{"y", "1H", f32}}, require_tree},
      {OpKind::embedding_rows, {tokens, {"table", "VH"}}, {{"y", "RH", compute, true}}, require_chunk},
      {OpKind::embedding_rows_backward, {tokens, {"dy", "RH"}}, {accumulator("dtable", "VH")}, require_vocabulary},
      {OpKind::add_positions, {{"x", "RH"}, {"positions", "SH"}, all_places}, {{"y", "RH"}}, derive_embedding},
      {OpKind::positions_backward, {{"dy", "RH"}, all_places}, {accumulator("dpositions", "SH")}, derive_embedding},
      {OpKind::softmax_statistics,
       {{"x", "RH"}, {"table", "VH"}, targets, bias},
       {{"statistics", "RT", f64, true}},
       derive_softmax_statistics},
      {OpKind::cross_entropy, {statistics, targets}, {loss}, derive_statistics},
      {OpKind::chunk_cross_entropy_backward,
       {{"x", "RH"}, {"table", "VH"}, targets, statistics, bias},
       {accumulator("dx", "RH"), trained("dtable", "VH"), dbias},
       derive_statistics},
      {OpKind::rms_norm, {{"x", "RH"}, {"gain", "H"}}, {{"y", "RH"}, inverse_rms}, derive_layer_norm},
      {OpKind::rms_norm_backward,
       {{"dy", "RH"}, {"x", "RH"}, {"gain", "H"}, inverse_rms},
       {{"dx", "RH"}, trained("dgain", "H")}},
      {OpKind::head_norm,
       {{"qkv", "RQ"}, {"query_gain", "D"}, {"key_gain", "D"}},
       {{"y", "RQ"}, head_inverse_rms},
       derive_head_norm},
      {OpKind::head_norm_backward,
       {{"dy", "RQ"}, {"qkv", "RQ"}, {"query_gain", "D"}, {"key_gain", "D"}, head_inverse_rms},
       {{"dqkv", "RQ"}, trained("dquery_gain", "D"), trained("dkey_gain", "D")},
       derive_head_norm},
      {OpKind::rotary, {{"qkv", "RQ"}, places}, {{"y", "RQ"}}, derive_rotary},
      {OpKind::swiglu, {{"x", "RG"}}, {{"y", "RI"}}, derive_swiglu},
      {OpKind::swiglu_backward, {{"dy", "RI"}, {"x", "RG"}}, {{"dx", "RG"}}, derive_swiglu},
      {OpKind::attention_probabilities, {{"qkv", "RQ"}, documents}, {{"probabilities", "PS"}}, derive_core_attention},
      {OpKind::attention_probabilities_backward,
       {{"dprobabilities", "PS"}, {"probabilities", "PS"}, {"qkv", "RQ"}, {"other", "RQ", compute, false, true}},
       {{"dqkv", "RQ"}},
       derive_core_attention},
      {OpKind::attention_mix, {{"probabilities", "PS"}, {"qkv", "RQ"}}, {{"y", "RH"}}, derive_core_attention},
      {OpKind::attention_mix_backward,
       {{"dy", "RH"}, {"probabilities", "PS"}, {"qkv", "RQ"}},
       {{"dprobabilities", "PS"}, {"dqkv", "RQ"}},
       derive_core_attention},
      {OpKind::cached_attention,
       {{"qkv", "RQ"}, {"documents", "LR", i32}},
       {{"y", "RH"}, {"cache", "CW", compute, true}},
       derive_cached_attention},
      {OpKind::split_streams,
       {{"x", "RH"}},
       {{"a", "RH", stream_or_compute}, {"b", "RH", stream_or_compute, false, true}}},
      {OpKind::merge_streams, {{"a", "RH", stream}, {"b", "RH", stream}}, {{"y", "RH"}}},
      {OpKind::read_stream, {{"x", "RH", stream}}, {{"y", "RH"}}},
      {OpKind::reversible_add, {{"x", "RH", stream}, {"b", "RH"}}, {{"y", "RH", stream}}},
      {OpKind::reshape, {{"x", "*", any}}, {{"y", "*", any}}, derive_reshape},
      {OpKind::pad_columns, {{"x", "RK"}}, {{"y", "RN"}}, derive_pad_columns},
      {OpKind::unpack, {{"words", "RK", i32}}, {{"y", "MN"}}, derive_unpack},
      {OpKind::permute, {{"x", "RN"}}, {{"y", "MK"}}, derive_permute},
      {OpKind::broadcast, {{"x", "*"}}, {{"y", "MK"}}, derive_broadcast},
      {OpKind::broadcast_backward, {{"dy", "MK"}}, {accumulator("dx", "*")}, derive_broadcast},
      {OpKind::sum, {{"x", "MK"}}, {{"y", "PQ"}}, derive_sum},
      {OpKind::softmax, {{"x", "RH"}}, {{"y", "RH"}}},
      {OpKind::softmax_backward, {{"dy", "RH"}, {"y", "RH"}}, {{"dx", "RH"}}},
      {OpKind::lookup, {{"indices", "R", i32}, {"table", "VH"}}, {{"y", "RH"}}, require_vocabulary},
      {OpKind::gather, {{"x", "RC"}, {"indices", "M", i32}}, {{"y", "MC"}}, derive_gather},
      {OpKind::gather_backward, {{"indices", "M", i32}, {"dy", "MC"}}, {{"dx", "RC"}}, derive_gather},
      {OpKind::unfold, {{"x", "RC"}}, {{"y", "MK"}}, derive_unfold},
      {OpKind::fold, {{"dy", "MK"}}, {{"dx", "RC"}}, derive_unfold},
      {OpKind::depthwise, {{"x", "RC"}, {"w", "CW"}}, {{"y", "MC"}}, derive_depthwise},
      {OpKind::depthwise_backward,
       {{"dy", "MC"}, {"x", "RC"}, {"w", "CW"}},
       {{"dx", "RC"}, trained("dw", "CW")},
       derive_depthwise},
      {OpKind::max_pool, {{"x", "RC"}}, {{"y", "MC"}}, derive_max_pool},
      {OpKind::max_pool_backward, {{"dy", "MC"}, {"x", "RC"}, {"y", "MC"}}, {{"dx", "RC"}}, derive_max_pool},
      {OpKind::average_pool, {{"x", "RC"}}, {{"y", "MC"}}, derive_window},
      {OpKind::average_pool_backward, {{"dy", "MC"}}, {{"dx", "RC"}}, derive_window},
      {OpKind::upsample, {{"x", "RC"}}, {{"y", "MC"}}, derive_upsample},
      {OpKind::upsample_backward, {{"dy", "MC"}}, {{"dx", "RC"}}, derive_upsample},
      {OpKind::group_norm,
       {{"x", "RC"}, {"gain", "C"}, {"bias", "C"}},
       {{"y", "RC"}, {"mean", "SG", f32}, {"inverse_deviation", "SG", f32}},
       derive_group_norm},
      {OpKind::group_norm_backward,
       {{"dy", "RC"}, {"x", "RC"}, {"gain", "C"}, {"mean", "SG", f32}, {"inverse_deviation", "SG", f32}},
       {{"dx", "RC"}, trained("dgain", "C"), trained("dbias", "C")},
       derive_group_norm},
      {OpKind::batch_norm,
       {{"x", "RC"}, {"gain", "C"}, {"bias", "C"}, {"running_mean", "C"}, {"running_variance", "C"}},
       {{"y", "RC"}, {"mean", "1C", f32}, {"inverse_deviation", "1C", f32}},
       derive_batch_norm},
      {OpKind::batch_statistics,
       {{"mean", "1C", f32}, {"inverse_deviation", "1C", f32}},
       {accumulator("running_mean", "C"), trained("running_variance", "C")},
       derive_batch_statistics},
      {OpKind::row_cross_entropy, {{"logits", "RV"}, targets}, {{"y", "R1", f32}}},
      {OpKind::row_cross_entropy_backward, {{"dy", "R1", f32}, {"logits", "RV"}, targets}, {{"dlogits", "RV"}}},
      {OpKind::sample_loss, {{"parts", "S1"}, {"counts", "S", i32}}, {loss}},
      {OpKind::sample_loss_backward, {{"parts", "S1"}, {"counts", "S", i32}}, {loss, {"dparts", "S1"}}},
      {OpKind::custom, {{"x", "RC"}, {"parameters", "P", compute, false, true}}, {{"y", "RD"}}, derive_custom},
      {OpKind::custom_backward,
       {{"dy", "RD"}, {"x", "RC"}, {"y", "RD"}, {"parameters", "P", compute, false, true}},
       {{"dx", "RC"}, trained("dparameters", "P")},
       derive_custom},
      {OpKind::all_gather_rows, {{"x", "MH"}}, {{"y", "RH"}}, derive_all_gather},
      {OpKind::reduce_scatter_rows, {{"x", "RH"}}, {{"y", "MH"}}, derive_reduce_scatter},
      {OpKind::dropout_add, {{"x", "RH"}, {"residual", "RH"}}, {{"y", "RH"}}, derive_dropout},
      {OpKind::add_layer_norm,
       {{"x", "RH"}, {"residual", "RH"}, {"gain", "H"}, {"bias", "H"}},
       {{"y", "RH"}, mean, inverse_deviation, sum},
       derive_add_norm},
      {OpKind::add_rms_norm,
       {{"x", "RH"}, {"residual", "RH"}, {"gain", "H"}},
       {{"y", "RH"}, inverse_rms, sum},
       derive_add_norm},
      {OpKind::layer_norm_backward_add,
       {{"dy", "RH"}, {"x", "RH"}, {"gain", "H"}, mean, inverse_deviation, {"other", "RH"}},
       {{"dx", "RH"}, trained("dgain", "H"), trained("dbias", "H")}},
      {OpKind::rms_norm_backward_add,
       {{"dy", "RH"}, {"x", "RH"}, {"gain", "H"}, inverse_rms, {"other", "RH"}},
       {{"dx", "RH"}, trained("dgain", "H")}},
      {OpKind::gelu_backward_bias, {{"dy", "RH"}, {"x", "RH"}}, {{"dx", "RH"}, accumulator("dbias", "H")}},
      {OpKind::dropout_bias, {{"dy", "RH"}}, {{"dx", "RH"}, accumulator("dbias", "H")}, derive_dropout},
  }};
}

}  // namespace

void Sizes::set(char letter, std::int64_t size) {
  const std::string name(1, letter);
  if (size < 1) throw BadInput(name + " = " + std::to_string(size) + ", must be at least 1");
  const std::int64_t known = (*this)[letter];
  if (known == size) return;
  if (known != 0) {
    throw BadInput(name + " = " + std::to_string(known) + " of one operand is " + std::to_string(size) + " of another");
  }
  sizes_[index(letter)] = size;
}

const OpRule& rule_of(OpKind kind) {
  static const Table table = make_table();
  if (kind >= OpKind::count) throw Error("no op of kind " + std::to_string(static_cast<int>(kind)));
  const OpRule& rule = table[static_cast<std::size_t>(kind)];
  if (rule.kind != kind) throw Error("op_table.cpp: the row of " + std::string(name_of(kind)) + " is in another place");
  return rule;
}

bool accumulates(const Op& op, std::size_t position) {
  if (op.kind == OpKind::matmul) return op.attributes.accumulate;
  return rule_of(op.kind).outputs[position].accumulates;
}

}  // namespace l2l::compiler
