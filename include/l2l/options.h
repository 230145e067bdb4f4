// All options of a run, as plain values; the TOML config has the same names. Sizes are in bytes; a limit of 0 means
// none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "l2l/export.h"

namespace l2l {

struct ModelOptions {
  std::string architecture = "gpt2";  // "gpt2" | "bert" | "llama"
  std::int64_t layers = 8;            // transformer blocks
  std::int64_t hidden = 256;          // divisible by heads
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;      // llama: heads of keys and values, which divide heads; 0: as many
  std::int64_t intermediate = 0;  // width of the MLP; 0: 4 x hidden, of llama 8/3 x hidden up to a multiple of 256
  std::int64_t vocabulary = 256;
  std::int64_t sequence = 256;  // tokens per sequence
  double dropout = 0.1;         // embedding, attention and residual; in [0, 1); llama has none: 0
  double norm_epsilon = 0;      // of the norms; 0: the architecture's own (1e-5, of bert 1e-12)
  double rope_theta = 10000;    // llama: base of the rotary positions
  bool tie_embeddings = true;   // llama: false gives the head a table of its own

  // "fused": one op; "core": separate ops, whose probabilities (heads x sequence x sequence) are values like others.
  std::string attention = "fused";
  // "none" | "float" | "fixed", of gpt2 and llama: blocks with two residual streams that can be computed backward, so
  // that the backward visit rebuilds a block's input and none is kept. It is another model, with weights of the same
  // shapes. Streams in fp32 drift by rounding, which is measured; in fixed point they come back bit for bit.
  std::string reversible = "none";
};

struct DataOptions {
  std::vector<std::string> train;       // files or globs
  std::vector<std::string> validation;  // may be empty
  std::string format = "text";          // "text" (bytes) or "tokens" (raw little-endian uint16)
  std::string tokenizer = "bytes";
  double masked = 0.15;          // bert: share of the tokens of each sequence that are predicted
  std::int64_t mask_token = -1;  // bert: replaces most of them; -1: the last of the vocabulary
  bool allow_change = false;     // resume with training data other than the checkpoint's
};

// A minibatch is `micro_batches` microbatches of `micro_batch` sequences. 0: not set; it then follows from the others.
// Trainer::options() has all three.
struct BatchOptions {
  std::int64_t minibatch = 0;    // sequences per minibatch, of all devices together; divisible by device.count
  std::int64_t micro_batch = 0;  // sequences per microbatch; not set: 8, or, with minibatch alone, what makes the step
                                 // shortest (recompute.policy = "auto"), else the most up to 8 that divide a device's
                                 // share
  std::int64_t micro_batches = 0;  // per minibatch, of all devices together; divisible by device.count; not set: 1
};

struct OptimizerOptions {
  std::string name = "adamw";  // "adamw" | "lamb" | "sgd"
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  // key: betas = [0.9, 0.999]
  double epsilon = 1e-8;
  double momentum = 0.9;       // of sgd
  double weight_decay = 0.01;  // matrices and tables only, not norms and biases
  std::string clip = "none";   // "none" | "per_layer" (each layer by its own norm) | "global" (by that of all)
  double max_norm = 1.0;
  std::string moments = "fp32";  // "fp32" | "bf16_first" (the second in fp32) | "bf16" | "int8" (experimental)
  std::string update = "eager";  // "eager" | "after_backward"
};

struct ScheduleOptions {
  std::string kind = "constant";  // "constant" | "cosine" | "linear"
  std::int64_t warmup_steps = 0;
  double minimum = 0;  // learning rate at the end
};

struct PrecisionOptions {
  std::string compute = "fp32";           // "fp32" | "bf16" | "fp16"
  std::string gradients = "auto";         // on the link: "auto" (the compute type) | "fp32" | "bf16" | "fp16" (of fp16)
  double loss_scale = 0;                  // of fp16; 0, or "dynamic": halves on an overflow, whose step is skipped
  std::int64_t loss_scale_growth = 2000;  // steps in a row without an overflow after which a dynamic one doubles
};

struct DeviceOptions {
  std::string kind = "auto";        // "auto" (the GPU where driver and CUDA module are there) | "host" | "cuda"
  std::int64_t index = 0;           // cuda: which device, as the driver counts them
  std::int64_t count = 1;           // devices, each with an equal share of the microbatches; cuda: from index on
  std::uint64_t memory = 0;         // limit on the memory of each device; 0: what it has free
  std::string execution = "relay";  // "relay" | "resident"
  std::int64_t threads = 0;         // host device: compute threads of each; 0: all cores, divided among them
  bool graphs = true;               // cuda: programs run as CUDA graphs; the same bits without
  std::uint64_t pinned_memory = 0;  // cuda: limit on page-locked memory, beyond which copies are staged; 0: no limit
};

struct TransferOptions {
  static constexpr std::int64_t kChosen = -1;

  // Where layer inputs wait for the backward pass: "auto" (on the device for as many blocks as fit, on the host for the
  // others; a reversible model keeps none) | "host" | "device" (then a reversible model keeps them too, and rebuilds
  // nothing)
  std::string stash = "auto";
  // Blocks whose weights stay on the device from their forward to their backward visit and so cross the link once a
  // step, beside the last one, which stays anyway while a head that is one layer runs; kChosen (key: "auto"): none, or,
  // with recompute.policy = "auto", as many as make the step shortest in device.memory.
  std::int64_t resident_layers = kChosen;
  std::int64_t prefetch = 1;          // layers fetched ahead: 1 + prefetch weight slots
  std::int64_t vocabulary_chunk = 0;  // rows of the embedding table that travel at once; 0: all, or, of a table larger
                                      // than a block, as many as fit in a block's slot
  std::uint64_t link_bandwidth = 0;   // host device: bytes per second each way; 0: unthrottled
};

struct RecomputeOptions {
  // What a block's backward visit recomputes: "full" (everything but the layer input) | "selective" (the core of
  // attention, where that is ops of its own) | "min_cut" (what needs no product, from the fewest bytes) | "none" |
  // "budget" ("full", within the budget, which must then be set) |
  // "auto" (for each block, with the place of the stash, what makes the step shortest in the memory there is; ops that
  // this machine was not measured to take are measured, in some seconds)
  std::string policy = "full";
  std::uint64_t budget = 0;  // limit on the scratch of a block's backward visit, of one microbatch: it recomputes more
                             // where it must; 0: none. Not with "auto", which has device.memory

  // Whether measured times decide what blocks recompute.
  bool leaves_choice() const { return policy == "auto" || budget > 0; }
};

struct EpsOptions {
  std::int64_t threads = 0;        // workers of the parameter server; 0: all cores, but one for a GPU's feeder
  std::uint64_t memory = 0;        // limit on weights, optimizer state and gradients in host memory
  std::uint64_t stash_memory = 0;  // limit on the host stash
};

struct CheckpointOptions {
  std::filesystem::path directory;  // empty: nothing is saved
  std::int64_t every = 0;           // steps between saves, beside training; 0: at the end only
  std::int64_t keep = 2;            // newest checkpoints kept
};

struct RunOptions {
  std::int64_t steps = 100;  // total, also after a resume
  std::uint64_t seed = 1;
  std::int64_t seconds = 0;         // l2l-train ends after the step that reaches this; 0: no limit
  std::int64_t validate_every = 0;  // steps between validations; 0: at the end only
};

struct Options {
  ModelOptions model;
  DataOptions data;
  BatchOptions batch;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  PrecisionOptions precision;
  DeviceOptions device;
  TransferOptions transfer;
  RecomputeOptions recompute;
  EpsOptions eps;
  CheckpointOptions checkpoint;
  RunOptions run;

  // Whether blocks keep nothing, and rebuild their inputs from their outputs on the way back.
  bool rebuilds_inputs() const { return model.reversible != "none" && transfer.stash == "auto"; }
};

// Reads a TOML file. Throws BadInput naming file, line and key: unknown keys (with the nearest known one), wrong types,
// values outside their range. Relative paths in it are relative to the working directory.
L2L_API Options load_options(const std::filesystem::path& file);

// The same from text; `name` stands for the file in messages.
L2L_API Options parse_options(const std::string& text, const std::string& name);

// Applies one `section.key=value`, the value in TOML (a bare word is taken for a string). Throws BadInput.
L2L_API void set_option(Options& options, std::string_view assignment);

// Checks what single keys cannot show (divisibility, combinations). Throws BadInput naming the keys. Trainer calls it.
L2L_API void validate_options(const Options& options);

// The options as a config file that load_options() reads back to the same values.
L2L_API std::string to_toml(const Options& options);

}  // namespace l2l
