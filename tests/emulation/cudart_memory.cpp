// Memory of the stand-in runtime. Device memory is host memory with an unmapped page behind it.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "tests/emulation/state.h"
#include "tests/emulation/stream.h"

namespace l2l::emulation {
namespace {

constexpr std::size_t kAlignment = 256, kPage = 4096;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// An allocation ends where the page begins, but for its alignment.
struct Mapping {
  std::size_t used, bytes;
  explicit Mapping(std::size_t size) : used(round_up(size, kAlignment)), bytes(round_up(used, kPage) + kPage) {}
  std::size_t offset() const { return bytes - kPage - used; }
};

std::byte* map(const Mapping& mapping) {
  void* const memory =
      mmap(nullptr, mapping.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(memory);
  mprotect(begin + mapping.bytes - kPage, kPage, PROT_NONE);
  return begin + mapping.offset();
}

void unmap(std::byte* memory, const Mapping& mapping) { munmap(memory - mapping.offset(), mapping.bytes); }

// The real runtime knows what addresses are, and refuses a kind that does not fit them.
cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const MemoryKind target = kind_of(to), source = kind_of(from);
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault) {
    if (to_device != (target == MemoryKind::device) || from_device != (source == MemoryKind::device)) {
      return cudaErrorInvalidValue;
    }
  }
  const auto inside = [bytes](const void* memory, MemoryKind memory_kind) {
    if (memory_kind == MemoryKind::pageable) return true;
    return (memory_kind == MemoryKind::device ? state().device : state().pinned).holds_all(memory, bytes);
  };
  return inside(to, target) && inside(from, source) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t allocate_device(void** memory, std::size_t bytes) {
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  const Mapping mapping(bytes);
  std::byte* const made = map(mapping);
  if (!made) return cudaErrorMemoryAllocation;
  if (!state().device.add(made, mapping.used, machine().memory)) {
    unmap(made, mapping);
    return cudaErrorMemoryAllocation;
  }
  std::memset(made, 0xFF, mapping.used);
  *memory = made;
  return cudaSuccess;
}

cudaError_t allocate_pinned(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(kPage, round_up(bytes, kPage));
  if (!*memory) return cudaErrorMemoryAllocation;
  if (state().pinned.add(*memory, bytes, machine().pinnable)) return cudaSuccess;
  std::free(*memory);
  *memory = nullptr;
  return cudaErrorMemoryAllocation;
}

cudaError_t register_pages(void* memory, std::size_t bytes) {
  if (bytes == 0 || !memory) return cudaErrorInvalidValue;
  if (state().pinned.holds(memory)) return cudaErrorHostMemoryAlreadyRegistered;
  return state().pinned.add(memory, bytes, machine().pinnable) ? cudaSuccess : cudaErrorMemoryAllocation;
}

// Memory that is not page-locked is the caller's again when the call returns, as with the real runtime.
cudaError_t wait_where_pageable(const void* to, const void* from, cudaStream_t stream) {
  if (kind_of(to) != MemoryKind::pageable && kind_of(from) != MemoryKind::pageable) return cudaSuccess;
  {
    const std::lock_guard lock(capture_mutex());
    if (stream_of(stream)->capture) return cudaSuccess;
  }
  stream_of(stream)->mark()->wait();
  return state().error.status();
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (const cudaError_t status = check_copy(to, from, bytes, kind)) return status;
  const cudaError_t status = enqueue(stream, [=] { std::memmove(to, from, bytes); });
  return status != cudaSuccess ? status : wait_where_pageable(to, from, stream);
}

cudaError_t copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
                      std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0 || rows == 0) return cudaSuccess;
  if (to_pitch < bytes || from_pitch < bytes) return cudaErrorInvalidPitchValue;
  auto* const first_to = static_cast<std::byte*>(to);
  const auto* const first_from = static_cast<const std::byte*>(from);
  for (const std::size_t row : {std::size_t{0}, rows - 1}) {
    const cudaError_t status = check_copy(first_to + row * to_pitch, first_from + row * from_pitch, bytes, kind);
    if (status != cudaSuccess) return status;
  }
  const cudaError_t status = enqueue(stream, [=] {
    for (std::size_t row = 0; row < rows; ++row) {
      std::memcpy(first_to + row * to_pitch, first_from + row * from_pitch, bytes);
    }
  });
  return status != cudaSuccess ? status : wait_where_pageable(to, from, stream);
}

cudaError_t fill(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!state().device.holds_all(memory, bytes)) return cudaErrorInvalidValue;
  return enqueue(stream, [=] { std::memset(memory, value, bytes); });
}

}  // namespace
}  // namespace l2l::emulation

using namespace l2l::emulation;

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return unsafe_call([&] { return allocate_device(memory, bytes); });
}

// Waits for the whole device, as the real one does.
cudaError_t cudaFree(void* memory) {
  return release_call([&] {
    if (!memory) return cudaSuccess;
    wait_for_device();
    const std::size_t bytes = state().device.remove(memory);
    if (bytes == 0) return cudaErrorInvalidValue;
    unmap(static_cast<std::byte*>(memory), Mapping(bytes));
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&] {
    *total = machine().memory;
    *free = *total - std::min(*total, state().device.total() + kernels_loaded() * machine().code);
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int) {
  return unsafe_call([&] { return allocate_pinned(memory, bytes); });
}

cudaError_t cudaFreeHost(void* memory) {
  return release_call([&] {
    if (!memory) return cudaSuccess;
    wait_for_device();
    if (state().pinned.remove(memory) == 0) return cudaErrorInvalidValue;
    std::free(memory);
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned int) {
  return unsafe_call([&] { return register_pages(memory, bytes); });
}

cudaError_t cudaHostUnregister(void* memory) {
  return release_call([&] {
    wait_for_device();
    return state().pinned.remove(memory) > 0 ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] { return copy(to, from, bytes, kind, stream); });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t bytes, size_t rows,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] { return copy_rows(to, to_pitch, from, from_pitch, bytes, rows, kind, stream); });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return unsafe_call([&] {
    if (const cudaError_t status = copy(to, from, bytes, kind, nullptr)) return status;
    stream_of(nullptr)->mark()->wait();
    return state().error.status();
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return call([&] { return fill(memory, value, bytes, stream); });
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return unsafe_call([&] {
    if (const cudaError_t status = fill(memory, value, bytes, nullptr)) return status;
    stream_of(nullptr)->mark()->wait();
    return state().error.status();
  });
}

cudaError_t cudaDeviceSynchronize() {
  return unsafe_call([] {
    wait_for_device();
    return state().error.status();
  });
}

}  // extern "C"
