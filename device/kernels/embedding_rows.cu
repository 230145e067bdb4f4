#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/rows.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Rows whose token the chunk does not have stay as they are; a token outside the whole vocabulary makes its row NaN.
// Moves at most 2 elements of T per element.
template <typename T>
struct EmbeddingRowsBody {
  const std::int32_t* tokens;
  const T* table;
  T* y;
  std::int64_t hidden, chunk, vocabulary;
  const LaunchParameters* parameters;
  std::int64_t first_token;

  __device__ void prepare() { first_token = parameters->first_token; }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, hidden);
    const std::int64_t token = tokens[place.row], row = token - first_token;
    if (token < 0 || token >= vocabulary) {
      Floats<Count> nan;
#pragma unroll
      for (int i = 0; i < Count; ++i) nan[i] = __int_as_float(0x7FC00000);
      store_floats(y + first, nan);
    } else if (row >= 0 && row < chunk) {
      store_floats(y + first, load_floats<Count>(table + row * hidden + place.column));
    }
  }
};

template <typename T>
class EmbeddingRows final : public Kernel {
 public:
  EmbeddingRows(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context),
        elements_(kernels::output(graph, op, 0).shape.elements()),
        hidden_(kernels::output(graph, op, 0).shape[1]),
        chunk_(kernels::input(graph, op, 1).shape[0]),
        vocabulary_(op.attributes.vocabulary) {
    require_groups<T>(elements_, hidden_);
  }

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    const EmbeddingRowsBody<T> body{kernels::as<std::int32_t>(operands[0]),
                                    kernels::as<T>(operands[1]),
                                    kernels::as<T>(operands[2]),
                                    hidden_,
                                    chunk_,
                                    vocabulary_,
                                    parameters,
                                    0};
    if (rows_are_packed<T>(hidden_)) {
      launch_elementwise<kPack<T>>("embedding_rows", context_, elements_, body, stream);
    } else {
      launch_elementwise<1>("embedding_rows", context_, elements_, body, stream);
    }
  }

 private:
  Context context_;
  std::int64_t elements_, hidden_, chunk_, vocabulary_;
};

}  // namespace

std::unique_ptr<Kernel> make_embedding_rows(const Context& context, const compiler::Graph& graph,
                                            const compiler::Op& op) {
  return make_for<EmbeddingRows, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
