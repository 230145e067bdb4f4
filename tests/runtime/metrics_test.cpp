#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "l2l/trainer.h"

namespace l2l {
namespace {

StepReport sample_report() {
  StepReport report;
  report.step = 7;
  report.loss = 0.1 + 0.2;  // 0.30000000000000004: needs 17 digits
  report.learning_rate = 1e-3 / 3;
  report.gradient_norm = std::nextafter(1.0, 2.0);
  report.tokens = 2048;
  report.tokens_per_second = 1e6 / 7;
  report.step_ms = 5e-324;
  report.device_peak_bytes = std::numeric_limits<std::uint64_t>::max();
  report.host_bytes = 3;
  report.h2d_bytes = 4;
  report.d2h_bytes = 5;
  report.weight_stall_ms = 0.25;
  report.stash_stall_ms = std::numeric_limits<double>::max();
  report.update_stall_ms = -0.0;
  report.loss_scale = 65536;
  report.skipped = true;
  report.predicted_ms = 100.0 / 3;
  report.eps_gb_per_second = 17.25;
  report.eps_fraction = 2.0 / 3;
  return report;
}

TEST(Metrics, AStepIsOneLineWithTheContractsKeysInOrder) {
  const std::string line = to_json(sample_report());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::ordered_json::parse(line);
  std::string keys;
  for (const auto& [key, value] : json.items()) keys += key + " ";
  EXPECT_EQ(keys,
            "step loss learning_rate gradient_norm tokens tokens_per_second step_ms device_peak_bytes host_bytes "
            "h2d_bytes d2h_bytes weight_stall_ms stash_stall_ms update_stall_ms loss_scale skipped predicted_ms "
            "eps_gb_per_second eps_fraction ");
}

// strtod is the independent reader, given the unchanged text between the colon and the comma.
double number_after(const std::string& line, const std::string& key) {
  const std::size_t place = line.find("\"" + key + "\":");
  if (place == std::string::npos) return std::nan("");
  return std::strtod(line.c_str() + place + key.size() + 3, nullptr);
}

TEST(Metrics, NumbersRoundTrip) {
  const StepReport report = sample_report();
  const std::string line = to_json(report);
  EXPECT_EQ(number_after(line, "loss"), report.loss);
  EXPECT_EQ(number_after(line, "learning_rate"), report.learning_rate);
  EXPECT_EQ(number_after(line, "gradient_norm"), report.gradient_norm);
  EXPECT_EQ(number_after(line, "tokens_per_second"), report.tokens_per_second);
  EXPECT_EQ(number_after(line, "step_ms"), report.step_ms);
  EXPECT_EQ(number_after(line, "stash_stall_ms"), report.stash_stall_ms);
  EXPECT_EQ(number_after(line, "update_stall_ms"), 0.0);
  EXPECT_TRUE(std::signbit(number_after(line, "update_stall_ms")));
  EXPECT_NE(line.find("\"device_peak_bytes\":18446744073709551615,"), std::string::npos) << line;
  EXPECT_NE(line.find("\"step\":7,"), std::string::npos) << line;
  EXPECT_NE(line.find("\"skipped\":true,"), std::string::npos) << line;
  EXPECT_EQ(number_after(line, "predicted_ms"), *report.predicted_ms);
  EXPECT_EQ(number_after(line, "eps_gb_per_second"), report.eps_gb_per_second);
  EXPECT_EQ(number_after(line, "eps_fraction"), *report.eps_fraction);
}

TEST(Metrics, WhatJsonHasNotBecomesNull) {
  StepReport report;
  report.loss = std::nan("");
  report.gradient_norm = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["gradient_norm"].is_null());
  EXPECT_TRUE(json["predicted_ms"].is_null());
  EXPECT_TRUE(json["eps_fraction"].is_null());
}

}  // namespace
}  // namespace l2l
