#include "compiler/ir/graph.h"
#include "compiler/ir/op_check.h"
#include "compiler/ir/op_table.h"
#include "l2l/errors.h"

namespace l2l::compiler {
namespace {

// saved: written by the forward graph, read by the backward graph.
enum class Use : std::uint8_t { read, accumulated, written, carried, saved };

Use use_of(Region region) {
  switch (region) {
    case Region::output:
    case Region::input_gradient:
    case Region::loss:
    case Region::drained:
    case Region::scratch:
      return Use::written;
    case Region::gradients:
      return Use::accumulated;
    case Region::normed:
    case Region::carry:
    case Region::cache:
      return Use::carried;
    case Region::saved:
      return Use::saved;
    default:
      return Use::read;
  }
}

bool fits(Region region, DType dtype) {
  switch (region) {
    case Region::targets:
    case Region::tokens:
      return dtype == DType::i32 || dtype == DType::f32;
    case Region::rows:
      return dtype == DType::i32;
    case Region::loss:
      return dtype == DType::f64;
    case Region::gradients:
      return dtype == DType::f32;
    case Region::scratch:
    case Region::carry:
    case Region::saved:
      return true;
    case Region::input:
    case Region::output:
      return is_compute_type(dtype) || dtype == DType::i32;  // a fixed-point stream
    case Region::drained:
      return is_compute_type(dtype) || dtype == DType::f64;  // gradients, and their sum of squares
    default:
      return is_compute_type(dtype);
  }
}

class Validation {
 public:
  explicit Validation(const Graph& graph)
      : graph_(graph), made_(graph.values.size(), false), read_(graph.values.size(), false) {}

  void run() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) value(i);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) op(i);
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (use_of(value.region) != Use::written || value.region == Region::scratch || made_[i]) continue;
      throw Error(named(value) + " in " + std::string(name_of(value.region)) + " is made by no op");
    }
  }

 private:
  void value(std::size_t i) const {
    const Value& value = graph_.values[i];
    if (value.region >= Region::count) throw Error(named(value) + " lives in no known region");
    if (!fits(value.region, value.dtype)) {
      throw Error(named(value) + " does not fit the region " + std::string(name_of(value.region)));
    }
    if (value.offset % size_of(value.dtype) != 0) throw Error(named(value) + " is not aligned to its element size");
    if (value.region == Region::scratch) return;
    for (std::size_t j = 0; j < i; ++j) disjoint(graph_.values[j], value);
  }

  // A parameter with two uses may be bound twice; any other overlap is a mistake of offsets.
  void disjoint(const Value& a, const Value& b) const {
    if (a.region != b.region || a.offset >= b.offset + b.bytes() || b.offset >= a.offset + a.bytes()) return;
    const bool same = a.offset == b.offset && a.shape == b.shape && a.dtype == b.dtype;
    if (same && use_of(a.region) != Use::written) return;
    throw Error(named(a) + " and " + describe(b) + " overlap in " + std::string(name_of(a.region)));
  }

  void op(std::size_t i) {
    const Op& op = graph_.ops[i];
    try {
      check_op(graph_, op, i);
    } catch (const BadInput& error) {
      throw Error(error.what());
    }
    where_ = "op " + std::to_string(i) + ", " + std::string(name_of(op.kind)) + ": ";
    for (const ValueId id : op.inputs) read(id);
    for (std::size_t k = 0; k < op.outputs.size(); ++k) write(op.outputs[k], accumulates(op, k));
    where_.clear();
  }

  void read(ValueId id) {
    const Value& value = graph_.value(id);
    read_[static_cast<std::size_t>(id)] = true;
    if (use_of(value.region) != Use::written || made_[static_cast<std::size_t>(id)]) return;
    throw Error(named(value) + " is read before an op made it");
  }

  void write(ValueId id, bool accumulated) {
    const Value& value = graph_.value(id);
    const Use use = use_of(value.region);
    if (use == Use::carried) return;
    if (accumulated ? use != Use::accumulated : use != Use::written && use != Use::saved) {
      throw Error(named(value) + " lives in " + std::string(name_of(value.region)) + ", where the op cannot " +
                  (accumulated ? "accumulate" : "write"));
    }
    if (accumulated) return;
    if (made_[static_cast<std::size_t>(id)]) throw Error(named(value) + " is made a second time");
    if (read_[static_cast<std::size_t>(id)]) throw Error(named(value) + " is made after an op read it");
    made_[static_cast<std::size_t>(id)] = true;
  }

  std::string named(const Value& value) const { return graph_.name + ": " + where_ + describe(value); }

  const Graph& graph_;
  std::vector<bool> made_, read_;
  std::string where_;
};

}  // namespace

void Graph::validate() const { Validation(*this).run(); }

}  // namespace l2l::compiler
