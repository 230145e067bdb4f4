// The compiler's intermediate representation: a static graph of values and ops in execution order, which describes one
// layer. Models build forward graphs; compiler/autodiff/differentiate.h derives backward graphs from them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/rotary.h"
#include "core/checked.h"
#include "core/dtype.h"
#include "core/model_layout.h"
#include "core/shape.h"
#include "core/word_elements.h"
#include "l2l/custom_op.h"

namespace l2l::compiler {

// Where a value lives. All regions but scratch are bound per launch (device/device.h, Bindings).
enum class Region : std::uint8_t {
  weights,          // the layer's parameters in transfer precision, in their layout
  gradients,        // fp32 accumulators, the same layout
  input,            // layer input of one microbatch
  output,           // layer output of one microbatch
  output_gradient,  // dL/d output
  input_gradient,   // dL/d input
  tokens,           // i32 [rows]
  targets,          // i32 [rows], negative: not predicted; or numbers, f32 [rows], NaN likewise
  rows,             // i32 [4, rows]: what documents that share a sequence say of each row (RowField)
  loss,             // f64 [1], sum over the microbatch, not yet divided
  drained,          // gradients in precision.gradients, ready to leave the device
  normed,           // a head in vocabulary chunks: its normed input, kept between the chunks of one microbatch
  carry,            // what else the chunks of a layer pass on: rows so far, softmax statistics, fp32 sums
  cache,            // a block that continues texts: keys and values of their rows so far, in the compute type
  saved,            // what the forward pass leaves to the backward pass besides the layer input (compiler/remat)
  scratch,          // values internal to one run; their offsets are chosen by plan_program()
  count
};
std::string_view name_of(Region region);

// The lines of Region::rows. Rows count from the first one of their sequence. A row's document is [begin, end) of them.
enum class RowField : std::uint8_t { position, begin, end, token_type, count };

// The kinds of ops; ops.def describes each.
enum class OpKind : std::uint8_t {
#define L2L_OP(kind) kind,
#define L2L_FUSED_OP(kind) kind,
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP
  count
};
std::string_view name_of(OpKind kind);
// Whether it is better not to run again: sums over devices, and what works more than in proportion to its operands.
bool is_costly(OpKind kind);

using ValueId = std::int32_t;

struct Value {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  Region region = Region::scratch;
  Bytes offset = 0;  // within its region; not used for scratch

  Bytes bytes() const { return checked_multiply(static_cast<Bytes>(shape.elements()), size_of(dtype), name); }
  bool operator==(const Value&) const = default;
};

// A window that slides over the height and the width of an image: unfold, fold, depthwise and the pools.
struct Window {
  std::array<std::int32_t, 2> size = {1, 1}, stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};  // height, width

  // Its places along dimension `side` (0: height) of an image that has `extent` elements there; below 1: none.
  std::int64_t places(std::size_t side, std::int64_t extent) const {
    return (extent + std::int64_t{2} * padding[side] - dilation[side] * (std::int64_t{size[side]} - 1) - 1) /
               stride[side] +
           1;
  }
  bool operator==(const Window&) const = default;
};

// A program's own op, or null. Equal to another of the same name and version.
struct CustomOpReference {
  std::shared_ptr<const CustomOp> op;

  bool operator==(const CustomOpReference& other) const {
    return op == other.op || (op && other.op && op->name == other.op->name && op->version == other.op->version);
  }
};

// Which share of a layer that is split over devices (tensor parallelism) an op's device has: each runs a graph of its
// own. One of one: the layer is whole. Ops that exchange rows may do so among fewer than all devices, so many
// neighbours.
struct Shard {
  std::int32_t count = 1, index = 0;

  bool operator==(const Shard&) const = default;
};

// Tokens of a split table that every device has, but for the last, which may have fewer: a multiple of 8.
constexpr std::int64_t largest_token_share(std::int64_t vocabulary, std::int64_t devices) {
  return ((vocabulary + devices - 1) / devices + 7) / 8 * 8;
}

// Attributes that an op's kind does not use are ignored.
struct Attributes {
  bool transpose_a = false;  // matmul
  bool transpose_b = false;
  bool accumulate = false;    // y += instead of y =
  float epsilon = 0;          // layer_norm, rms_norm, head_norm
  bool unit_offset = false;   // rms_norm, head_norm: the gain is 1 + weight
  float probability = 0;      // dropout, attention
  std::uint32_t rng_op = 0;   // key of the op's random numbers; a backward op has that of its forward op
  int heads = 0;              // attention (fused and core), rotary, head_norm: number of query heads
  int kv_heads = 0;           // of keys and values, each shared by heads / kv_heads query heads; 0: the same as heads
  bool causal = true;         // attention: row i of a sequence sees rows 0..i; false: all of them
  int window = 0;             // attention: row i sees no row before i - window + 1; 0: no limit
  float scale = 0;            // attention: factor of scores; 0: 1/sqrt(d), d elements of a head
  float softcap = 0;          // attention: scores s become c tanh(s / c); the same of logits in the ops of a head
  int sequence = 0;           // rows per sequence: attention, rotary, embedding, positions
  int capacity = 0;           // cached_attention: rows of the cache per sequence
  int positions = 0;          // rotary: how many there are, where rows have their own; 0: as many as `sequence`
  float rotary_base = 10000;  // rotary: pair j of d/2 turns by position * base^(-2j/d)
  RotaryScaling rotary_scaling = {};
  bool inverse = false;      // rotary: by the negative angle, which is its backward op; reversible_add: x - b
  bool exact = false;        // gelu, swiglu: x Phi(x) by the error function, not its tanh form
  bool gelu = false;         // swiglu: the gate's activation is GELU instead of SiLU
  float factor = 1;          // embedding_rows: of the table's rows; of what columns, broadcast and others move
  std::int64_t first = 0;    // columns, add_columns, pad_columns: the first column; of a split table: the first token
  std::int64_t columns = 0;  // columns: how many; pad_columns, reshape: of the result
  WordElement word_element = WordElement::whole;    // unpack: what its words hold
  std::int64_t vocabulary = 0;                      // tokens in all chunks, or on all devices
  Shard shard = {};                                 // of split layers: ops.def says which ops use it
  std::array<std::int64_t, 4> dims = {1, 1, 1, 1};  // where a matrix stands for more dimensions: of x, broadcast: of y
  std::array<std::uint8_t, 4> axes = {0, 1, 2, 3};  // permute
  std::uint32_t kept = 0;                           // broadcast, sum: bit i for dimension i
  std::int32_t groups = 1;                          // group_norm
  Window image_window = {};                         // unfold, fold, depthwise, the pools
  CustomOpReference custom = {};                    // custom; `columns` of the result

  bool operator==(const Attributes&) const = default;
};

// The number of key and value heads of attention and rotary.
int kv_heads(const Attributes& attributes);

struct Op {
  OpKind kind;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
  bool operator==(const Op&) const = default;
};

// In static single assignment, except for accumulators, to which ops marked (+=) in ops.def add, and for the regions
// normed and carry, which earlier launches may have written. Ops are in a valid order. Thread-bound while built, then
// immutable.
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Op> ops;
  // Which elements of Region::weights are trained, and where their gradients lie in Region::gradients. Nothing: all
  // are, and gradients lie like weights. Read when the graph is differentiated.
  std::optional<std::vector<GradientRange>> gradient_ranges = {};

  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  // Highest end of any value of `region`, in bytes (scratch excluded).
  Bytes region_bytes(Region region) const;
  // The op that makes `id`; nullptr if none does.
  const Op* producer(ValueId id) const;
  // Throws Error naming op and value when shapes, dtypes, regions or the order of ops break the rules of ops.def.
  void validate() const;
  bool operator==(const Graph&) const = default;
};

// Builds forward graphs. Thread-bound. Each function appends one op, infers its output's shape and dtype, and returns
// the output. Throws BadInput naming the op when shapes do not fit.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name) { graph_.name = std::move(name); }

  // A value bound from outside, at `offset` bytes within its region.
  ValueId bound(Region region, std::string name, DType dtype, Shape shape, Bytes offset = 0);

  // Splits a bound value that no op has read into `count` parts of equal rows, of which the first takes its place.
  std::vector<ValueId> split_rows(ValueId whole, std::int64_t count);

  // `places`: the row of `positions` that is added to each row, instead of its place in its sequence.
  ValueId embedding(ValueId tokens, ValueId table, ValueId positions, int sequence, std::optional<ValueId> places = {});
  ValueId layer_norm(ValueId x, ValueId gain, ValueId bias, float epsilon);
  // y = x w + b with w [in, out] (the layout of GPT-2 files).
  ValueId linear(ValueId x, ValueId w, std::optional<ValueId> b = {});
  ValueId rms_norm(ValueId x, ValueId gain, float epsilon, bool unit_offset = false);
  // RMS norms of each head of queries and of keys; `shape`: heads, kv_heads, epsilon, unit_offset.
  ValueId head_norm(ValueId qkv, ValueId query_gain, ValueId key_gain, Attributes shape);
  // y = x w^T (+ b) with w [out, in] (the layout of BERT's files; logits from a table).
  ValueId linear_transposed(ValueId x, ValueId w, std::optional<ValueId> b = {});
  ValueId gelu(ValueId x, bool exact = false);
  ValueId tanh(ValueId x);
  ValueId sigmoid(ValueId x);
  ValueId silu(ValueId x);
  ValueId relu(ValueId x);
  // `gate`: gelu, exact.
  ValueId swiglu(ValueId x, Attributes gate = {});
  // `shape`: heads, kv_heads, sequence, causal, probability, window, scale, softcap; and rotary_base, rotary_scaling.
  // `documents` [2, R]: begin and end of each row's document, beyond which it sees nothing.
  ValueId attention(ValueId qkv, Attributes shape, std::optional<ValueId> documents = {});
  // Attention to what `cache` [sequences x capacity, keys and values] has of each sequence, to which the rows of qkv
  // are added first; returns y. `documents` [2, R]: begin and end of what each row sees, itself included, as rows of
  // the cache; a row whose end is 0 is none. `shape`: as above, and capacity.
  ValueId cached_attention(ValueId qkv, Attributes shape, ValueId documents, ValueId cache);
  // The same function as attention, with the same dropout choices, as attention_probabilities, dropout (if any) and
  // attention_mix.
  ValueId core_attention(ValueId qkv, Attributes shape, std::optional<ValueId> documents = {});
  // `positions` [R]: of each row, instead of its place in its sequence.
  ValueId rotary(ValueId qkv, Attributes shape, std::optional<ValueId> positions = {});
  // `rows`: which of those of all devices x has.
  ValueId dropout(ValueId x, float probability, Shard rows = {});
  // The key of the random numbers of one more op, for Attributes::rng_op.
  std::uint32_t next_rng_op() { return next_rng_op_++; }
  ValueId add(ValueId a, ValueId b);
  ValueId multiply(ValueId a, ValueId b);
  ValueId scale(ValueId x, float factor);
  // x, to whose columns from `first` on factor * y is added.
  ValueId add_columns(ValueId x, ValueId y, std::int64_t first, float factor);
  ValueId linear_cross_entropy(ValueId x, ValueId table, ValueId targets, std::optional<ValueId> bias = {},
                               float softcap = 0);
  // Of layers of a program's own; ops.def says what each does. `attributes`: what the op uses of them.
  ValueId reshape(ValueId x, std::int64_t columns);
  ValueId apply(OpKind kind, std::vector<ValueId> inputs, Attributes attributes = {});
  // `rows`: likewise.
  ValueId add_positions(ValueId x, ValueId positions, int sequence, std::optional<ValueId> places = {},
                        Shard rows = {});
  ValueId cross_entropy(ValueId statistics, ValueId targets);
  // Losses of y [R,1].
  ValueId squared_error(ValueId y, ValueId targets);
  ValueId choice_cross_entropy(ValueId scores, ValueId targets);
  // Two streams, each equal to x; `stream`: f32 or i32.
  std::pair<ValueId, ValueId> split_streams(ValueId x, DType stream);
  ValueId begin_stream(ValueId x, DType stream);
  ValueId merge_streams(ValueId a, ValueId b, DType compute);
  // `stream` converted to `compute`; the same value when it has that dtype.
  ValueId read_stream(ValueId stream, DType compute);
  // The numbers in each row of `words` [rows, any]: a matrix of `shape`, of which each row's are as many rows.
  ValueId unpack(ValueId words, WordElement type, Shape shape, DType compute);
  ValueId reversible_add(ValueId stream, ValueId branch);

  // Appends an op whose outputs are existing bound values: accumulators, and values in normed or carry.
  void append_onto(OpKind kind, std::vector<ValueId> inputs, std::vector<ValueId> outputs, Attributes attributes);

  const Value& value(ValueId id) const { return graph_.value(id); }
  Bytes region_bytes(Region region) const { return graph_.region_bytes(region); }  // so far
  ValueId count() const { return static_cast<ValueId>(graph_.values.size()); }     // of values so far

  // Moves the op result `value` from scratch to `region` (output, loss, input_gradient or drained), at `offset` bytes.
  void place(ValueId value, Region region, Bytes offset = 0);

  // Validates the graph and returns it.
  Graph finish();

 private:
  // Returns the first output.
  ValueId append(OpKind kind, std::vector<ValueId> inputs, Attributes attributes);
  ValueId append_as(OpKind kind, std::vector<ValueId> inputs, DType dtype, Shape shape, Attributes attributes = {});

  Graph graph_;
  std::uint32_t next_rng_op_ = 1;
};

}  // namespace l2l::compiler
