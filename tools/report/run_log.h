// What a run has written down (--metrics), as series of numbers by step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <ios>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace l2l::tools {

// A series that is longer than a chart can show is averaged: of neighbouring points, ever more of them become one.
// Thread-bound.
class Series {
 public:
  void add(double step, double value);
  // (step, value), at most kMost.
  std::vector<std::pair<double, double>> points() const;
  double last() const { return last_; }

 private:
  static constexpr std::size_t kMost = 1024;

  void close();

  std::vector<std::pair<double, double>> points_;  // means of `each_` points
  std::int64_t each_ = 1, open_ = 0;
  double steps_ = 0, values_ = 0;  // sums of the point that is open
  double last_ = 0;
};

// What run.json says (tools/train/run_record.h); all empty where there is none.
struct RunFacts {
  std::vector<std::pair<std::string, std::string>> machine;  // label, text
  struct Memory {
    std::string what;
    double bytes;
  };
  std::vector<Memory> device, host;  // lines of the contract
  std::vector<std::string> warnings;
};

struct RunLog {
  std::string name;
  std::string config;  // TOML; empty where there is none
  RunFacts facts;
  std::map<std::string, Series> series;  // by field; those of "metrics" as "metrics.NAME"
  std::int64_t lines = 0, unread = 0;    // unread: no JSON object with a step, or longer than 1 MiB
};

// Reads the log of a run, which may go on growing by whole lines. Thread-bound.
class RunLogReader {
 public:
  // `path`: a file of --metrics, or a directory with metrics.jsonl and perhaps config.toml and run.json.
  explicit RunLogReader(std::filesystem::path path) : path_(std::move(path)) {}
  // All that is written by now; of the metrics it reads what came since the last call, or all where they have become
  // shorter. Numbers that are not finite are left out. Throws BadInput where there is no such file, or only lines of
  // another kind in it, and Error where it cannot be read.
  const RunLog& read();

 private:
  const std::filesystem::path path_;
  std::streamoff read_ = 0;  // bytes
  RunLog log_;
};

}  // namespace l2l::tools
