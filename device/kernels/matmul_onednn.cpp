// oneDNN is used as a library of single-threaded primitives, one per shape of tile; our workers run the tiles. Its
// bf16 results are rounded to nearest, ties to even, where ours go away from zero: both are the nearest bf16.
//
// Every operand of a tile is dense: what oneDNN 2.6 makes of strided ones allocates megabytes in each call. So tiles
// are rows; those of a transposed bf16 `a` are copied first. Our own product does fp32 with a transposed `a`, where
// oneDNN is slow, what oneDNN has not on the host (2.6: fp16), and bf16 where the processor has no instructions for it:
// oneDNN then takes 3.5 times as long as in fp32 (AVX-512) and megabytes in each call, or refuses (AVX2).
#include <omp.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "core/process_limits.h"
#include "device/kernels/matmul.h"
#include "device/kernels/matmul_tiles.h"
#include "device/kernels/packed_product.h"
#include "device/kernels/tasks.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {
namespace {

using dnnl::memory;

// Left before oneDNN makes the code of a primitive: it crashes where memory runs out meanwhile.
constexpr Bytes kBytesOfCode = Bytes{16} << 20;

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

memory::desc matrix(std::int64_t rows, std::int64_t columns, DType dtype, bool transposed) {
  return {{rows, columns}, type_of(dtype), transposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
}

dnnl::matmul::primitive_desc describe(const MatmulShape& shape, std::int64_t rows, const dnnl::engine& engine) {
  const memory::desc a = matrix(rows, shape.k, shape.input, shape.transpose_a);
  const memory::desc b = matrix(shape.k, shape.n, shape.input, shape.transpose_b);
  const memory::desc bias = matrix(1, shape.n, shape.input, false);
  const memory::desc y = matrix(rows, shape.n, shape.output, false);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3  // Ubuntu 24.04; Debian 12 has 2.6
  if (shape.bias) return {engine, a, b, bias, y, attributes};
  return {engine, a, b, y, attributes};
#else
  const dnnl::matmul::desc operation = shape.bias ? dnnl::matmul::desc(a, b, bias, y) : dnnl::matmul::desc(a, b, y);
  return {operation, attributes, engine};
#endif
}

// The primitive of tiles of so many rows, with sets of memory objects, whose handles are set before each run: one set
// per tile, or per worker where there are more tiles than workers.
class Tile {
 public:
  Tile(const MatmulShape& shape, std::int64_t rows, const dnnl::engine& engine)
      : Tile(shape, rows, describe(shape, rows, engine)) {}

  // Bytes per slot.
  Bytes workspace() const { return copy_bytes_ + align_up(description_.scratchpad_desc().get_size(), 64); }

  void prepare(int sets, const dnnl::engine& engine) {
    while (static_cast<int>(objects_.size()) < sets) objects_.emplace_back(description_, has_bias_, engine);
  }

  // Of the tile that begins at row `begin`, by set `set` of objects.
  void execute(const MatmulShape& shape, std::int64_t begin, const MatmulOperands& operands, std::byte* workspace,
               std::int64_t set, dnnl_stream_t stream) const {
    const std::int64_t first_a = shape.transpose_a ? begin : begin * shape.k;
    const std::byte* a = operands.a + static_cast<Bytes>(first_a) * size_of(shape.input);
    if (copy_bytes_ > 0) a = copy_columns(shape, a, workspace);
    const Objects& of = objects_[static_cast<std::size_t>(set)];
    std::byte* const y = operands.y + static_cast<Bytes>(begin * shape.n) * size_of(shape.output);
    dnnl_exec_arg_t arguments[5] = {{DNNL_ARG_SRC, at(of.a, a)},
                                    {DNNL_ARG_WEIGHTS, at(of.b, operands.b)},
                                    {DNNL_ARG_DST, at(of.y, y)},
                                    {DNNL_ARG_SCRATCHPAD, at(of.scratchpad, workspace + copy_bytes_)},
                                    {DNNL_ARG_BIAS, nullptr}};
    if (shape.bias) arguments[4].memory = at(of.bias, operands.bias);
    const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream, shape.bias ? 5 : 4, arguments);
    if (status != dnnl_success) throw Error("oneDNN: matmul failed with status " + std::to_string(status));
  }

 private:
  struct Objects {
    Objects(const dnnl::matmul::primitive_desc& description, bool has_bias, const dnnl::engine& engine)
        : a(description.src_desc(), engine, nullptr),
          b(description.weights_desc(), engine, nullptr),
          y(description.dst_desc(), engine, nullptr),
          scratchpad(description.scratchpad_desc(), engine, nullptr) {
      if (has_bias) bias = memory(description.query_md(dnnl::query::weights_md, 1), engine, nullptr);
    }
    memory a, b, y, scratchpad, bias;
  };

  Tile(const MatmulShape& shape, std::int64_t rows, dnnl::matmul::primitive_desc description)
      : description_(std::move(description)), primitive_(description_), rows_(rows), has_bias_(shape.bias) {
    if (shape.transpose_a && rows < shape.m) {
      copy_bytes_ = align_up(static_cast<Bytes>(rows * shape.k) * size_of(shape.input), 64);
    }
  }

  // The tile's columns of a [k, m], dense.
  const std::byte* copy_columns(const MatmulShape& shape, const std::byte* a, std::byte* copy) const {
    const Bytes from = static_cast<Bytes>(shape.m) * size_of(shape.input);
    const Bytes to = static_cast<Bytes>(rows_) * size_of(shape.input);
    for (std::int64_t k = 0; k < shape.k; ++k) {
      std::memcpy(copy + static_cast<Bytes>(k) * to, a + static_cast<Bytes>(k) * from, to);
    }
    return copy;
  }

  static dnnl_memory_t at(const memory& object, const std::byte* data) {
    object.set_data_handle(const_cast<std::byte*>(data));
    return object.get();
  }

  dnnl::matmul::primitive_desc description_;
  dnnl::matmul primitive_;
  std::vector<Objects> objects_;
  std::int64_t rows_;
  bool has_bias_;
  Bytes copy_bytes_ = 0;
};

}  // namespace

struct MatmulPlan::Implementation {
  MatmulShape shape;
  PackedProduct own{shape};
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  const Partition rows = row_tiles(shape);
  std::vector<Tile> tiles;  // all but the last, and the last where it is smaller; none: our own product
  Bytes slot_bytes = 0;

  explicit Implementation(const MatmulShape& product) : shape(product) {
    const bool ours = shape.input == DType::f16 || (shape.transpose_a && shape.input == DType::f32) ||
                      (shape.input == DType::bf16 && !has_instructions(DType::bf16));
    if (!ours) make_tiles();
    slot_bytes = tiles.empty() ? own.workspace() : largest_workspace();
  }

  void make_tiles() {
    check_address_space(kBytesOfCode, /*threads=*/0);
    const OneOpenMpThread one_thread;
    tiles.emplace_back(shape, rows.end(0), engine);
    const std::int64_t last = rows.total - rows.begin(rows.count() - 1);
    if (last != rows.end(0)) tiles.emplace_back(shape, last, engine);
  }

  void prepare(int threads) {
    if (tiles.empty()) return;
    tiles.front().prepare(static_cast<int>(std::min<std::int64_t>(threads, rows.count())), engine);
    if (tiles.size() > 1) tiles.back().prepare(1, engine);
  }

  Bytes largest_workspace() const {
    Bytes largest = 0;
    for (const Tile& tile : tiles) largest = std::max(largest, tile.workspace());
    return largest;
  }
};

MatmulPlan::MatmulPlan(const MatmulShape& shape) {
  try {
    implementation_ = std::make_unique<Implementation>(shape);
  } catch (const dnnl::error& error) {
    throw Error("oneDNN made no matrix product for m = " + std::to_string(shape.m) +
                ", n = " + std::to_string(shape.n) + ", k = " + std::to_string(shape.k) + ", " +
                std::string(name_of(shape.input)) + ": " + error.what());
  }
}

MatmulPlan::~MatmulPlan() = default;
MatmulPlan::MatmulPlan(MatmulPlan&&) noexcept = default;

Bytes MatmulPlan::workspace(int threads) const { return implementation_->slot_bytes * static_cast<Bytes>(threads); }

void MatmulPlan::prepare(int threads) { implementation_->prepare(threads); }

void MatmulPlan::run(const MatmulOperands& operands, std::byte* workspace, Workers& workers) const {
  Implementation& plan = *implementation_;
  plan.prepare(workers.threads());
  const std::int64_t count = plan.tiles.empty() ? plan.own.tiles() : plan.rows.count();
  const bool of_each_tile = count <= workers.threads();
  for_tasks(workers, count, plan.shape.products(), [&](std::int64_t tile, int slot) {
    std::byte* slot_workspace = workspace + plan.slot_bytes * static_cast<Bytes>(slot);
    if (plan.tiles.empty()) return plan.own.run(tile, operands, slot_workspace);
    const OneOpenMpThread one_thread;
    const bool smaller = plan.tiles.size() > 1 && tile + 1 == count;
    const Tile& kind = smaller ? plan.tiles.back() : plan.tiles.front();
    const std::int64_t set = smaller ? 0 : of_each_tile ? tile : slot;
    kind.execute(plan.shape, plan.rows.begin(tile), operands, slot_workspace, set, plan.stream.get());
  });
}

bool has_instructions(DType input) {
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);  // a mask that later ones contain
  const bool bf16 = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kNeeded) == kNeeded;
  return input == DType::f32 || (input == DType::bf16 && bf16);
}

std::string_view matmul_library() { return "oneDNN"; }

}  // namespace l2l::device::kernels
