// oneDNN is used as a library of single-threaded primitives, one per shape of tile; our workers run the tiles. Its
// bf16 results are rounded to nearest, ties to even, where ours go away from zero: both are the nearest bf16.
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "core/checked.h"
#include "device/kernels/matmul.h"
#include "device/kernels/matmul_tiles.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {
namespace {

using dnnl::memory;

// oneDNN asks OpenMP for its number of threads when a primitive is made and when it runs.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneOpenMpThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_;
};

memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::dims strides(bool transposed, std::int64_t rows, std::int64_t columns) {
  return transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
}

dnnl::matmul::primitive_desc describe(const MatmulShape& shape, std::int64_t rows, std::int64_t columns,
                                      const dnnl::engine& engine) {
  const memory::data_type type = type_of(shape.input);
  const memory::desc a({rows, shape.k}, type, strides(shape.transpose_a, shape.m, shape.k));
  const memory::desc b({shape.k, columns}, type, strides(shape.transpose_b, shape.k, shape.n));
  const memory::desc bias({1, columns}, type, memory::dims{columns, 1});
  const memory::desc y({rows, columns}, type_of(shape.output), memory::dims{shape.n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::desc operation =
      shape.bias ? dnnl::matmul::desc(a, b, bias, y) : dnnl::matmul::desc(a, b, y);
  return {operation, attributes, engine};
}

// One primitive with memory objects whose handles are set before each run; offsets in bytes into whole operands.
struct Tile {
  dnnl::matmul primitive;
  memory a, b, bias, y, scratchpad;
  Bytes a_offset = 0, b_offset = 0, bias_offset = 0, y_offset = 0;

  Tile(const dnnl::matmul::primitive_desc& description, const dnnl::matmul& made, const dnnl::engine& engine)
      : primitive(made),
        a(description.src_desc(), engine, nullptr),
        b(description.weights_desc(), engine, nullptr),
        y(description.dst_desc(), engine, nullptr),
        scratchpad(description.scratchpad_desc(), engine, nullptr) {}

  void execute(const MatmulOperands& operands, std::byte* workspace, dnnl_stream_t stream) const {
    set(a, operands.a + a_offset);
    set(b, operands.b + b_offset);
    set(y, operands.y + y_offset);
    set(scratchpad, workspace);
    dnnl_exec_arg_t arguments[5] = {{DNNL_ARG_SRC, a.get()},
                                    {DNNL_ARG_WEIGHTS, b.get()},
                                    {DNNL_ARG_DST, y.get()},
                                    {DNNL_ARG_SCRATCHPAD, scratchpad.get()},
                                    {DNNL_ARG_BIAS, nullptr}};
    if (operands.bias) {
      set(bias, operands.bias + bias_offset);
      arguments[4].memory = bias.get();
    }
    const dnnl_status_t status = dnnl_primitive_execute(primitive.get(), stream, operands.bias ? 5 : 4, arguments);
    if (status != dnnl_success) throw Error("oneDNN: matmul failed with status " + std::to_string(status));
  }

 private:
  static void set(const memory& object, const std::byte* data) {
    object.set_data_handle(const_cast<std::byte*>(data));
  }
};

}  // namespace

struct MatmulPlan::Implementation {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<Tile> tiles;
  Bytes scratchpad_bytes = 0;  // per slot

  explicit Implementation(const MatmulShape& shape) {
    const OneOpenMpThread one_thread;
    const TileGrid grid = tile_grid(shape);
    tiles.reserve(static_cast<std::size_t>(grid.count()));
    for (std::int64_t row = 0; row < grid.rows.count(); ++row) {
      for (std::int64_t column = 0; column < grid.columns.count(); ++column) add_tile(shape, grid, row, column);
    }
  }

  // Equal tiles share a primitive through oneDNN's cache.
  void add_tile(const MatmulShape& shape, const TileGrid& grid, std::int64_t row, std::int64_t column) {
    const std::int64_t i = grid.rows.begin(row), j = grid.columns.begin(column);
    const std::int64_t columns = grid.columns.end(column) - j;
    const dnnl::matmul::primitive_desc description = describe(shape, grid.rows.end(row) - i, columns, engine);
    Tile tile(description, dnnl::matmul(description), engine);
    if (shape.bias) tile.bias = memory(description.query_md(dnnl::query::weights_md, 1), engine, nullptr);
    const Bytes in = size_of(shape.input), out = size_of(shape.output);
    tile.a_offset = static_cast<Bytes>(shape.transpose_a ? i : i * shape.k) * in;
    tile.b_offset = static_cast<Bytes>(shape.transpose_b ? j * shape.k : j) * in;
    tile.bias_offset = static_cast<Bytes>(j) * in;
    tile.y_offset = static_cast<Bytes>(i * shape.n + j) * out;
    scratchpad_bytes = std::max<Bytes>(scratchpad_bytes, align_up(description.scratchpad_desc().get_size(), 64));
    tiles.push_back(std::move(tile));
  }
};

MatmulPlan::MatmulPlan(const MatmulShape& shape) {
  try {
    implementation_ = std::make_unique<Implementation>(shape);
  } catch (const dnnl::error& error) {
    throw Error("oneDNN has no matrix product for m = " + std::to_string(shape.m) + ", n = " +
                std::to_string(shape.n) + ", k = " + std::to_string(shape.k) + ", " +
                std::string(name_of(shape.input)) + ": " + error.what());
  }
}

MatmulPlan::~MatmulPlan() = default;
MatmulPlan::MatmulPlan(MatmulPlan&&) noexcept = default;

Bytes MatmulPlan::workspace(int threads) const {
  return implementation_->scratchpad_bytes * static_cast<Bytes>(threads);
}

void MatmulPlan::run(const MatmulOperands& operands, std::byte* workspace, Workers& workers) const {
  const Implementation& plan = *implementation_;
  workers.parallel_for(static_cast<std::int64_t>(plan.tiles.size()), [&](std::int64_t tile, int slot) {
    const OneOpenMpThread one_thread;
    std::byte* scratchpad = workspace + plan.scratchpad_bytes * static_cast<Bytes>(slot);
    plan.tiles[static_cast<std::size_t>(tile)].execute(operands, scratchpad, plan.stream.get());
  });
}

std::string_view matmul_library() { return "oneDNN"; }

}  // namespace l2l::device::kernels
