// Kernels of split layers on one GPU, which stands for several: their memory is all its own.
#include <cstring>
#include <future>
#include <numeric>

#include "compiler/autodiff/differentiate.h"
#include "device/host_tensor_group.h"
#include "device/kernels/common/tensor_exchange.h"
#include "device/kernels/logit_panels.h"
#include "tests/conformance/ops/cuda_settings.h"

namespace l2l::test {
namespace {

using compiler::Graph;
using compiler::GraphBuilder;
using compiler::OpKind;
using compiler::Region;
using compiler::Shard;
using compiler::ValueId;
using device::LaunchParameters;
using Floats = std::vector<float>;

// The threads of members meet, and each copies what it gets.
class OneGpuGroup final : public device::cuda::GpuTensorGroup {
 public:
  // `deaf`: what the others give is zeros.
  OneGpuGroup(int members, bool deaf) : meeting_(members), deaf_(deaf) {}

  int members() const override { return meeting_.members(); }
  void all_gather(Place place, const std::byte* given, std::byte* whole, Bytes slice, cudaStream_t stream) override {
    exchange(place, given, 0, whole, slice, stream);
  }
  void all_to_all(Place place, const std::byte* sent, std::byte* received, Bytes slice, cudaStream_t stream) override {
    exchange(place, sent, static_cast<Bytes>(place.member - place.first) * slice, received, slice, stream);
  }
  void abort(std::exception_ptr cause) noexcept override { meeting_.abort(std::move(cause)); }

 private:
  void exchange(Place place, const std::byte* own, Bytes offset, std::byte* received, Bytes slice,
                cudaStream_t stream) {
    device::cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    meeting_.exchange(place.member, own, [&](std::span<const std::byte* const> all) {
      for (int k = 0; k < place.count; ++k) {
        std::byte* const to = received + static_cast<Bytes>(k) * slice;
        const int peer = place.first + k;
        if (deaf_ && peer != place.member) {
          device::cuda::check(cudaMemsetAsync(to, 0, slice, stream), "cudaMemsetAsync");
        } else {
          const std::byte* const from = all[static_cast<std::size_t>(peer)] + offset;
          device::cuda::check(cudaMemcpyAsync(to, from, slice, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
        }
      }
      device::cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    });
  }

  device::HostTensorGroup meeting_;
  const bool deaf_;
};

Floats numbers(std::int64_t count, std::uint32_t op) {
  Floats result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(to_uniform(philox({.seed = 7, .op = op}, static_cast<std::uint32_t>(i))[0]) - 0.5f);
  }
  return result;
}

// A head whose logits fit into the memory that they may take neither for all rows nor for all tokens.
constexpr std::int64_t kRows = 130, kHidden = 16, kVocabulary = 700;
constexpr int kShares = 3;

struct Head {
  double loss = 0;
  Floats dx, dtable;
};

// The last op, and only one, of the gradient of a head's share.
struct Share {
  explicit Share(Shard shard, const device::TensorMember& member)
      : first(shard.count == 1 ? 0 : shard.index * compiler::largest_token_share(kVocabulary, shard.count)),
        tokens(shard.count == 1
                   ? kVocabulary
                   : std::min(compiler::largest_token_share(kVocabulary, shard.count), kVocabulary - first)) {
    GraphBuilder builder("head");
    const ValueId x = builder.bound(Region::input, "x", DType::f32, {kRows, kHidden});
    const ValueId table = builder.bound(Region::weights, "table", DType::f32, {tokens, kHidden});
    const ValueId targets = builder.bound(Region::targets, "targets", DType::i32, {kRows});
    builder.place(builder.apply(OpKind::linear_cross_entropy, {x, table, targets},
                                {.first = first, .vocabulary = kVocabulary, .shard = shard}),
                  Region::loss);
    const Graph graph = compiler::differentiate(builder.finish());
    kernel = device::cuda::make_kernel(cuda_context(), graph, 0, member);
  }

  Head run(const Floats& x, const Floats& table, const std::vector<std::int32_t>& targets) const {
    const auto memory = [](const auto& from) {
      DeviceMemory made(from.size() * sizeof(from[0]), 0);
      made.write(0, std::as_bytes(std::span(from)));
      return made;
    };
    const Floats own(table.begin() + first * kHidden, table.begin() + (first + tokens) * kHidden);
    Head head{0, Floats(x.size()), Floats(own.size(), 0.0f)};
    std::vector<DeviceMemory> operands;
    operands.push_back(memory(x));
    operands.push_back(memory(own));
    operands.push_back(memory(targets));
    operands.push_back(memory(std::vector<double>(1)));
    operands.push_back(memory(head.dx));
    operands.push_back(memory(head.dtable));
    std::vector<std::byte*> addresses;
    for (const DeviceMemory& operand : operands) addresses.push_back(operand.data());
    const DeviceMemory workspace(kernel->workspace() + 1, 0);
    const DeviceMemory parameters = memory(std::vector<LaunchParameters>{{.loss_scale = 0.25f}});
    const CudaStream stream;
    kernel->enqueue(addresses, workspace.data(), reinterpret_cast<const LaunchParameters*>(parameters.data()),
                    stream.get());
    device::cuda::check(cudaStreamSynchronize(stream.get()), "head");
    const auto read = [](const DeviceMemory& from, auto& to) { from.read(0, std::as_writable_bytes(std::span(to))); };
    std::vector<double> loss(1);
    read(operands[3], loss), read(operands[4], head.dx), read(operands[5], head.dtable);
    head.loss = loss[0];
    return head;
  }

  std::int64_t first, tokens;
  std::unique_ptr<device::cuda::Kernel> kernel;
};

class CudaSplitHead : public CudaSettings {
 protected:
  CudaSplitHead() {
    cuda_context().logits = Bytes{64} * kRows * sizeof(float);
    for (std::int32_t row = 0; row < kRows; ++row) targets_.push_back(row == 3 ? -1 : row * 37 % kVocabulary);
  }

  std::vector<Head> run(bool deaf) const {
    const auto group = std::make_shared<OneGpuGroup>(kShares, deaf);
    std::vector<Share> shares;
    for (int i = 0; i < kShares; ++i) shares.emplace_back(Shard{kShares, i}, device::TensorMember{group, i});
    std::vector<std::future<Head>> running;
    for (const Share& share : shares) {
      running.push_back(std::async(std::launch::async, [&] { return share.run(x_, table_, targets_); }));
    }
    std::vector<Head> heads;
    for (std::future<Head>& head : running) heads.push_back(head.get());
    return heads;
  }

  const Floats x_ = numbers(kRows * kHidden, 1), table_ = numbers(kVocabulary * kHidden, 2);
  std::vector<std::int32_t> targets_;
};

TEST_F(CudaSplitHead, HasTheLossAndTheGradientsOfAWholeOne) {
  const Bytes limit = cuda_context().logits;
  ASSERT_GT(device::cuda::LogitPanels::whole_rows(kRows, compiler::largest_token_share(kVocabulary, kShares), limit)
                .tokens.count(),
            1);
  const Head whole = Share({}, {}).run(x_, table_, targets_);
  for (const int variant : variants()) {
    choose_cuda_variant(variant);
    const std::vector<Head> heads = run(/*deaf=*/false);
    Floats dx(whole.dx.size(), 0.0f), dtable;
    for (const Head& head : heads) {
      EXPECT_EQ(head.loss, heads[0].loss);
      EXPECT_NEAR(head.loss, whole.loss, 1e-6 * whole.loss);
      for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += head.dx[i];
      dtable.insert(dtable.end(), head.dtable.begin(), head.dtable.end());
    }
    ASSERT_EQ(dtable.size(), whole.dtable.size());
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], whole.dx[i], 1e-6) << i;
    for (std::size_t i = 0; i < dtable.size(); ++i) ASSERT_NEAR(dtable[i], whole.dtable[i], 1e-6) << i;
  }
}

TEST_F(CudaSplitHead, NegativeControlOfStatisticsThatDoNotCome) {
  const Head whole = Share({}, {}).run(x_, table_, targets_);
  EXPECT_GT(std::abs(run(/*deaf=*/true)[0].loss - whole.loss), 0.1 * whole.loss);
}

}  // namespace
}  // namespace l2l::test
