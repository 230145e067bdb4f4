#include "l2l/errors.h"

#include <gtest/gtest.h>

#include "core/error_place.h"

namespace l2l {
namespace {

template <typename Thrown>
ErrorCode code_of(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (const Error& error) {
    return error.code();
  }
}

TEST(Errors, EachClassHasItsCode) {
  EXPECT_EQ(code_of(Error("x")), ErrorCode::failure);
  EXPECT_EQ(code_of(BadInput("x")), ErrorCode::bad_input);
  EXPECT_EQ(code_of(OutOfMemory("x")), ErrorCode::out_of_memory);
  EXPECT_EQ(code_of(CorruptFile("file", "reason")), ErrorCode::corrupt_file);
  EXPECT_EQ(code_of(DeviceError("x")), ErrorCode::device);
  EXPECT_EQ(code_of(NumericError("x")), ErrorCode::not_finite);
  EXPECT_EQ(code_of(CorruptState("x")), ErrorCode::corrupt_state);
  EXPECT_EQ(code_of(Aborted("x")), ErrorCode::aborted);
}

TEST(Errors, AFileIsAddedOnce) {
  const auto place = [](const auto& read) {
    try {
      naming_file("outer", read);
    } catch (const BadInput& error) {
      return error.place();
    }
    return ErrorPlace{};
  };
  EXPECT_EQ(place([] { throw BadInput("x", of_key("model.layers")); }).file, "outer");
  EXPECT_EQ(place([] { throw BadInput("x", of_key("model.layers")); }).key, "model.layers");
  EXPECT_EQ(place([] { throw CorruptFile("inner", "reason"); }).file, "inner");
  EXPECT_EQ(place([] { throw OutOfMemory("x"); }).file, "") << "and its class stays";
}

}  // namespace
}  // namespace l2l
