#include "core/log.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace l2l {
namespace {

class LogSinks : public ::testing::Test {
 protected:
  ~LogSinks() override { set_log_sink({}); }
};

TEST_F(LogSinks, ASinkMaySetAnother) {
  std::string first, second;
  const auto kept = std::make_shared<std::string>("kept");
  set_log_sink([&first, &second, kept](LogLevel, std::string_view message) {
    set_log_sink([&](LogLevel, std::string_view other) { second += other; });
    first += *kept + std::string(message);  // what it holds is still there
  });
  const std::weak_ptr<std::string> held = kept;
  log(LogLevel::info, "a");
  log(LogLevel::info, "b");
  EXPECT_EQ(first, "kepta");
  EXPECT_EQ(second, "b");
  EXPECT_EQ(held.use_count(), 1);  // that of this test
}

TEST_F(LogSinks, WhatASinkLogsGoesToStderr) {
  std::string said;
  set_log_sink([&](LogLevel, std::string_view message) {
    log(LogLevel::warning, "within");
    said += message;
  });
  ::testing::internal::CaptureStderr();
  log(LogLevel::info, "a");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: within\n");
  EXPECT_EQ(said, "a");
}

TEST_F(LogSinks, ForWhatASinkThrowsTheMessageGoesToStderr) {
  int called = 0;
  set_log_sink([&](LogLevel, std::string_view) { ++called, throw 5; });
  ::testing::internal::CaptureStderr();
  EXPECT_NO_THROW(log(LogLevel::warning, "a"));
  EXPECT_NO_THROW(log(LogLevel::info, "b"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: a\nb\n");
  EXPECT_EQ(called, 2);  // it is asked again
}

}  // namespace
}  // namespace l2l
