#include <cstdint>

#include "core/packed.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Unpack final : public Kernel {
 public:
  Unpack(const OpView& op)
      : rows_(op.input(0).shape[0]),
        words_(op.input(0).shape[1]),
        elements_(op.output(0).shape.elements() / rows_),
        packed_(op.attributes.packed) {
    op.require_dtype(DType::i32, {0});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    for_rows(rows_, elements_, workers, [&](std::int64_t row) {
      const std::byte* const words = operands[0] + static_cast<std::size_t>(row * words_) * sizeof(std::int32_t);
      T* const y = as<T>(operands[1]) + row * elements_;
      if (packed_ == Packed::u8) return convert(reinterpret_cast<const std::uint8_t*>(words), y);
      if (packed_ == Packed::f16) return convert(reinterpret_cast<const f16*>(words), y);
      if (packed_ == Packed::bf16) return convert(reinterpret_cast<const bf16*>(words), y);
      convert(reinterpret_cast<const float*>(words), y);
    });
  }

 private:
  static float number(std::uint8_t element) { return element; }
  template <typename Element>
  static float number(Element element) {
    return widen(element);
  }

  template <typename Element>
  void convert(const Element* elements, T* y) const {
#pragma omp simd
    for (std::int64_t i = 0; i < elements_; ++i) y[i] = narrow<T>(number(elements[i]));
  }

  std::int64_t rows_, words_, elements_;  // of a row
  Packed packed_;
};

}  // namespace

const Factory make_unpack = make_for_output<Unpack>;

}  // namespace l2l::device::kernels
