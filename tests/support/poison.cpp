#include "tests/support/poison.h"

#include <algorithm>
#include <utility>

namespace l2l::testing {
namespace {

class PoisonedBuffer : public device::Buffer {
 public:
  explicit PoisonedBuffer(std::unique_ptr<device::Buffer> buffer) : Buffer(buffer->view()), buffer_(std::move(buffer)) {
    fill();
  }
  ~PoisonedBuffer() override { fill(); }
  PoisonedBuffer(const PoisonedBuffer&) = delete;
  PoisonedBuffer& operator=(const PoisonedBuffer&) = delete;

 private:
  void fill() { std::fill_n(view_.data, view_.size, kPoison); }

  std::unique_ptr<device::Buffer> buffer_;
};

}  // namespace

std::unique_ptr<device::Buffer> poisoned(std::unique_ptr<device::Buffer> buffer) {
  return std::make_unique<PoisonedBuffer>(std::move(buffer));
}

}  // namespace l2l::testing
