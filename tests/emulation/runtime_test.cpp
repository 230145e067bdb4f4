// The stand-in for the CUDA runtime: streams, events, captures, memory, and its refusals.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/emulation/runtime.h"
#include "tests/emulation/test_kernels.h"

namespace l2l::test {
namespace {

using std::chrono::milliseconds;

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

cudaEvent_t make_event(unsigned int flags = 0) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
  return event;
}

void enqueue_delay(cudaStream_t stream, milliseconds duration) {
  emulation::enqueue(stream, [duration] { std::this_thread::sleep_for(duration); });
}

class Runtime : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device_), 4096), cudaSuccess);
    ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&pinned_), 4096, 0), cudaSuccess);
  }
  void TearDown() override {
    cudaDeviceSynchronize();
    emulation::clear_error();
    cudaGetLastError();
    emulation::set_machine({});
    cudaStreamDestroy(one_);
    cudaStreamDestroy(two_);
    cudaEventDestroy(event_);
    cudaFree(device_);
    cudaFreeHost(pinned_);
  }

  cudaStream_t one_ = make_stream(), two_ = make_stream();
  cudaEvent_t event_ = make_event();
  std::byte* device_ = nullptr;
  std::byte* pinned_ = nullptr;
};

TEST_F(Runtime, StreamsRunBesideOneAnotherAndEventsOrderThem) {
  std::atomic<int> value = 0;
  enqueue_delay(one_, milliseconds(50));
  emulation::enqueue(one_, [&] { value = 1; });
  cudaEventRecord(event_, one_);
  emulation::enqueue(two_, [&] { EXPECT_EQ(value, 0); });
  cudaStreamWaitEvent(two_, event_, 0);
  emulation::enqueue(two_, [&] { EXPECT_EQ(value, 1); });
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(two_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
}

TEST_F(Runtime, EventsMeasureTime) {
  const cudaEvent_t end = make_event(), untimed = make_event(cudaEventDisableTiming);
  float ms = 0;
  EXPECT_EQ(cudaEventElapsedTime(&ms, event_, end), cudaErrorInvalidResourceHandle);  // never recorded
  for (const cudaEvent_t event : {event_, untimed}) cudaEventRecord(event, one_);
  enqueue_delay(one_, milliseconds(20));
  cudaEventRecord(end, one_);
  EXPECT_EQ(cudaEventElapsedTime(&ms, event_, end), cudaErrorNotReady);
  cudaEventSynchronize(end);
  EXPECT_EQ(cudaEventElapsedTime(&ms, event_, end), cudaSuccess);
  EXPECT_GE(ms, 20);
  EXPECT_EQ(cudaEventElapsedTime(&ms, untimed, end), cudaErrorInvalidResourceHandle);
  cudaEventDestroy(end);
  cudaEventDestroy(untimed);
}

TEST_F(Runtime, CopiesFromLockedMemoryAreAsynchronousAndOthersAreNot) {
  std::vector<std::byte> pageable(4096);
  enqueue_delay(one_, milliseconds(50));
  ASSERT_EQ(cudaMemcpyAsync(device_, pinned_, 4096, cudaMemcpyHostToDevice, one_), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(one_), cudaErrorNotReady);
  ASSERT_EQ(cudaMemcpyAsync(device_, pageable.data(), 4096, cudaMemcpyHostToDevice, one_), cudaSuccess);
  EXPECT_EQ(device_[0], std::byte{0});  // done already
}

TEST_F(Runtime, CopiesMustFitTheirMemory) {
  const auto copy = [&](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, one_);
  };
  EXPECT_EQ(copy(device_, device_ + 2048, 2048, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(copy(device_, pinned_, 2048, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(pinned_, device_, 2048, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device_, pinned_ + 2048, 2049, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device_ + 4096 - 8, pinned_, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(pinned_, 0, 16, one_), cudaErrorInvalidValue);
}

TEST_F(Runtime, MemoryIsPoisonedAndCounted) {
  EXPECT_EQ(device_[0], std::byte{0xFF});
  std::size_t free = 0, total = 0;
  emulation::set_machine({.memory = 8192, .pinnable = 8192});
  cudaMemGetInfo(&free, &total);
  EXPECT_EQ(free, 4096u);
  EXPECT_EQ(total, 8192u);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 4097), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&more, 4096), cudaSuccess);
  EXPECT_EQ(cudaFree(more), cudaSuccess);
  std::vector<std::byte> host(8192);
  EXPECT_EQ(cudaHostRegister(host.data(), 8192, 0), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaHostRegister(host.data(), 4096, 0), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(host.data(), 4096, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(Runtime, GraphsReplayWhatWasCaptured) {
  int runs = 0;
  ASSERT_EQ(cudaStreamBeginCapture(one_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  emulation::enqueue(one_, [&] { ++runs; });
  ASSERT_EQ(cudaEventRecord(event_, one_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(two_, event_, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 7, 4096, two_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, two_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(one_, event_, 0), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(one_, &graph), cudaSuccess);
  EXPECT_EQ(runs, 0);
  cudaGraphExec_t made = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&made, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(made, one_), cudaSuccess);
  cudaGraphExecDestroy(made);
  EXPECT_EQ(cudaStreamSynchronize(one_), cudaSuccess);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(device_[4095], std::byte{7});
}

TEST_F(Runtime, CapturesRefuseWhatCannotBeCaptured) {
  cudaGraph_t graph = nullptr;
  void* memory = nullptr;
  const auto begin = [&] { ASSERT_EQ(cudaStreamBeginCapture(one_, cudaStreamCaptureModeThreadLocal), cudaSuccess); };
  begin();
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(one_, &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  EXPECT_EQ(cudaStreamSynchronize(one_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(one_, &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  cudaEventRecord(event_, one_);
  cudaStreamWaitEvent(two_, event_, 0);
  EXPECT_EQ(cudaStreamEndCapture(one_, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaStreamEndCapture(one_, &graph), cudaErrorIllegalState);
  const cudaEvent_t outside = make_event();
  cudaEventRecord(outside, two_);
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(one_, outside, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(one_, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  cudaEventDestroy(outside);
}

TEST_F(Runtime, FaultsAreStickyAndNothingHangs) {
  bool ran = false;
  launch_divergent_barrier();
  cudaDeviceSynchronize();
  emulation::enqueue(one_, [&] { ran = true; });
  EXPECT_EQ(cudaStreamSynchronize(one_), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaEventRecord(event_, one_), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorLaunchFailure);
  EXPECT_FALSE(ran);
}

TEST_F(Runtime, AStreamThatIsDestroyedFinishesItsWork) {
  std::atomic<bool> done = false;
  const cudaStream_t stream = make_stream();
  enqueue_delay(stream, milliseconds(30));
  emulation::enqueue(stream, [&] { done = true; });
  cudaStreamDestroy(stream);
  EXPECT_FALSE(done);
  cudaDeviceSynchronize();
  EXPECT_TRUE(done);
}

TEST_F(Runtime, MachinesWithoutADriverOrADevice) {
  int count = -1;
  emulation::set_machine({.driver = 0});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  emulation::set_machine({.devices = 0});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
  emulation::set_machine({.devices = 2});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
}

}  // namespace
}  // namespace l2l::test
