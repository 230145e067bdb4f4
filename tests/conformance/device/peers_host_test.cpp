// What only groups of devices in host memory promise, and negative controls of all groups.
#include "core/fault_point.h"
#include "tests/conformance/device/exchanging.h"
#include "tests/support/trace_spans.h"

namespace l2l::device {
namespace {

using std::chrono::milliseconds;

Backend slow_copies() {
  FaultPlan slow;
  slow.copy_h2d_delay = std::chrono::microseconds(300);
  return {"slow", [slow](int index) {
            FaultPlan plan = slow;
            plan.seed = static_cast<std::uint64_t>(index) + 1;
            return open_fault(plan);
          }};
}

TEST(HostPeers, SizesThatDifferAreRefused) {
  const PeersOfBackend group(slow_copies(), 2);
  group.run([&](int member) {
    Device& device = *group.members[static_cast<std::size_t>(member)];
    const auto stream = device.create_stream("gathers");
    const auto memory = device.allocate(member == 0 ? 512 : 1024, "whole");
    EXPECT_THROW(group.peers->all_gather(member, *stream, memory->view()), Error);
  });
}

// Slices come over the link of the host, what is gathered does not: 10 MB/s to the device, 5 MB/s from peers.
TEST(HostPeers, APacedGatherTakesWhatItsTableSays) {
  constexpr Bytes kSlice = 500'224;
  constexpr double kInMs = 50.0224, kGatherMs = 2 * 100.0448;
  Trace trace(1000);
  const Backend paced{"paced", [&](int) {
                        auto device = std::make_unique<PacedDevice>(
                            PaceTable{.h2d_bandwidth = 10'000'000, .peer_bandwidth = 5'000'000});
                        device->set_trace(&trace);
                        return device;
                      }};
  const PeersOfBackend group(paced, 3);
  EXPECT_EQ(wrong_rounds(group, PeerCall::all_gather, kSlice, /*rounds=*/1), 0);
  double first = 1e18, last = 0;
  int gathered = 0;
  for (const testing::TraceSpan& span : testing::read_spans(trace)) {
    if (span.name == "copy h2d") first = std::min(first, span.begin);
    if (span.name != "copy from peer") continue;
    last = std::max(last, span.end);
    ++gathered;
  }
  EXPECT_EQ(gathered, 3 * 2);
  EXPECT_GE((last - first) / 1000, kInMs + kGatherMs - 1e-3);
  EXPECT_LT((last - first) / 1000, kInMs + kGatherMs + 40);  // the threads may begin late
}

#ifdef L2L_FAULT_POINTS
TEST(HostPeers, AnExchangeThatReadsBeforeItsPeersHaveBroughtTheirsIsNoticed) {
  L2L_SKIP_UNDER_THREAD_SANITIZER();
  const PeersOfBackend group(slow_copies(), 3);
  for (const PeerCall call : {PeerCall::all_gather, PeerCall::all_to_all}) {
    EXPECT_EQ(wrong_rounds(group, call, 256, 20), 0);
    for (const char* const fault : {"peers.read_early", "peers.overwrite_early"}) {
      arm_fault_point(fault);
      EXPECT_GT(wrong_rounds(group, call, 256, 20), 0) << fault;
      arm_fault_point("");
    }
  }
}
#endif

}  // namespace
}  // namespace l2l::device
