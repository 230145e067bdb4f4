// The first stage between options and a plan: every number that follows from others is set, every file is found.
#pragma once

#include <memory>
#include <optional>

#include "eps/shards.h"
#include "l2l/options.h"
#include "runtime/data/data_files.h"
#include "runtime/data/image_source.h"
#include "runtime/data/samples.h"

namespace l2l::runtime {

// Valid options in which `model` is what model.pretrained stands for, `batch` has all three numbers, data.samples is
// not "auto", and recompute.policy is resolved_policy(). What measured times decide stays open:
// recompute (leaves_choice()), and the microbatch where `chooses_micro_batch`, of which `batch` has the one to take
// without times.
struct ResolvedOptions : Options {
  std::filesystem::path weights = {};  // directory that initial weights come from; empty: they are random
  bool new_head = false;               // `weights` may lack the head, which is random then
  bool new_classes = false;            // the head of `weights` is of other classes: what tells them apart is random
  // Found and tokenized: those of data.train, or of each source.
  std::vector<DataFiles> train = {};
  std::optional<DataFiles> validation = {};
  std::optional<DataFiles> mismatched = {};                                      // of MNLI: a second validation set
  std::shared_ptr<const ImageSource> train_images = {}, validation_images = {};  // of a model of images
  // Rows of a sequence, which a microbatch may have: data.buckets of them at most, ascending; the last is
  // model.sequence.
  std::vector<std::int64_t> lengths = {};
  bool chooses_micro_batch = false;
  eps::Rank rank = {};  // this process among those that train together, or that distributed.nodes plans for
  // Bytes per second between nodes, each way: distributed.bandwidth, or as ranks have measured it. 0: not known.
  double network = 0;
  // With device.tensor: tensor parallelism alone (models/split_layers.h). No option sets it; figures of it are for
  // comparison.
  bool whole_rows = false;

  // Of devices (DeviceOptions::groups()), that share the microbatches of all ranks.
  std::int64_t all_groups() const { return device.groups() * rank.count; }
  // Of each of these.
  int device_microbatches() const { return static_cast<int>(batch.micro_batches / all_groups()); }
};

// recompute.policy, but "full" for what that stands for: "budget", and "auto" where a budget is set or the blocks
// rebuild their inputs.
std::string resolved_policy(const Options& options);

SampleKind sample_kind(const Options& options);  // data.samples, which is not "auto"

DatasetSettings dataset_settings(const ResolvedOptions& options);
// What steps draw from, and what validation does; null where the options name none. Throw BadInput when the data do not
// fit the model, or are too few to train.
std::unique_ptr<Samples> training_samples(const ResolvedOptions& options, const DatasetSettings& settings);
std::unique_ptr<Samples> validation_samples(const ResolvedOptions& options, const DatasetSettings& settings);

// `rank`: of those that were started. Throws BadInput.
ResolvedOptions resolve(const Options& given, eps::Rank rank = {});

// Options of a run that neither reads nor writes files: to plan it or to measure its steps.
Options without_files(Options options);

}  // namespace l2l::runtime
