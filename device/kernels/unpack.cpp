#include <algorithm>
#include <cstdint>

#include "core/word_elements.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Unpack final : public Kernel {
 public:
  Unpack(const OpView& op)
      : words_(op.input(0).shape[1]),
        elements_(op.output(0).shape.elements() / op.input(0).shape[0]),
        blocks_(element_blocks(op.output(0).shape.elements())),
        type_(op.attributes.word_element) {
    op.require_dtype(DType::i32, {0});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    workers.parallel_for(blocks_.count(), [&](std::int64_t block, int) {
      const std::int64_t end = blocks_.end(block);
      for (std::int64_t at = blocks_.begin(block), count = 0; at < end; at += count) {
        const std::int64_t row = at / elements_, first = at % elements_;
        count = std::min(elements_ - first, end - at);
        convert(operands[0] + static_cast<std::size_t>(row * words_) * sizeof(std::int32_t), first, count,
                as<T>(operands[1]) + at);
      }
    });
  }

 private:
  static float number(std::uint8_t element) { return element; }
  template <typename Element>
  static float number(Element element) {
    return widen(element);
  }

  // Elements [first, first + count) of a row's words.
  void convert(const std::byte* words, std::int64_t first, std::int64_t count, T* y) const {
    const auto from = [=](const auto* elements) {
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) y[i] = narrow<T>(number(elements[first + i]));
    };
    if (type_ == WordElement::u8) return from(reinterpret_cast<const std::uint8_t*>(words));
    if (type_ == WordElement::f16) return from(reinterpret_cast<const f16*>(words));
    from(reinterpret_cast<const bf16*>(words));
  }

  std::int64_t words_, elements_;  // of a row
  Partition blocks_;
  WordElement type_;
};

}  // namespace

const Factory make_unpack = make_for_output<Unpack>;

}  // namespace l2l::device::kernels
