// Programs: compiled once, launched with bindings and parameters.
#include "l2l/errors.h"
#include "tests/conformance/device/device_test.h"

namespace l2l::device {
namespace {

class Launches : public DeviceTest {
 protected:
  static constexpr std::int64_t kElements = 4096;
  static constexpr Bytes kSize = kElements * sizeof(float);

  const std::unique_ptr<Executable> triple_ = device_->compile(triple(kElements));
  const std::unique_ptr<Buffer> scratch_ = device_->allocate(triple_->program().scratch_bytes, "scratch");
  const std::unique_ptr<Buffer> a_ = device_->allocate(kSize, "a"), b_ = device_->allocate(kSize, "b");
  const std::unique_ptr<Buffer> source_ = ramp(*device_), result_ = pinned(*device_, kSize, 0xFF);

  static std::unique_ptr<Buffer> ramp(Device& device) {
    auto buffer = device.allocate_pinned(kSize, "ramp");
    auto* values = reinterpret_cast<float*>(buffer->view().data);
    for (std::int64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i % 7) - 3;
    return buffer;
  }

  Bindings bind(const Buffer& input, const Buffer& output, const Buffer& scratch) {
    Bindings bindings;
    bindings[compiler::Region::input] = input.view();
    bindings[compiler::Region::output] = output.view();
    bindings[compiler::Region::scratch] = scratch.view();
    return bindings;
  }

  void expect_scaled(const Buffer& result, float factor) {
    const auto* before = reinterpret_cast<const float*>(source_->view().data);
    const auto* after = reinterpret_cast<const float*>(result.view().data);
    for (std::int64_t i = 0; i < kElements; ++i) ASSERT_EQ(after[i], factor * before[i]) << i;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Launches, ::testing::ValuesIn(backends()), backend_name);

TEST_P(Launches, ComputeWhatTheGraphSays) {
  if (!computes()) GTEST_SKIP() << "launches compute nothing";
  const auto stream = device_->create_stream("compute");
  device_->copy(*stream, a_->view(), source_->view());
  device_->launch(*stream, *triple_, bind(*a_, *b_, *scratch_), {});
  device_->copy(*stream, result_->view(), b_->view());
  device_->synchronize(*stream);
  expect_scaled(*result_, 3);
}

// Each launch reads what the one before it wrote; bindings were copied, so one object serves for all.
TEST_P(Launches, FollowEachOtherInOrder) {
  if (!computes()) GTEST_SKIP() << "launches compute nothing";
  const auto stream = device_->create_stream("compute");
  device_->copy(*stream, a_->view(), source_->view());
  Bindings bindings;
  for (int i = 0; i < 12; ++i) {
    bindings = i % 2 == 0 ? bind(*a_, *b_, *scratch_) : bind(*b_, *a_, *scratch_);
    device_->launch(*stream, *triple_, bindings, {});
  }
  bindings = {};
  device_->copy(*stream, result_->view(), a_->view());
  device_->synchronize(*stream);
  expect_scaled(*result_, 531441);  // 3^12
}

TEST_P(Launches, RunOnSeveralStreamsAtOnce) {
  if (!computes()) GTEST_SKIP() << "launches compute nothing";
  constexpr int kStreams = 3;
  struct Lane {
    std::unique_ptr<Buffer> a, b, scratch, result;
    std::unique_ptr<Stream> stream;
  };
  std::vector<Lane> lanes;
  for (int i = 0; i < kStreams; ++i) {
    lanes.push_back({device_->allocate(kSize, "a"), device_->allocate(kSize, "b"),
                     device_->allocate(triple_->program().scratch_bytes, "scratch"), pinned(*device_, kSize, 0xFF),
                     device_->create_stream("lane")});
    device_->copy(*lanes.back().stream, lanes.back().a->view(), source_->view());
  }
  for (int i = 0; i < 10; ++i) {
    for (Lane& lane : lanes) {
      device_->launch(*lane.stream, *triple_,
                      i % 2 ? bind(*lane.b, *lane.a, *lane.scratch) : bind(*lane.a, *lane.b, *lane.scratch), {});
    }
  }
  for (Lane& lane : lanes) {
    device_->copy(*lane.stream, lane.result->view(), lane.a->view());
    device_->synchronize(*lane.stream);
    expect_scaled(*lane.result, 59049);  // 3^10
  }
}

TEST_P(Launches, ARegionThatIsTooSmallIsNamed) {
  const auto stream = device_->create_stream("compute");
  Bindings bindings = bind(*a_, *b_, *scratch_);
  bindings[compiler::Region::output] = b_->view().slice(0, kSize - 4);
  try {
    device_->launch(*stream, *triple_, bindings, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("region output"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("triple"), std::string::npos) << error.what();
  }
  device_->synchronize(*stream);
}

}  // namespace
}  // namespace l2l::device
