// Runs the forward and backward programs of a layer on a host device, with random weights and inputs.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "compiler/autodiff/differentiate.h"
#include "core/half_rows.h"
#include "device/host/host_device.h"

namespace l2l::compiler::remat {

struct VisitResults {
  std::vector<std::byte> output, input_gradient, gradients;
  bool operator==(const VisitResults&) const = default;
};

class VisitRun {
 public:
  explicit VisitRun(const compiler::Visits& visits)
      : device_(1, 0),
        stream_(device_.create_stream("test")),
        forward_(device_.compile(visits.forward)),
        backward_(device_.compile(visits.backward)) {
    for (const compiler::Graph* const graph : {&visits.forward, &visits.backward}) {
      for (std::size_t i = 0; i < memory_.size(); ++i) {
        memory_[i].resize(std::max(memory_[i].size(), static_cast<std::size_t>(graph->region_bytes(
                                                          compiler::Region{static_cast<std::uint8_t>(i)}))));
      }
      draw(*graph);
    }
  }

  Bytes forward_scratch() const { return forward_->program().scratch_bytes; }
  Bytes backward_scratch() const { return backward_->program().scratch_bytes; }

  // Scratch is poisoned, and exactly as large as the programs ask for, with a guard behind it that must not change.
  VisitResults run() {
    launch(*forward_);
    launch(*backward_);
    return {of(compiler::Region::output), of(compiler::Region::input_gradient), of(compiler::Region::gradients)};
  }

 private:
  static constexpr std::size_t kGuard = 4096;

  std::vector<std::byte>& of(compiler::Region region) { return memory_[static_cast<std::size_t>(region)]; }

  void draw(const compiler::Graph& graph) {
    for (const compiler::Value& value : graph.values) {
      const bool drawn = value.region == compiler::Region::weights || value.region == compiler::Region::input ||
                         value.region == compiler::Region::output_gradient;
      if (!drawn) continue;
      std::uint32_t state = 1 + static_cast<std::uint32_t>(value.offset);
      for (Bytes at = 0; at < value.bytes(); at += size_of(value.dtype)) {
        state = state * 1664525u + 1013904223u;
        const float x = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-32f;
        write(of(value.region).data() + value.offset + at, value.dtype, x);
      }
    }
  }

  static void write(std::byte* to, DType dtype, float x) {
    if (dtype == DType::f32) std::memcpy(to, &x, sizeof x);
    if (dtype == DType::bf16) {
      const bf16 rounded = to_bf16(x);
      std::memcpy(to, &rounded, sizeof rounded);
    }
    if (dtype == DType::f16) {
      const f16 rounded = to_f16(x);
      std::memcpy(to, &rounded, sizeof rounded);
    }
  }

  void launch(const Executable& program) {
    const std::size_t scratch_bytes = program.program().scratch_bytes;
    const std::unique_ptr<Buffer> scratch = device_.allocate(scratch_bytes + kGuard, "scratch");
    std::memset(scratch->view().data, 0xFF, scratch_bytes + kGuard);
    Bindings bindings;
    for (std::size_t i = 0; i < memory_.size(); ++i) bindings.regions[i] = {memory_[i].data(), memory_[i].size()};
    bindings[compiler::Region::scratch] = scratch->view().slice(0, scratch_bytes);
    LaunchParameters parameters;
    parameters.seed = 5;
    parameters.step = 3;
    device_.launch(*stream_, program, bindings, parameters);
    device_.synchronize(*stream_);
    for (std::size_t i = 0; i < kGuard; ++i) ASSERT_EQ(scratch->view().data[scratch_bytes + i], std::byte{0xFF});
  }

  HostDevice device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Executable> forward_, backward_;
  std::array<std::vector<std::byte>, static_cast<std::size_t>(compiler::Region::count)> memory_;
};

}  // namespace l2l::compiler::remat
