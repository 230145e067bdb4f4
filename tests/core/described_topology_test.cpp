// A machine that hwloc is told of by a file (HWLOC_XMLFILE), which is not this one. Needs hwloc.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/placement.h"
#include "core/workers.h"
#include "tests/support/temporary_folder.h"

#include <fstream>

namespace l2l {
namespace {

Topology read(const std::string& file) {
  setenv("HWLOC_XMLFILE", file.c_str(), 1);
  Topology topology = read_topology();
  unsetenv("HWLOC_XMLFILE");
  return topology;
}

const std::string kTwoNodes = L2L_FIXTURES "/two_nodes.xml";

TEST(DescribedTopology, HasItsNodesCoresAndCaches) {
  const Topology topology = read(kTwoNodes);
  EXPECT_FALSE(topology.ours);
  ASSERT_EQ(topology.nodes.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const NumaNode& node = topology.nodes[static_cast<std::size_t>(i)];
    EXPECT_EQ(node.id, i);
    ASSERT_EQ(node.cores.size(), 4u);
    for (int core = 0; core < 4; ++core) {
      EXPECT_EQ(node.cores[static_cast<std::size_t>(core)].cpus, std::vector<int>{4 * i + core});
    }
    EXPECT_EQ(node.memory, 64 * kGiB);
    EXPECT_EQ(node.l2, 2 * kMiB);
    EXPECT_EQ(node.l3, 32 * kMiB);
  }
}

// What this process may use still bounds the number of workers.
TEST(DescribedTopology, WorkersAreSpreadButNeitherBoundNorMoreThanTheCoresThatAreThere) {
  Topology topology = read(kTwoNodes);
  EXPECT_EQ(topology.limit, available_cores());
  topology.limit = 2;
  const Placement two = place_workers(topology, {});
  EXPECT_EQ(describe(two),
            "2 workers: 1 on node 0 (CPUs 0-3), 1 on node 1 (CPUs 4-7); nodes of another machine (HWLOC_XMLFILE): "
            "nobody is bound");
  EXPECT_FALSE(two.bound);
}

TEST(DescribedTopology, AFileThatCannotBeReadLeavesTheMachineAsItIs) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "bad.xml") << "<topology version=\"2.0\"><object";
  for (const std::string& file : {std::string("/nowhere.xml"), (folder / "bad.xml").string()}) {
    const Topology topology = read(file);
    EXPECT_EQ(topology.cpus(), read_topology().cpus()) << file;
  }
}

}  // namespace
}  // namespace l2l
