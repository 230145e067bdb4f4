#include "runtime/options/model_directory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/refusal.h"
#include "tests/support/temporary_folder.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;

using ::l2l::testing::TemporaryFolder;

TEST(ModelDirectory, AConfigIsNamedWhetherOrNotItIsThereButNotItsDirectory) {
  const TemporaryFolder folder;
  EXPECT_EQ(config_of_model(folder.path()), folder / "config.json");
  EXPECT_NE(::l2l::testing::refusal([&] {
              config_of_model(folder / "none");
            }).find("none: there is no such directory; a model is named by its directory on this machine"),
            std::string::npos);
}

TEST(ModelDirectory, AnAdapterIsRefusedUnlessAModelIsBesideIt) {
  const TemporaryFolder folder;
  const std::string name = folder.path().string();
  std::ofstream(folder / "adapter_config.json") << "{}";
  EXPECT_EQ(::l2l::testing::refusal([&] { config_of_model(folder.path()); }),
            name +
                ": has no config.json of a model, but an adapter; name the model that it belongs to, and set "
                "lora.adapter = \"" +
                name + "\"");
  std::ofstream(folder / "config.json") << "{}";
  EXPECT_EQ(config_of_model(folder.path()), folder / "config.json");
}

}  // namespace
}  // namespace l2l::runtime
