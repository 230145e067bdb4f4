// The CUDA module and machines that cannot run it: every refusal is a sentence, and "auto" goes on with the host.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "device/open.h"
#include "l2l/errors.h"

namespace l2l::device {
namespace {

// Sets L2L_CUDA_MODULE while it lives; "": unset.
class ModuleVariable {
 public:
  explicit ModuleVariable(const char* file) {
    if (*file == '\0') {
      unsetenv("L2L_CUDA_MODULE");
    } else {
      setenv("L2L_CUDA_MODULE", file, 1);
    }
  }
  ~ModuleVariable() { unsetenv("L2L_CUDA_MODULE"); }
};

bool has_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  return driver != nullptr;
}

std::string refusal(const char* module, int index = 0) {
  const ModuleVariable variable(module);
  try {
    return "opened " + open_device({.kind = "cuda", .index = index})->description();
  } catch (const BadInput& error) {
    return error.what();
  }
}

void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.find("device.kind = \"cuda\": "), 0u) << message;
  EXPECT_NE(message.find("device.kind = \"host\""), std::string::npos) << message;
}

TEST(CudaModule, AFileThatDoesNotOpenIsNamed) {
  const std::string message = refusal("/nonexistent/libl2l_cuda.so");
  expect_says(message, "does not open");
  expect_says(message, "/nonexistent/libl2l_cuda.so");
}

TEST(CudaModule, ALibraryOfSomebodyElseIsRefused) { expect_says(refusal(L2L_NO_MODULE), "is no CUDA module of L2L"); }

TEST(CudaModule, AModuleOfAnotherBuildIsRefused) { expect_says(refusal(L2L_OTHER_MODULE), "is of another build"); }

TEST(CudaModule, AMachineWithoutADriverIsToldApart) {
  if (has_driver()) GTEST_SKIP() << "there is a driver";
  const bool built = std::string(L2L_BUILT_MODULE) != "";
  expect_says(refusal(""), built ? "no NVIDIA driver on this machine" : "this build has no CUDA module");
  if (built) expect_says(refusal(L2L_BUILT_MODULE), "no NVIDIA driver on this machine");
}

TEST(CudaModule, ADeviceThatIsNotThereIsRefused) {
  if (!has_driver()) GTEST_SKIP() << "there is no driver";
  expect_says(refusal("", 1000), "device.index = 1000");
}

TEST(CudaModule, AutoFallsBackAndSaysWhy) {
  const ModuleVariable variable("/nonexistent/libl2l_cuda.so");
  std::string reason;
  const auto device = open_device({.kind = "auto", .threads = 1}, &reason);
  EXPECT_EQ(device->description().find("host (1 thread"), 0u) << device->description();
  EXPECT_EQ(reason.find("the host, since the CUDA module does not open: "), 0u) << reason;
}

// Which is said on every run: shortly.
TEST(CudaModule, AMachineWithoutCudaIsToldInFewWords) {
  if (has_driver()) GTEST_SKIP() << "there is a driver";
  const ModuleVariable variable("");
  std::string reason;
  open_device({.kind = "auto", .threads = 1}, &reason);
  EXPECT_TRUE(reason == "the host, since this build has no CUDA module" ||
              reason == "the host, since there is no NVIDIA driver on this machine")
      << reason;
}

TEST(CudaModule, AHostThatWasAskedForNeedsNoReason) {
  std::string reason = "old";
  open_device({.kind = "host", .threads = 1}, &reason);
  EXPECT_EQ(reason, "");
}

}  // namespace
}  // namespace l2l::device
