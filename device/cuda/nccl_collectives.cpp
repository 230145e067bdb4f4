#include "device/cuda/nccl_collectives.h"

#include <utility>
#include <vector>

#include "device/cuda/cuda_stream.h"
#include "device/cuda/nccl_communicators.h"
#include "device/kernels/common/tensor_exchange.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

class NcclPeers final : public Peers, public PeerCalls {
 public:
  NcclPeers(const NcclLibrary& nccl, std::vector<int> devices, PeerCall call) : members_(nccl, std::move(devices)) {
    members_.make_first(call);
  }

  std::string description() const override { return members_.description(); }
  int count() const override { return members_.count(); }
  void all_gather(int member, Stream& stream, BufferView whole) override {
    expect(member, whole);
    static_cast<CudaStream&>(stream).enqueue(GatherCommand{this, member, whole});
  }
  void all_to_all(int member, Stream& stream, BufferView sent, BufferView received) override {
    expect(member, sent);
    if (received.size != sent.size) throw_size(received);
    static_cast<CudaStream&>(stream).enqueue(ExchangeCommand{this, member, sent, received});
  }
  void gather(int member, BufferView whole, cudaStream_t stream) override {
    const Bytes slice = slice_of(whole);
    members_.all_gather(member, whole.data + static_cast<Bytes>(member) * slice, whole.data, slice, stream);
  }
  void exchange(int member, BufferView sent, BufferView received, cudaStream_t stream) override {
    const Bytes slice = slice_of(sent);
    members_.exchange(member, {0, count(), sent.data, slice, received.data, slice}, stream);
  }
  void abort() noexcept override { members_.abort(); }

 private:
  Bytes slice_of(BufferView whole) const { return whole.size / static_cast<Bytes>(count()); }
  // Throws Error where the bytes are not divisible, and DeviceError after abort().
  void expect(int member, BufferView whole) {
    if (whole.size % static_cast<Bytes>(count()) != 0) throw_size(whole);
    members_.require_alive(member);
  }
  [[noreturn]] void throw_size(BufferView whole) const {
    throw Error("exchange among " + std::to_string(count()) + " devices of " + std::to_string(whole.size) + " bytes");
  }

  NcclCommunicators members_;
};

class NcclTensorGroup final : public GpuTensorGroup {
 public:
  NcclTensorGroup(const NcclLibrary& nccl, std::vector<int> devices, std::vector<std::weak_ptr<DeviceState>> states)
      : states_(std::move(states)), members_(nccl, std::move(devices)) {
    members_.make_first(PeerCall::all_gather);
    members_.make_first(PeerCall::all_to_all);
  }

  int members() const override { return members_.count(); }
  void all_gather(Place place, const std::byte* given, std::byte* whole, Bytes slice, cudaStream_t stream) override {
    if (place.count == members()) return members_.all_gather(place.member, given, whole, slice, stream);
    members_.exchange(place.member, slices(place, given, 0, whole, slice), stream);
  }
  void all_to_all(Place place, const std::byte* sent, std::byte* received, Bytes slice, cudaStream_t stream) override {
    members_.exchange(place.member, slices(place, sent, slice, received, slice), stream);
  }
  // All devices have failed before what they wait for ends, so that nobody takes its contents for a result.
  void abort(std::exception_ptr cause) noexcept override {
    const std::exception_ptr known =
        cause ? cause
              : std::make_exception_ptr(
                    DeviceError("an exchange of devices was aborted: another device, or the run, has failed"));
    for (const std::weak_ptr<DeviceState>& state : states_) {
      if (const auto alive = state.lock()) alive->failure.fail(known);
    }
    members_.abort(known);
  }

 private:
  static NcclCommunicators::Slices slices(Place place, const std::byte* sent, Bytes stride, std::byte* received,
                                          Bytes slice) {
    return {place.first, place.count, sent, stride, received, slice};
  }

  const std::vector<std::weak_ptr<DeviceState>> states_;
  NcclCommunicators members_;
};

// What `make` makes with NCCL; nullptr: NCCL is missing or refuses, as `reason` says.
template <typename Make>
auto made_with_nccl(std::string& reason, const Make& make) -> decltype(make(std::declval<const NcclLibrary&>())) {
  const NcclLibrary* const nccl = nccl_library(reason);
  if (nccl == nullptr) return nullptr;
  try {
    return make(*nccl);
  } catch (const DeviceError& error) {
    reason = std::string("NCCL refuses: ") + error.what();
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<Peers> make_nccl_peers(std::span<const int> devices, PeerCall call, std::string& reason) {
  return made_with_nccl(reason, [&](const NcclLibrary& nccl) {
    return std::make_unique<NcclPeers>(nccl, std::vector<int>(devices.begin(), devices.end()), call);
  });
}

std::unique_ptr<TensorGroup> make_nccl_tensor_group(std::span<const std::shared_ptr<DeviceState>> devices,
                                                    std::string& reason) {
  std::vector<int> indices;
  for (const auto& device : devices) indices.push_back(device->settings.index);
  return made_with_nccl(reason, [&](const NcclLibrary& nccl) {
    return std::make_unique<NcclTensorGroup>(nccl, indices,
                                             std::vector<std::weak_ptr<DeviceState>>(devices.begin(), devices.end()));
  });
}

}  // namespace l2l::device::cuda
