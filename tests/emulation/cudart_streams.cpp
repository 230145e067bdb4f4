// Streams, events and graphs of the stand-in runtime.
#include <atomic>

#include "tests/emulation/state.h"
#include "tests/emulation/stream.h"

namespace l2l::emulation {
namespace {

std::atomic<int> graphs_counted{0};

// Captures that this thread began and that go on.
thread_local std::vector<std::shared_ptr<Capture>> captures;

bool captured(cudaStream_t stream) {
  const std::lock_guard lock(capture_mutex());
  return stream_of(stream)->capture != nullptr;
}

cudaError_t spoil(cudaStream_t stream) {
  const std::lock_guard lock(capture_mutex());
  stream_of(stream)->capture->spoiled = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t synchronize(cudaStream_t stream) {
  if (captured(stream)) return spoil(stream);
  stream_of(stream)->mark()->wait();
  return state().error.status();
}

int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  const std::lock_guard lock(capture_mutex());
  event->capture = stream->capture;
  event->captured_stream = stream;
  if (!stream->capture) event->moment = stream->mark();
  return cudaSuccess;
}

// The stream joins the capture that the event was recorded in.
cudaError_t join(cudaStream_t stream, const CUevent_st& event) {
  Capture& capture = *event.capture;
  if (stream->capture && stream->capture != event.capture) return cudaErrorStreamCaptureIsolation;
  stream->capture = event.capture;
  capture.streams.insert(stream);
  capture.unjoined.erase(event.captured_stream);
  if (stream != capture.first) capture.unjoined.insert(stream);
  return cudaSuccess;
}

cudaError_t wait(cudaStream_t stream, cudaEvent_t event) {
  const std::lock_guard lock(capture_mutex());
  if (event->capture) return join(stream, *event);
  if (stream->capture) return event->moment ? cudaErrorStreamCaptureIsolation : cudaSuccess;
  if (event->moment && !machine().ignores_waits) stream->push([moment = event->moment] { moment->wait(); });
  return cudaSuccess;
}

std::shared_ptr<Moment> moment_of(cudaEvent_t event) {
  const std::lock_guard lock(capture_mutex());
  return event->capture ? nullptr : event->moment;
}

cudaError_t begin_capture(cudaStream_t stream) {
  if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(capture_mutex());
  if (stream->capture) return cudaErrorIllegalState;
  stream->capture = std::make_shared<Capture>();
  stream->capture->first = stream;
  stream->capture->streams.insert(stream);
  captures.push_back(stream->capture);
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::lock_guard lock(capture_mutex());
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture || capture->first != stream) return cudaErrorIllegalState;
  for (const cudaStream_t member : capture->streams) member->capture = nullptr;
  std::erase(captures, capture);
  if (capture->spoiled) return cudaErrorStreamCaptureInvalidated;
  if (!capture->unjoined.empty()) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{capture->works};
  return cudaSuccess;
}

}  // namespace

int graphs_made() { return graphs_counted; }

bool spoil_capture_of_this_thread() {
  if (captures.empty()) return false;
  const std::lock_guard lock(capture_mutex());
  for (const auto& capture : captures) capture->spoiled = true;
  return true;
}

}  // namespace l2l::emulation

using namespace l2l::emulation;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  return unsafe_call([&] {
    *stream = CUstream_st::create();
    (*stream)->device = current_device();
    return cudaSuccess;
  });
}

// What is enqueued is still done. Also after a failure.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return report(cudaErrorInvalidResourceHandle);
  stream->retire();
  return report(state().error.status());
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&] { return synchronize(stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call([&] {
    if (captured(stream)) return spoil(stream);
    return stream_of(stream)->mark()->passed() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  return call([&] { return wait(stream_of(stream), event); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return call([&] { return begin_capture(stream); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const cudaError_t ended = end_capture(stream, graph);  // also after an error, which the thread's next calls outlive
  return call([&] { return ended; });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return call([&] {
    *event = new CUevent_st();
    (*event)->device = current_device();
    (*event)->timed = (flags & cudaEventDisableTiming) == 0;
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return report(state().error.status());
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&] { return record(event, stream_of(stream)); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return unsafe_call([&] {
    if (event->capture) return cudaErrorCapturedEvent;
    const auto moment = moment_of(event);
    return !moment || moment->passed() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return unsafe_call([&] {
    if (event->capture) return cudaErrorCapturedEvent;
    if (const auto moment = moment_of(event)) moment->wait();
    return state().error.status();
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  return call([&] {
    const auto first = moment_of(begin), last = moment_of(end);
    if (!first || !last || !begin->timed || !end->timed) return cudaErrorInvalidResourceHandle;
    if (!first->passed() || !last->passed()) return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(last->when() - first->when()).count();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([&] {
    if (!graph || nodes != nullptr) return cudaErrorInvalidValue;  // only counts them
    *count = graph->works.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return call([&] {
    if (!graph) return cudaErrorInvalidValue;
    if (graphs_counted >= machine().graphs) return cudaErrorMemoryAllocation;
    *made = new CUgraphExec_st{std::make_shared<const std::vector<Work>>(graph->works)};
    ++graphs_counted;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return call([&] {
    if (captured(stream)) return spoil(stream);  // child graphs are not emulated
    return enqueue(stream, [works = graph->works] {
      for (const Work& work : *works) work();
    });
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

}  // extern "C"
