// Memory, copies and what is counted.
#include "device/open.h"
#include "l2l/errors.h"
#include "tests/conformance/device/device_test.h"

namespace l2l::device {
namespace {

class Memory : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, Memory, ::testing::ValuesIn(backends()), backend_name);

TEST_P(Memory, IsCountedToTheByte) {
  EXPECT_EQ(device_->allocated_bytes(), 0u);
  auto first = device_->allocate(1'000'003, "first");
  EXPECT_EQ(first->view().size, 1'000'003u);
  auto second = device_->allocate(1, "second");
  auto nothing = device_->allocate(0, "nothing");
  EXPECT_EQ(nothing->view().size, 0u);
  const auto host = device_->allocate_pinned(1 << 20, "pinned");
  EXPECT_EQ(device_->allocated_bytes(), 1'000'004u);
  first.reset();
  EXPECT_EQ(device_->allocated_bytes(), 1u);
  second = device_->allocate(500, "third");
  EXPECT_EQ(device_->allocated_bytes(), 500u);
  EXPECT_EQ(device_->peak_bytes(), 1'000'004u);
  second.reset();
  nothing.reset();
  EXPECT_EQ(device_->allocated_bytes(), 0u);
}

TEST_P(Memory, RefusalNamesThePurposeAndLeavesTheCountAlone) {
  for (const Bytes size : {Bytes{1} << 60, ~Bytes{0}}) {
    try {
      const auto buffer = device_->allocate(size, "weight arena");
      FAIL() << "a device with " << size << " bytes";
    } catch (const OutOfMemory& error) {
      EXPECT_NE(std::string(error.what()).find("weight arena"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(std::to_string(size)), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(device_->allocate_pinned(Bytes{1} << 60, "stash"), OutOfMemory);
  EXPECT_EQ(device_->allocated_bytes(), 0u);
  EXPECT_EQ(device_->peak_bytes(), 0u);
}

// Host to device, within the device, and back; nothing beside the range changes.
TEST_P(Memory, CopiesMoveExactlyTheirRange) {
  constexpr Bytes kGuard = 32;
  const auto stream = device_->create_stream("copies");
  for (const Bytes size : {0, 1, 3, 63, 64, 65, 4095, 4096, 4097, (1 << 20) + 1, 16 << 20}) {
    const Bytes whole = size + 2 * kGuard;
    const auto source = pinned(*device_, whole, 0), result = pinned(*device_, whole, 0xAB);
    for (Bytes i = 0; i < whole; ++i) source->view().data[i] = static_cast<std::byte>(i * 31 + i / 251);
    const auto first = device_->allocate(whole, "first"), second = device_->allocate(whole, "second");
    device_->copy(*stream, first->view().slice(0, size), source->view().slice(kGuard, size));
    device_->copy(*stream, second->view().slice(kGuard, size), first->view().slice(0, size));
    device_->copy(*stream, result->view().slice(kGuard, size), second->view().slice(kGuard, size));
    device_->synchronize(*stream);
    const std::byte* expected = source->view().data + kGuard;
    EXPECT_TRUE(std::equal(expected, expected + size, result->view().data + kGuard)) << size;
    EXPECT_TRUE(all(result->view().slice(0, kGuard), 0xAB)) << size;
    EXPECT_TRUE(all(result->view().slice(kGuard + size, kGuard), 0xAB)) << size;
  }
}

// Rows among others that stay as they are, down and up, near and apart, as many as more than one call takes.
TEST_P(Memory, CopiesOfRowsMoveExactlyTheirRanges) {
  struct Case {
    Bytes row, rows, host_stride, device_stride;
  };
  const auto stream = device_->create_stream("rows");
  for (const Case& each : {Case{1, 1, 1, 1}, Case{7, 5, 7, 7}, Case{12, 100, 40, 12}, Case{64, 33, 96, 80},
                           Case{1000, 9000, 1003, 1000}, Case{5 << 20, 3, (5 << 20) + 3, 5 << 20}, Case{8, 0, 16, 8}}) {
    const Bytes host = each.rows * each.host_stride + 32, on_device = each.rows * each.device_stride + 32;
    const auto source = pinned(*device_, host, 0), result = pinned(*device_, host, 0xAB);
    for (Bytes i = 0; i < host; ++i) source->view().data[i] = static_cast<std::byte>(i * 31 + i / 251);
    const auto first = device_->allocate(on_device, "first"), second = device_->allocate(on_device, "second");
    const auto copy = [&](std::byte* to, Bytes to_stride, const std::byte* from, Bytes from_stride) {
      device_->copy_rows(*stream, {.destination = to,
                                   .destination_stride = to_stride,
                                   .source = from,
                                   .source_stride = from_stride,
                                   .row = each.row,
                                   .rows = each.rows});
    };
    copy(first->view().data + 16, each.device_stride, source->view().data + 16, each.host_stride);
    copy(second->view().data, each.device_stride, first->view().data + 16, each.device_stride);
    copy(result->view().data + 16, each.host_stride, second->view().data, each.device_stride);
    device_->synchronize(*stream);
    Bytes wrong = 0;
    for (Bytes i = 0; i < host; ++i) {
      const bool inside = i >= 16 && i < 16 + each.rows * each.host_stride && (i - 16) % each.host_stride < each.row;
      wrong += result->view().data[i] != (inside ? source->view().data[i] : std::byte{0xAB}) ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0u) << each.rows << " rows of " << each.row;
  }
}

TEST_P(Memory, ZeroFillsExactlyItsRange) {
  const auto stream = device_->create_stream("zero");
  const auto ones = pinned(*device_, 1000, 1), result = pinned(*device_, 1000, 2);
  const auto memory = device_->allocate(1000, "memory");
  device_->copy(*stream, memory->view(), ones->view());
  device_->fill_zero(*stream, memory->view().slice(10, 500));
  device_->fill_zero(*stream, memory->view().slice(700, 0));
  device_->copy(*stream, result->view(), memory->view());
  device_->synchronize(*stream);
  EXPECT_TRUE(all(result->view().slice(0, 10), 1));
  EXPECT_TRUE(all(result->view().slice(10, 500), 0));
  EXPECT_TRUE(all(result->view().slice(510, 490), 1));
}

TEST_P(Memory, CopiesOfDifferentSizesAreRefused) {
  const auto stream = device_->create_stream("copies");
  const auto memory = device_->allocate(100, "memory"), host = device_->allocate_pinned(100, "host");
  EXPECT_THROW(device_->copy(*stream, memory->view(), host->view().slice(0, 99)), Error);
}

TEST(Open, KindsThatExistAndOneThatDoesNot) {
  EXPECT_NE(open_device({.kind = "host", .threads = 3})->description().find("host (3 threads, "), std::string::npos);
  EXPECT_NE(open_device({.kind = "host", .threads = 1})->description().find("host (1 thread, "), std::string::npos);
  EXPECT_TRUE(open_device({.kind = "host"})->uses_host_memory());
  EXPECT_NO_THROW(open_device({}));
  EXPECT_THROW(open_device({.kind = "abacus"}), BadInput);
  EXPECT_THROW(open_device({.kind = "host", .threads = -1}), BadInput);
}

}  // namespace
}  // namespace l2l::device
