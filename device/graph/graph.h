// The small static graph that describes a layer: values and ops in execution order. A layer type gives its forward
// graph; device/graph/differentiate.h derives the backward graph from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace l2l::device::graph {

// Where a value lives. All regions but scratch are bound per launch (device.h, Bindings).
enum class Region : std::uint8_t {
  weights,          // the layer's wire, in the layout of its parameters
  gradients,        // fp32 accumulators, the same layout
  input,            // layer input of one microbatch
  output,           // layer output of one microbatch
  output_gradient,  // dL/d output
  input_gradient,   // dL/d input
  tokens,           // i32 [rows]
  targets,          // i32 [rows], negative: not predicted
  loss,             // f64 [1], sum over the microbatch, not yet divided
  drained,          // gradients in precision.gradients, ready to leave the device
  normed,           // a head in vocabulary chunks: its normed input, from chunk to chunk of one microbatch
  carry,            // what else a layer's chunks hand on: rows so far, softmax statistics, fp32 sums
  saved,            // what the forward visit leaves to the backward visit beside the layer input (recompute/)
  scratch,          // values internal to one run; offsets chosen by the planner
  count
};
std::string_view name_of(Region region);

enum class OpKind : std::uint8_t {
  // kind                            inputs -> outputs; R rows (sequences x sequence length), H hidden, V vocabulary
  embedding,             // tokens i32 [R], table [V,H], positions [S,H] -> y [R,H]
  embedding_backward,    // tokens [R], dy [R,H] -> dtable f32 [V,H] (+=), dpositions f32 [S,H] (+=)
  layer_norm,            // x [R,H], gain [H], bias [H] -> y [R,H], mean f32 [R], inverse_deviation f32 [R]
  layer_norm_backward,   // dy, x, gain, mean, inverse_deviation -> dx [R,H], dgain f32 [H] (+=), dbias f32 [H] (+=)
  matmul,                // a, b, (bias) -> y [M,N]; y = op(a) op(b) + bias; accumulate: y += (y f32)
  bias_gradient,         // dy [R,N] -> dbias f32 [N] (+=)
  gelu,                  // x -> y, tanh form (GPT-2) or exact (BERT)
  gelu_backward,         // dy, x -> dx
  attention,             // qkv [R,Q] -> y [R,H], logsumexp f32 [R,heads]; dropout on probabilities
  attention_backward,    // dy, qkv, y, logsumexp -> dqkv [R,Q]; Q = (heads + 2 kv_heads) H / heads: q, k, v
  dropout,               // x -> y; the same op on a gradient is its own backward
  add,                   // a, b -> y
  linear_cross_entropy,  // x [R,H], table [V,H], targets i32 [R], (bias [V]) -> loss f64 [1]; logits a panel at a time
  linear_cross_entropy_backward,  // x, table, targets, (bias) -> loss f64 [1], dx [R,H], dtable f32 [V,H] (+=),
                                  // (dbias f32 [V] (+=))
  convert,                        // f32 [R,H] -> y [R,H], rounded to y's dtype, (squares f64 [1], the sum of y^2: not
                                  // finite exactly if an element of y is not)
  // Of a table in chunks of V rows, the first of which is LaunchParameters::first_token:
  embedding_rows,                // tokens [R], table [V,H] -> y [R,H] (those rows whose token the chunk has)
  embedding_rows_backward,       // tokens [R], dy [R,H] -> dtable f32 [V,H] (+=)
  add_positions,                 // x [R,H], positions [S,H] -> y [R,H]
  positions_backward,            // dy [R,H] -> dpositions f32 [S,H] (+=)
  softmax_statistics,            // x, table [V,H], targets, (bias [V]) -> statistics f64 [R,3] (+=): highest logit,
                                 // sum of e^(logit - highest) (0: none seen), logit of the target
  cross_entropy,                 // statistics [R,3], targets [R] -> loss f64 [1]
  chunk_cross_entropy_backward,  // x, table, targets, statistics, (bias) -> dx f32 [R,H] (+=), dtable f32 [V,H] (+=),
                                 // (dbias f32 [V] (+=))
  rms_norm,                      // x [R,H], gain [H] -> y [R,H], inverse_rms f32 [R]
  rms_norm_backward,             // dy, x, gain, inverse_rms -> dx [R,H], dgain f32 [H] (+=)
  rotary,                        // qkv [R,Q] -> y [R,Q]: q and k turned by their place, v copied; or turned back
  swiglu,                        // x [R,2I]: gate, up -> y [R,I] = gate sigmoid(gate) up
  swiglu_backward,               // dy [R,I], x [R,2I] -> dx [R,2I]
  // Core attention in separate ops (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
  // Models", 2022), so that what is quadratic in the sequence is a value. P = R heads rows: row i of head h of sequence
  // n is (n heads + h) S + i. Elements that a row does not see are 0 where they are written, and never read:
  attention_probabilities,           // qkv [R,Q] -> probabilities [P,S], softmax of q k^T / sqrt(H / heads)
  attention_probabilities_backward,  // dprobabilities, probabilities [P,S], qkv, (other [R,Q]) -> dqkv [R,Q] + other
  attention_mix,                     // probabilities [P,S], qkv [R,Q] -> y [R,H] = probabilities v
  attention_mix_backward,            // dy [R,H], probabilities, qkv -> dprobabilities [P,S], dqkv [R,Q]: 0 of q and k
  // Of reversible layers. A stream is f32, or i32: a fixed-point number (core/fixed_point.h); its gradient is of the
  // compute type, and passes rounding unchanged:
  split_streams,  // x [R,H] -> a, b [R,H], streams or of x's dtype, each of them x
  merge_streams,  // streams a, b [R,H] -> y [R,H] = a + b
  read_stream,    // stream x [R,H] -> y [R,H]
  couple,  // stream x [R,H], b [R,H] -> stream y [R,H] = x + b, or, inverse, x - b; b rounded to the stream's grid
  // Several of the ops above in one, as unfused() (unfuse.h) spells out; made by fuse() (fuse.h) for backends that ask:
  matmul_gelu,              // a, b, bias -> y [M,N], (pre [M,N]); pre = op(a) op(b) + bias, y = gelu(pre), tanh form
  dropout_add,              // x, residual [R,H] -> y = dropout(x) + residual
  add_layer_norm,           // x, residual, gain, bias -> y, mean, inverse_deviation, (sum [R,H]); sum = x + residual,
                            // x after dropout if probability > 0; y is the norm of sum
  add_rms_norm,             // x, residual, gain -> y, inverse_rms, (sum)
  layer_norm_backward_add,  // dy, x, gain, mean, inverse_deviation, other [R,H] -> dx, dgain (+=), dbias (+=);
                            // dx = gradient of the norm + other
  rms_norm_backward_add,    // dy, x, gain, inverse_rms, other -> dx, dgain (+=)
  gelu_backward_bias,       // dy, x [R,H] -> dx, dbias f32 [H] (+=), the sum of dx over rows
  dropout_bias,             // dy [R,H] -> dx, dbias f32 [H] (+=), the sum of dx over rows
  count
};
std::string_view name_of(OpKind kind);

using ValueId = std::int32_t;

struct Value {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  Region region = Region::scratch;
  Bytes offset = 0;  // within its region; of scratch values: chosen by the planner, not here

  Bytes bytes() const { return static_cast<Bytes>(shape.elements()) * size_of(dtype); }
};

// Only the attributes of its kind are read.
struct Attributes {
  bool transpose_a = false;  // matmul
  bool transpose_b = false;
  bool accumulate = false;      // y += instead of y =
  float epsilon = 0;            // layer_norm, rms_norm
  float probability = 0;        // dropout, attention
  std::uint32_t rng_op = 0;     // key of this op's random numbers; the backward op has its forward op's
  int heads = 0;                // attention (fused and core), rotary: of queries
  int kv_heads = 0;             // of keys and values, each shared by heads / kv_heads queries; 0: as many as heads
  bool causal = true;           // attention: row i of a sequence sees rows 0..i; false: all of them
  int sequence = 0;             // rows per sequence: attention, rotary, embedding, positions
  float rotary_base = 10000;    // rotary: pair j of d/2 turns by place * base^(-2j/d)
  bool inverse = false;         // rotary: by the negative angle, which is its backward op; couple: x - b
  bool exact = false;           // gelu: x Phi(x) by the error function, not its tanh form
  std::int64_t vocabulary = 0;  // tokens in all chunks: embedding_rows, softmax_statistics

  bool operator==(const Attributes&) const = default;
};

// Heads of keys and values of attention and rotary.
int kv_heads(const Attributes& attributes);

struct Op {
  OpKind kind;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
};

// Values are in single assignment, except accumulators (gradients), which ops marked (+=) add to, and what lives in
// normed and carry, which earlier launches may have written. Ops are in a valid order. Thread-bound while built, then
// immutable.
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Op> ops;

  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  // Highest end of any value of `region`, in bytes (scratch excluded).
  Bytes region_bytes(Region region) const;
  // Throws Error naming op and value when shapes, dtypes, regions or the order are not those of the table above.
  void validate() const;
};

// Writes forward graphs. Each function appends one op, infers its output's shape and dtype, and returns the output.
// Throws BadInput when shapes do not fit, naming the op.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name) { graph_.name = std::move(name); }

  // A value bound from outside, at `offset` bytes within its region.
  ValueId bound(Region region, std::string name, DType dtype, Shape shape, Bytes offset = 0);

  ValueId embedding(ValueId tokens, ValueId table, ValueId positions, int sequence);
  ValueId layer_norm(ValueId x, ValueId gain, ValueId bias, float epsilon);
  // y = x w + b with w [in, out] (the layout of GPT-2 files).
  ValueId linear(ValueId x, ValueId w, ValueId b);
  // y = x w^T with w [out, in] (logits from a table).
  ValueId linear_transposed(ValueId x, ValueId w);
  ValueId rms_norm(ValueId x, ValueId gain, float epsilon);
  // y = x w^T + b with w [out, in] (the layout of BERT's files).
  ValueId linear_transposed(ValueId x, ValueId w, ValueId b);
  ValueId gelu(ValueId x, bool exact = false);
  ValueId swiglu(ValueId x);
  ValueId attention(ValueId qkv, int heads, int sequence, float dropout);
  // `shape`: heads, kv_heads, sequence, causal, probability; and rotary_base.
  ValueId attention(ValueId qkv, Attributes shape);
  // The same, dropout's choices included, as attention_probabilities, dropout (where there is any) and attention_mix.
  ValueId core_attention(ValueId qkv, Attributes shape);
  ValueId rotary(ValueId qkv, Attributes shape);
  ValueId dropout(ValueId x, float probability);
  ValueId add(ValueId a, ValueId b);
  ValueId linear_cross_entropy(ValueId x, ValueId table, ValueId targets);
  ValueId linear_cross_entropy(ValueId x, ValueId table, ValueId targets, ValueId bias);
  ValueId add_positions(ValueId x, ValueId positions, int sequence);
  ValueId cross_entropy(ValueId statistics, ValueId targets);
  // Both hold x; `stream`: f32 or i32.
  std::pair<ValueId, ValueId> split_streams(ValueId x, DType stream);
  ValueId merge_streams(ValueId a, ValueId b, DType compute);
  // `stream` in dtype `compute`; itself when it is of that dtype.
  ValueId read_stream(ValueId stream, DType compute);
  ValueId couple(ValueId stream, ValueId branch);

  // An op onto values that are bound already: accumulators, and what lives in normed or carry.
  void append_onto(OpKind kind, std::vector<ValueId> inputs, std::vector<ValueId> outputs, Attributes attributes);

  // Declares that `value`, the result of the last op that made it, is written to `region` (output or loss), at `offset`
  // bytes, and not to scratch.
  void place(ValueId value, Region region, Bytes offset = 0);

  // Hands over the graph, validated.
  Graph finish();

 private:
  // Returns the first output.
  ValueId append(OpKind kind, std::vector<ValueId> inputs, Attributes attributes);
  ValueId append_as(OpKind kind, std::vector<ValueId> inputs, DType dtype);

  Graph graph_;
  std::uint32_t next_rng_op_ = 1;
};

}  // namespace l2l::device::graph
