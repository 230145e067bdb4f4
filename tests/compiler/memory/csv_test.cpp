#include "compiler/memory/csv.h"

#include <gtest/gtest.h>

#include <sstream>

#include "compiler/memory/planner.h"
#include "l2l/errors.h"
#include "tests/compiler/memory/random_problems.h"

namespace l2l::compiler::memory {
namespace {

Problem read(const std::string& text) {
  std::istringstream stream(text);
  return read_csv(stream, "p.csv");
}

std::string refusal(const std::string& text) {
  try {
    read(text);
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

void expect_refused(const std::string& text, const std::string& message) {
  EXPECT_NE(refusal(text).find(message), std::string::npos) << refusal(text) << "\n  instead of " << message;
}

const std::string kHeader = "id,lower,upper,size\n";

TEST(Csv, ReadsIntervals) {
  const Problem problem = read(kHeader + "a,-3,9,100\r\n\nb,4,4,0");
  ASSERT_EQ(problem.tensors.size(), 2u);
  EXPECT_EQ(problem.streams, 1u);
  EXPECT_EQ(problem.alignment, 1u);
  EXPECT_EQ(problem.tensors[0].name, "a");
  EXPECT_EQ(problem.tensors[0].size, 100u);
  EXPECT_EQ(problem.begin, (std::vector<Time>{-3, 4}));
  EXPECT_EQ(problem.end, (std::vector<Time>{9, 4}));
  EXPECT_TRUE(read(kHeader).tensors.empty());
}

TEST(Csv, ReadsClocksGroupsAndOffsetsInAnyOrderOfColumns) {
  const Problem problem = read("size,group,id,offset,lower,upper\n8,x,a,,0:1,2:2\n8,,b,64,0:0,9:9\n8,x,c,,0:1,2:2\n");
  EXPECT_EQ(problem.streams, 2u);
  EXPECT_EQ(problem.begin, (std::vector<Time>{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(problem.end, (std::vector<Time>{2, 2, 9, 9, 2, 2}));
  EXPECT_EQ(problem.groups, (std::vector<std::vector<Index>>{{0, 2}}));
  EXPECT_FALSE(problem.tensors[0].offset);
  EXPECT_EQ(problem.tensors[1].offset, Bytes{64});
}

TEST(Csv, WhatIsWrittenIsReadAgainWithItsPlan) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    Problem problem = random_streams(random, uniform(random, 1, 12), 1 + random() % 3, 20, 90, 1);
    add_random_groups(random, problem);
    const Plan found = quick_plan(problem);
    std::stringstream text;
    write_csv(text, problem, found);
    const Problem again = read_csv(text, "again");
    ASSERT_EQ(again.tensors.size(), problem.tensors.size());
    const Plan same = quick_plan(again);
    ASSERT_EQ(validate(again, same), "");
    ASSERT_EQ(same.footprint, found.footprint);
    ASSERT_EQ(again.groups.size(), problem.groups.size());
    for (const Tensor& tensor : again.tensors) {
      const auto t = static_cast<Index>(std::stoul(tensor.name.substr(1)));
      ASSERT_EQ(tensor.offset, found.offsets[t]);
      ASSERT_EQ(tensor.size, problem.tensors[t].size);
    }
  }
}

TEST(Csv, RefusesWithTheLine) {
  expect_refused("", "p.csv:1: is empty");
  expect_refused("id,lower,upper\n", "p.csv:1: column 'size' is missing");
  expect_refused("id,lower,upper,size,weight\n", "p.csv:1: column 'weight' is unknown");
  expect_refused("id,lower,upper,size,id\n", "p.csv:1: column 'id' is there twice");
  expect_refused(kHeader + "a,0,1,8\nb,0,1\n", "p.csv:3: has 3 fields, the header 4");
  expect_refused(kHeader + "a,0,1,-8\n", "p.csv:2: size: '-8' is not a whole number from 0");
  expect_refused(kHeader + "a,0,1,18446744073709551616\n", "p.csv:2: size: '18446744073709551616' is not");
  expect_refused(kHeader + "a,0,1,18446744073709551615\n", "p.csv:2: size");
  expect_refused(kHeader + "a,0,1,8k\n", "p.csv:2: size: '8k'");
  expect_refused(kHeader + "a,0,,8\n", "p.csv:2: upper: ''");
  expect_refused(kHeader + "a,0,9223372036854775807,8\n", "p.csv:2: upper");
  expect_refused(kHeader + "a,-9223372036854775808,1,8\n", "p.csv:2: lower: is below");
  expect_refused(kHeader + "a,0,1,8\nb,5,4,8\n", "p.csv:3: upper: 4 comes before lower, 5");
  expect_refused(kHeader + "a,0:5,1:4,8\n", "p.csv:2: upper: 4 comes before lower, 5");
  expect_refused(kHeader + "a,0,1,8\n\na,0,1,8\n", "p.csv:4: id 'a' was there before, in line 2");
  expect_refused(kHeader + ",0,1,8\n", "p.csv:2: id: is empty");
  expect_refused(kHeader + "a,0:0,1:1,8\nb,0,1:1,8\n", "p.csv:3: lower: has 1 entries, those before 2");
  expect_refused(kHeader + "a,0:0,1:1:1,8\n", "p.csv:2: upper: has 3 entries, those before 2");
  expect_refused(kHeader + "a,0:,1:1,8\n", "p.csv:2: lower: ''");
  expect_refused(kHeader + std::string(5000, 'a') + ",0,1,8\n", "p.csv:2: is longer than 4096 bytes");
  expect_refused(kHeader + std::string("a\0,0,1", 6) + "\n", "p.csv:2: has 3 fields");
  std::string clock = "0";
  for (int i = 0; i < 64; ++i) clock += ":0";
  expect_refused(kHeader + "a," + clock + "," + clock + ",8\n", "p.csv:2: clocks have at most 64 entries");
  EXPECT_THROW(read_csv("/nonexistent/problem.csv"), BadInput);
}

TEST(Csv, RefusesWhatContradictsAcrossLines) {
  const std::string half = std::to_string((Bytes{1} << 61) + 1);
  expect_refused(kHeader + "a,0,1," + half + "\nb,0,1," + half + "\n", "p.csv:3: tensor 'b' brings the sum");
  const std::string header = "id,lower,upper,size,group,offset\n";
  expect_refused(header + "a,0,9,8,x,0\nb,0,9,8,x,16\n", "p.csv:3: tensor 'b' is pinned at 16, not where its group");
  expect_refused(header + "a,0,9,8,,0\nb,8,9,8,,4\n", "p.csv:3: pinned tensors clash");
  // Neither what is not pinned nor what is pinned elsewhere counts.
  expect_refused(header + "x,0,5,10,,\na,0,5,10,,0\nb,0,5,10,,5\nc,100,101,10,,1000\n",
                 "p.csv:4: pinned tensors clash: 'b' (tensor 2, 10 bytes at 5) overlaps 'a' (tensor 1, 10 bytes at 0)");
}

// Anything is refused or is a problem that is planned right.
TEST(Csv, MutatedFiles) {
  Random random(2);
  int read_well = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const Problem problem = random_streams(random, 4, 1 + random() % 2, 9, 90, 1);
    std::stringstream text;
    write_csv(text, problem, quick_plan(problem));
    std::string bytes = text.str();
    for (int change = 1 + static_cast<int>(random() % 3); change > 0; --change) {
      const std::size_t at = 21 + random() % (bytes.size() - 21);
      static const std::string kBytes = "0123456789,:-\nx";
      if (random() % 2) {
        bytes[at] = kBytes[random() % kBytes.size()];
      } else {
        bytes.erase(at, 1);
      }
    }
    try {
      const Problem changed = read(bytes);
      ASSERT_EQ(validate(changed, quick_plan(changed)), "") << bytes;
      ++read_well;
    } catch (const BadInput&) {
      ++refused;
    }
  }
  EXPECT_GT(read_well, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Csv, AMillionLines) {
  std::string text = kHeader;
  for (int i = 0; i < 1'000'000; ++i) {
    text += std::to_string(i) + "," + std::to_string(i) + "," + std::to_string(i + 1 + i % 7) + ",64\n";
  }
  EXPECT_EQ(read(text).tensors.size(), 1'000'000u);
  expect_refused(text + "999999,0,1,8\n", "p.csv:1000002: id '999999' was there before, in line 1000001");
}

}  // namespace
}  // namespace l2l::compiler::memory
