#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/rows.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// x and y may be the same memory. Moves 2 elements of T per element; the table stays in the L2 cache.
template <typename T>
struct AddPositionsBody : Unprepared {
  const T *x, *positions;
  T* y;
  std::int64_t table;  // elements of a sequence's rows

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Floats<Count> sum = load_floats<Count>(x + first);
    const Floats<Count> position = load_floats<Count>(positions + place_of<Count>(first, table).column);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] += position[i];
    store_floats(y + first, sum);
  }
};

template <typename T>
class AddPositions final : public Kernel {
 public:
  AddPositions(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context),
        elements_(kernels::input(graph, op, 0).shape.elements()),
        table_(op.attributes.sequence * kernels::input(graph, op, 0).shape[1]) {
    require_groups<T>(elements_, table_);
  }

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters*,
               cudaStream_t stream) const override {
    AddPositionsBody<T> body;
    body.x = kernels::as<T>(operands[0]);
    body.positions = kernels::as<T>(operands[1]);
    body.y = kernels::as<T>(operands[2]);
    body.table = table_;
    if (rows_are_packed<T>(table_)) {
      launch_elementwise<kPack<T>>("add_positions", context_, elements_, body, stream);
    } else {
      launch_elementwise<1>("add_positions", context_, elements_, body, stream);
    }
  }

 private:
  Context context_;
  std::int64_t elements_, table_;
};

}  // namespace

std::unique_ptr<Kernel> make_add_positions(const Context& context, const compiler::Graph& graph,
                                           const compiler::Op& op) {
  return make_for<AddPositions, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
