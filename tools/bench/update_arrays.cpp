#include "tools/bench/update_arrays.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "l2l/errors.h"

namespace l2l::tools {
namespace {

constexpr Bytes kHugePage = Bytes{2} << 20;
constexpr Bytes kSkew = 4096 + 192;  // another page and another set of the first-level cache
constexpr std::int64_t kFillBlock = 1 << 18;
constexpr Bytes kArrays = 14;  // beside the contributions

// Sixteen bits that look random, of element `i`.
std::uint32_t noise(std::int64_t i) {
  std::uint32_t x = static_cast<std::uint32_t>(i) * 0x9e3779b1u;
  x ^= x >> 15;
  return (x * 0x85ebca6bu) >> 16;
}

// +-0.5e-3 to +-1.5e-3.
float gradient_of(std::int64_t i) {
  const std::uint32_t random = noise(i);
  const float magnitude = 0.5e-3f + 1e-3f * static_cast<float>(random >> 1) / 32768.0f;
  return (random & 1) != 0 ? magnitude : -magnitude;
}

std::uint16_t upper_half(float value) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + 0x8000u) >> 16);
}

}  // namespace

BenchMemory::BenchMemory(Bytes capacity, bool huge) : data_(nullptr), capacity_(align_up(capacity, kHugePage)) {
  void* const mapped =
      mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw OutOfMemory("memory of the benchmark: " + format_bytes(capacity_) + " cannot be mapped; lower --parameters");
  }
  data_ = static_cast<std::byte*>(mapped);
  madvise(mapped, capacity_, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

BenchMemory::~BenchMemory() { munmap(data_, capacity_); }

std::byte* BenchMemory::allocate(Bytes size, std::string_view purpose) {
  const auto address = reinterpret_cast<Bytes>(data_);
  const Bytes begin = align_up(address + used_, kHugePage) - address + allocations_ % 64 * kSkew;
  if (begin + size > capacity_) {
    throw OutOfMemory("memory of the benchmark: " + std::string(purpose) + " needs " + format_bytes(size) + ", " +
                      format_bytes(capacity_ - std::min(capacity_, begin)) + " of " + format_bytes(capacity_) +
                      " are left");
  }
  ++allocations_;
  allocated_ += size;
  used_ = begin + size;
  return data_ + begin;
}

Bytes UpdateArrays::bytes(Bytes parameters, int contributions) {
  const Bytes state = 4 + 4 + 2 + 2 + 2 + 2 + 2 * (4 + 2 + 1);
  return parameters * (state + 2 * static_cast<Bytes>(contributions)) +
         2 * optimizers::scale_bytes(optimizers::MomentFormat::int8, parameters) +
         (kArrays + static_cast<Bytes>(contributions)) * BenchMemory::kSlack;
}

UpdateArrays::UpdateArrays(std::int64_t parameters, int contributions, BenchMemory& memory, Workers& workers)
    : parameters_(parameters), contributions_(std::clamp(contributions, 1, kMostContributions)) {
  const auto size = static_cast<Bytes>(parameters);
  const Bytes scales = optimizers::scale_bytes(optimizers::MomentFormat::int8, size) / sizeof(std::uint16_t);
  const auto take = [&]<typename T>(T*& array, Bytes elements) {
    array = reinterpret_cast<T*>(memory.allocate(elements * sizeof(T), "arrays of the updates"));
  };
  take(master_, size);
  take(gradient_f32_, size);
  for (std::uint16_t** const array : {&wire_f16_, &gradient_f16_, &wire_bf16_, &low_}) take(*array, size);
  for (int k = 0; k < contributions_; ++k) take(gradients_bf16_[static_cast<std::size_t>(k)], size);
  for (Moment& moment : moments_) {
    take(moment.f32, size);
    take(moment.bf16, size);
    take(moment.int8, size);
    take(moment.scales, scales);
  }
  std::fill_n(moments_[0].scales, scales, upper_half(1.5e-3f));
  std::fill_n(moments_[1].scales, scales, upper_half(2.25e-6f));
  workers.parallel_for((parameters + kFillBlock - 1) / kFillBlock, [&](std::int64_t block, int) {
    fill(block * kFillBlock, std::min((block + 1) * kFillBlock, parameters_));
  });
}

void UpdateArrays::fill(std::int64_t begin, std::int64_t end) const {
  for (std::int64_t i = begin; i < end; ++i) {
    const float gradient = gradient_of(i);
    const float weight = 0.1f * (static_cast<float>(noise(i + 7)) / 32768.0f - 1);
    const auto bits = std::bit_cast<std::uint32_t>(weight);
    master_[i] = weight;
    gradient_f32_[i] = gradient;
    wire_f16_[i] = to_f16(weight).bits;
    gradient_f16_[i] = to_f16(gradient).bits;
    wire_bf16_[i] = upper_half(weight);
    low_[i] = static_cast<std::uint16_t>(bits);
    for (int k = 0; k < contributions_; ++k) {
      const float larger = gradient * (1 + 0.125f * static_cast<float>(k));
      gradients_bf16_[static_cast<std::size_t>(k)][i] = upper_half(larger);
    }
    moments_[0].f32[i] = gradient;
    moments_[1].f32[i] = gradient * gradient;
    moments_[0].bf16[i] = upper_half(gradient);
    moments_[1].bf16[i] = upper_half(gradient * gradient);
    moments_[0].int8[i] = static_cast<std::uint8_t>(noise(i) % 255 - 127);  // any code is a value
    moments_[1].int8[i] = static_cast<std::uint8_t>(128 + noise(i) % 128);
  }
}

optimizers::MomentStream UpdateArrays::moment(int which, optimizers::MomentFormat format, std::int64_t begin) const {
  const Moment& moment = moments_[which];
  switch (format) {
    case optimizers::MomentFormat::f32:
      return {moment.f32 + begin, nullptr};
    case optimizers::MomentFormat::bf16:
      return {moment.bf16 + begin, nullptr};
    case optimizers::MomentFormat::int8:
      return {moment.int8 + begin, moment.scales + begin / 32};
  }
  return {};
}

optimizers::Streams UpdateArrays::run(std::int64_t begin, std::size_t count, DType wire,
                                      optimizers::MomentFormats moments, int contributions,
                                      Gradients& gradients) const {
  optimizers::Streams streams;
  streams.count = count;
  streams.gradients = gradients.data();
  streams.contributions = static_cast<std::size_t>(contributions);
  streams.factor = 1.0f / static_cast<float>(contributions);
  streams.first = moment(0, moments.first, begin);
  streams.second = moment(1, moments.second, begin);
  streams.index = static_cast<std::uint32_t>(begin);
  streams.key = 0x243f6a88u;
  if (wire == DType::bf16) {
    for (std::size_t k = 0; k < streams.contributions; ++k) gradients[k] = gradients_bf16_[k] + begin;
    streams.wire = wire_bf16_ + begin;
    streams.master = low_ + begin;
  } else if (wire == DType::f16) {
    gradients[0] = gradient_f16_ + begin;
    streams.wire = wire_f16_ + begin;
    streams.master = master_ + begin;
  } else {
    gradients[0] = gradient_f32_ + begin;
    streams.wire = master_ + begin;
  }
  return streams;
}

}  // namespace l2l::tools
