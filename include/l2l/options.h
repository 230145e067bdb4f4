// All settings of a run as plain values, under the names that the TOML config uses. Sizes are in bytes; a limit of 0 is
// no limit. A value out of its range is refused with BadInput, which says the range; not every range is given here.
// Defaults that depend on model.architecture are those of gpt2 here; the others' are filled in where a key was not set:
// Options::given does not name it, and its value is the one below.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "l2l/data.h"
#include "l2l/export.h"
#include "l2l/graph.h"

namespace l2l {

// Sizes and variants of the model. A key that the architecture has no use for is refused when it is set to something;
// of "custom" hidden, heads, vocabulary and sequence are ignored. Sources: GPT-2: Radford et al., 2019; BERT: Devlin et
// al., 2019; RoBERTa: Liu et al., 2019; Llama: Touvron et al., 2023; Mistral: Jiang et al., 2023; Qwen2 and Qwen3: Qwen
// team, 2024 and 2025; Gemma 2 and 3: Gemma team, 2024 and 2025.
struct ModelOptions {
  // Directory of a Hugging Face model: architecture, sizes and weights come from its config.json and safetensors files.
  // Of the keys below, only sequence (up to positions), dropout, attention, reversible, what describes the head (head,
  // labels, label_names) and `blocks` may then differ from it; any other that contradicts it is refused. Empty: random
  // weights of the architecture and sizes below.
  std::filesystem::path pretrained = {};
  bool new_head = false;  // pretrained: draw the head afresh where the directory has none, or one of other classes
  // Where frozen parameters come from: `pretrained` of the run that a checkpoint was made in. Checkpoints of adapters
  // need it. A run sets it itself.
  std::filesystem::path base = {};

  // "gpt2" | "bert" | "roberta" | "llama" | "mistral" | "qwen2" | "qwen3" | "gemma2" | "gemma3"; of images: "revbifpn"
  // (l2l/revbifpn.h); or "custom": `inputs`, `blocks`, `targets` and `loss` are the whole model; of the other keys it
  // uses reserve, metrics and reversible.
  std::string architecture = "gpt2";
  std::int64_t layers = 8;    // transformer blocks
  std::int64_t hidden = 256;  // elements of an activation per token
  std::int64_t heads = 4;     // of attention
  // Not gpt2, bert, roberta: heads of keys and values, a divisor of heads; 0: as many as heads.
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // likewise: elements of a head; 0: hidden / heads
  // Width of the MLP; 0: 4 x hidden; with a gate (all but gpt2, bert, roberta) 8/3 x hidden, rounded up to a multiple
  // of 256.
  std::int64_t intermediate = 0;
  // Different tokens; ids lie in [0, vocabulary). Not set, of bert and roberta that learn masked bytes: 257.
  std::int64_t vocabulary = 256;
  // Tokens per sequence. Not set, with `pretrained`: the longest that the model is made for, at most 1,024.
  std::int64_t sequence = 256;
  // The longest sequence that the model is made for; 0: sequence. gpt2, bert: rows of the position table. roberta: rows
  // of that table, whose first padding_token + 1 are not used.
  std::int64_t positions = 0;
  // What the head gives: "language" (of each token the one behind it, or those that are masked); as transformers'
  // classes: "classification" (of each document one of `labels` classes, ...ForSequenceClassification) | "regression"
  // (of each document a number, the same class with one label) | "tokens" (of each word one of `labels` classes,
  // ...ForTokenClassification) | "choice" (which of several choices is right, ...ForMultipleChoice; encoders). Of a
  // custom model: "custom".
  std::string head = "language";
  std::int64_t labels = 2;                    // classes; not set, of images: those of the data, or else 1,000
  std::vector<std::string> label_names = {};  // of the classes, in their order, in data and config.json; may be empty
  std::int64_t token_types = 2;               // bert, roberta: rows of the token type table, of which the first is used
  std::int64_t padding_token = -1;            // roberta: its id; -1: 1
  // Probability, for embedding, attention and residual branches; in [0, 1). Not set: 0 but for gpt2, bert and
  // roberta, which alone may have any. revbifpn: of the features before the classes; not set: the variant's.
  double dropout = 0.1;
  double norm_epsilon = 0;  // of layer and RMS norms; 0: the architecture's own (1e-5, bert: 1e-12, qwen, gemma: 1e-6)
  // Of the MLP: "auto" (the architecture's own) | "gelu" | "gelu_tanh" | "silu"
  std::string activation = "auto";
  // llama, qwen3, gemma3: biases of the projections to queries, keys, values and output. qwen2 has those of the first
  // three, and gpt2, bert and roberta all, always.
  bool attention_bias = false;
  bool mlp_bias = false;       // llama: biases of the MLP's projections
  bool tie_embeddings = true;  // false gives the head a table of its own

  // Which rows a row of attention sees: "full_attention" or "sliding_attention" (itself and the sliding_window - 1 rows
  // before it), for each block; a shorter list is repeated. Empty: the architecture's own: mistral: all slide where
  // sliding_window is set; gemma2: every second is full; gemma3: every sixth; others: all are full.
  std::vector<std::string> layer_types = {};
  std::int64_t sliding_window = 0;  // rows; mistral, qwen2, qwen3, gemma2, gemma3; 0: all layers are full
  double attention_softcap = 0;     // gemma2: scores s become c tanh(s / c); 0: none
  double logit_softcap = 0;         // gemma2, gemma3: the same for logits
  double query_scale = 0;           // gemma2, gemma3: scores are scaled by its inverse square root; 0: head_dim

  // Rotary position embedding (Su et al., 2021) of all but gpt2, bert and roberta.
  double rope_theta = 10000;        // base
  double rope_local_theta = 10000;  // gemma3: that of sliding layers, to which rope_scaling does not apply
  // "none" | "linear" (Chen et al., 2023) | "dynamic" | "llama3" (Llama 3.1) | "yarn" (Peng et al., 2023)
  std::string rope_scaling = "none";
  double rope_factor = 1;                                  // by how much the context is extended
  std::int64_t rope_original_positions = 0;                // llama3, yarn: positions before the extension; 0: positions
  double rope_low_frequency = 1, rope_high_frequency = 4;  // llama3: wavelengths per original context
  double rope_beta_fast = 32, rope_beta_slow = 1;          // yarn: turns per original context
  double rope_attention_factor = 0;  // yarn: factor of queries and keys; 0: 0.1 ln(rope_factor) + 1
  bool rope_truncate = true;         // yarn: whether the bounds of its ramp are rounded to whole dimensions

  // "fused": attention is one op. "core": it is separate ops, so that its probabilities [heads, sequence, sequence] can
  // be kept or recomputed on their own (Korthikanti et al., 2022).
  std::string attention = "fused";
  // "none" | "float" | "fixed"; not bert and roberta; not set, of revbifpn: "float". Not "none": reversible blocks with
  // two residual streams (Gomez et al., 2017), which rebuild their inputs in the backward pass, so that none is kept.
  // That is another model with the same parameters. "float": streams in fp32, which drift by rounding
  // (StepReport::stream_drift). "fixed": streams in fixed point, rebuilt bit for bit. Of a custom model: its streams
  // (LayerBuilder::stream()).
  std::string reversible = "none";
  // revbifpn: "S0" to "S6", the published sizes.
  std::string variant = "S0";
  // revbifpn: pixels along each side of an image, to which others are scaled: a multiple of 32. 0: the variant's.
  std::int64_t image_size = 0;
  std::int64_t image_channels = 3;  // revbifpn: 3 (red, green, blue) or 1 (gray)
  // A program's own blocks between embedding and head (l2l/graph.h), of which `layers` then is the number. They may
  // stand among blocks of the architecture, also of `pretrained`: then blocks that are not listed are left out, and
  // those of other types begin at random. Empty: `layers` blocks of the architecture.
  std::vector<Layer> blocks = {};
  // Further layers, where `blocks` are exchanged between steps (Trainer::set_layers()). No key of a config.
  std::optional<LayerReserve> reserve = {};
  // Of "custom": the tensors that each sample brings, `inputs` for the first of `blocks`, at least two, and `targets`
  // for the loss, which also reads what the last of `blocks` returns.
  std::vector<TensorSpec> inputs = {}, targets = {};
  LossBuilder loss = nullptr;
  std::vector<Metric> metrics = {};  // of validations of "custom"
  // Key: blocks. Ids and types of `blocks` and of the reserve, from which it follows ("0", "100 adapter", "101 adapter
  // of 100"): by it a checkpoint's config says that only a program which describes them can run the model.
  std::vector<std::string> block_names = {};
  // Keys: inputs, targets, custom_ops. What follows from `inputs`, `targets` and the graphs of `blocks`, by which a run
  // that goes on notices a change: tensors ("image f32 [8, 8, 1]", "class i32 [] below 10"), and names and versions of
  // CustomOps ("swish 1").
  std::vector<std::string> input_names = {}, target_names = {}, custom_op_names = {};
};

// One of several sources of training data: [[data.source]]. What is empty is as in [data].
struct DataSource {
  std::vector<std::string> train;  // files or patterns, of one kind
  double weight = 1;               // its share of the samples, over the sum of all weights
  std::string format = {};
  std::string separator = {};
  std::vector<std::string> columns = {};
  std::string learn = {};
  std::string chat_template = {};  // key: template
};

struct DataOptions {
  // Files or patterns (* ? [..] as in a shell, ** for folders at any depth); needed to train, or `source`.
  std::vector<std::string> train;
  std::vector<DataSource> source = {};  // instead of `train`: a mixture, each with epochs of its own
  std::vector<std::string> validation;  // likewise; may be empty
  // Text: "text" | "jsonl" (a JSON object on each line) | "csv", "tsv" (a table whose first line names its columns),
  // any of them also compressed by gzip or zstd. Token ids: "tokens", "tokens32" (raw little-endian uint16, uint32) |
  // "llm.c" | "megatron" (a .bin with its .idx) | "npy". Images, of architectures that take them: "png" (in a folder
  // for each class) | "cifar10", "cifar100" (their binary files) | "npy" (arrays of images and of their classes).
  // "auto": by the names of the files, and by what they begin with.
  std::string format = "auto";
  std::string separator = {};             // text: what lies between documents; empty: a file is one document
  std::vector<std::string> columns = {};  // jsonl, csv, tsv: that of the text, or those of prompt and completion
  // jsonl, csv, tsv: the column of what model.head learns: the class, by number (0 to model.labels - 1) or by
  // model.label_names; the number; the classes of words; the right choice (from 0). Empty: "label"; of words, "tags".
  std::string label = {};
  // A task of GLUE (Wang et al., 2019) by name, from its files as distributed; sets format, columns, label, model.head,
  // model.labels and model.label_names: "cola" | "sst2" | "mrpc" | "stsb" | "qqp" | "mnli" | "qnli" | "rte" | "wnli"
  std::string task = {};
  // What is predicted: "all" | "completion" (of a prompt) | "assistant" (what it says in "messages").
  std::string learn = "all";
  // Of "messages": "auto" (the tokenizer's own, if it is one of these) | "chatml" | "llama3" | "mistral" | "gemma" |
  // "zephyr".
  std::string chat_template = "auto";  // key: template
  // How sequences are made: "stream" (windows of all tokens, one behind the other) | "packed" (documents, as many as
  // fit; they do not see each other, and each counts its own positions) | "padded" (one document in each) | "auto":
  // packed for jsonl, csv, tsv and separated text, else stream.
  std::string samples = "auto";
  // Padded samples: at most so many lengths, model.sequence and shorter ones that fit the data, each microbatch taking
  // the shortest that holds its longest sample.
  std::int64_t buckets = 8;
  std::string order = "random";  // "random" (another one in each epoch) | "sequential" (that of the data)
  // Of text: "bytes", or a tokenizer.json, a SentencePiece .model, a vocab.txt, tiktoken's ranks, or a directory with
  // one of these. Not set: that of model.pretrained, if it has one.
  std::string tokenizer = "bytes";
  double masked = 0.15;  // bert, roberta: share of each sequence's tokens that are predicted, in (0, 1]
  // bert, roberta: id that replaces most of them; -1: the tokenizer's mask token, or without one the vocabulary's last
  // id, which must be free.
  std::int64_t mask_token = -1;
  // Images of training, by counters, so that a resumed run sees the same: "none" | "shift" (moved by up to an eighth of
  // their sides, and mirrored by chance; He et al., 2016, section 4.2) | "crop" (a part of 8% to 100% of the area,
  // scaled, and mirrored by chance; Szegedy et al., 2015).
  std::string augment = "none";
  // Resume although the training data differ from the checkpoint's; for one resume: l2l-train --allow-change
  // data.train.
  bool allow_change = false;
  std::int64_t threads = 1;  // that read samples ahead, while a step runs
  // A program's own data instead of files; no keys of a config.
  std::shared_ptr<const SampleSource> train_source = nullptr, validation_source = nullptr;

  bool has_training() const { return train_source != nullptr || !train.empty() || !source.empty(); }
  bool has_validation() const { return validation_source != nullptr || !validation.empty(); }
};

// minibatch = micro_batch x micro_batches. 0 is "not set": the value then follows from those that are set.
// Trainer::options() has all three.
struct BatchOptions {
  static constexpr std::int64_t kChosen = -1;

  std::int64_t minibatch = 0;  // sequences per minibatch, of all devices together; divisible by device.count
  // Sequences per microbatch. Not set: 8; where minibatch alone is set, the largest divisor of a device's share up to
  // 8. kChosen (key: "auto"), with minibatch and recompute.policy = "auto" alone: the one that makes the step shortest
  // on this machine. Other microbatches give other bits.
  std::int64_t micro_batch = 0;
  // Microbatches of all devices together; divisible by their number, and by parts; not set: 1.
  std::int64_t micro_batches = 0;
  // A power of two: the minibatch is cut into so many equal parts, whose gradients are summed apart and then added as a
  // binary tree, so that any number of devices that divides it, in one process or several, gives the same bits with the
  // same microbatch. For gradients in fp32 ("auto" is that then) and the relay. 0: each device sums its share, and bits
  // depend on their number.
  std::int64_t parts = 0;
};

// Parameters that are updated in another way than the others.
struct ParameterGroup {
  std::vector<std::string> parameters;  // patterns of names, as in optimizer.train
  double learning_rate = -1;  // the highest of the schedule, which is followed in proportion; -1: the optimizer's
  double weight_decay = -1;   // also of norms and biases; -1: the optimizer's
};

struct OptimizerOptions {
  std::string name = "adamw";         // "adamw" (Loshchilov & Hutter, 2019) | "lamb" (You et al., 2020) | "sgd"
  double learning_rate = 1e-3;        // the highest of the schedule
  double beta1 = 0.9, beta2 = 0.999;  // adamw, lamb: decay of the moments, at most 0.999999; key: betas = [0.9, 0.999]
  double epsilon = 1e-8;              // adamw, lamb: added to the denominator
  double momentum = 0.9;              // sgd
  // Of matrices and tables, not of norms and biases. adamw, lamb: decoupled from the gradient. sgd: added to it, before
  // the momentum, as in PyTorch.
  double weight_decay = 0.01;
  std::string clip = "none";     // "none" | "per_layer" (each layer by its own norm) | "global" (by that of all)
  double max_norm = 1.0;         // with clip: gradients of a larger norm are scaled down to it
  std::string moments = "fp32";  // "fp32" | "bf16_first" (the second in fp32) | "bf16" | "int8" (experimental)
  // "eager": a layer is updated as soon as its gradients arrive. "after_backward": all layers are updated after the
  // backward pass. The bits are the same.
  std::string update = "eager";
  // Patterns of names (* and ? as in file names) of the parameters that are trained: ["h.11.*", "ln_f.*"]. All others
  // are frozen: they have no moments, no gradients, and no master but what crosses the link. Empty: all are trained.
  std::vector<std::string> train = {};
  std::vector<ParameterGroup> group =
      {};  // each [[optimizer.group]]; of several that name a parameter the first counts
  // Learning rates fall from layer to layer by this factor, from the head, which has 1, to the embedding (Clark et al.,
  // 2020, of ELECTRA's fine-tuning). In (0, 1]; a tied table counts as the embedding's.
  double layer_decay = 1;
};

// Low-rank adapters (LoRA; Hu et al., 2021) beside a frozen model, as PEFT has them.
struct LoraOptions {
  std::int64_t rank = 0;  // of their matrices; 0: none
  double alpha = 8;       // what they add is scaled by alpha / rank
  double dropout = 0;     // of what they read, in [0, 1)
  // Linear layers of blocks, by the last parts of their names: ["q_proj", "v_proj"], or ["all-linear"]. Empty: as PEFT
  // chooses: query and value projections, gpt2: c_attn.
  std::vector<std::string> targets = {};
  bool rank_stabilized = false;  // scaled by alpha / sqrt(rank) (rsLoRA; Kalajdzievski, 2023)
  // A PEFT adapter directory to begin from, which sets the keys above but for dropout; those that are set must agree.
  std::filesystem::path adapter = {};
};

struct ScheduleOptions {
  std::string kind = "constant";  // "constant" | "cosine" | "linear": how the rate falls after the warm-up
  std::int64_t warmup_steps = 0;  // in which the learning rate rises linearly
  double minimum = 0;             // learning rate at the end of the run; not with "constant"
  // A program's own rule instead of these keys and optimizer.learning_rate: the learning rate of step `step`, from 0; 0
  // or more. A pure function, so that a run resumes bit for bit; no key of a config.
  std::function<double(std::int64_t step)> rate = nullptr;
};

struct PrecisionOptions {
  // Type of activations, and of weights on the device: "fp32" | "bf16" | "fp16". "auto": bf16 where the device has
  // instructions for its products, as GPUs and processors with AMX or AVX512-BF16 do, else fp32; fp32 also with tf32,
  // and for a program's own layers, whose numbers may need it. Trainer::options() has the type that was chosen, and so
  // has a checkpoint, with whose type options_to_resume() goes on. Another type gives other bits.
  std::string compute = "auto";
  std::string gradients = "auto";  // on the link: "auto" (the compute type) | "fp32" | "bf16" | "fp16" (with fp16 only)
  // fp16: factor of the loss (Micikevicius et al., 2018). 0 (key: "dynamic"): it halves when gradients overflow, and
  // that step changes nothing.
  double loss_scale = 0;
  std::int64_t loss_scale_growth = 2000;  // a dynamic scale doubles after so many steps in a row without an overflow
  // cuda, in fp32: matrix products on tensor cores, by TF32: ten bits of each factor's mantissa, sums in
  // fp32; also those of attention whose heads have at most 128 elements, a multiple of 4, and whose scores are not
  // capped. The rest stays fp32, and so does all that the host device computes.
  bool tf32 = false;
};

struct DeviceOptions {
  std::string kind = "auto";  // "auto" (a GPU if there are a driver and our CUDA module, else host) | "host" | "cuda"
  std::int64_t index = 0;     // cuda: the first device, as the driver counts them
  std::int64_t count = 1;     // devices, each with an equal share of the microbatches
  // Devices over which each layer is split (tensor and sequence parallelism), a divisor of `count`; they share
  // microbatches. GPUs exchange by NCCL.
  std::int64_t tensor = 1;
  // Of devices that share layers; 1 where the two do not fit together.
  std::int64_t groups() const { return tensor > 0 && count >= tensor ? count / tensor : 1; }
  // How a layer's weights come to several devices. "whole": each copies all of them out of host memory. "gathered":
  // each copies its part, and the devices gather the others' from each other, which needs NCCL on GPUs. "auto":
  // gathered on GPUs that can, else whole. The bits do not depend on it.
  std::string feed = "auto";
  // Where the gradients of several devices are added. "host": each brings all of its own there. "devices": they
  // exchange slices, each adds those of its slice and brings the sum in fp32, which needs NCCL on GPUs and, in a run of
  // several processes, a power of two of devices. "auto": on GPUs that can and copy all weights, where that is fewer
  // bytes, else the host. The bits do not depend on it.
  std::string sums = "auto";
  // Limit on each device's memory, in bytes. 0: what it has free; but of a host's memory, which others need too,
  // recompute.policy = "auto" takes a quarter at most, or the least with which the model can be trained.
  std::uint64_t memory = 0;
  // "relay": layer by layer, weights in host memory. "resident": the conventional baseline, all weights on the device.
  std::string execution = "relay";
  std::int64_t threads = 0;         // host: compute threads of each device; 0: all cores, divided among the devices
  bool graphs = true;               // cuda: run programs as CUDA graphs; the bits do not depend on it
  std::uint64_t pinned_memory = 0;  // cuda: limit on page-locked memory; beyond it, copies are staged
  // cuda, no key: the folder of a checkpoint whose kernels the run takes where several compute the same with other last
  // bits. options_to_resume() sets it; what it does not know is chosen by time.
  std::filesystem::path kernels_from = {};
};

// Processes that train together, one on each node, each with device.count devices and an equal share of the
// microbatches and of the optimizer state. The bits are those of one process with all devices.
struct DistributedOptions {
  // "mpi": the processes that mpirun or srun started. "single": this one alone. "auto": "mpi" where several were
  // started.
  std::string kind = "auto";
  // Where the weights lie that cross the link, all of them on each process or 1/N. "replicated": a new version of a
  // layer goes to all once. "sharded": each process has its part alone, and a layer is gathered for every visit; more
  // bytes over the network, fewer in memory. Layers with frozen parameters are replicated.
  std::string wire = "replicated";
  // Seconds after which a process that says nothing any more ends the run; 0: never. Each speaks once a second.
  std::int64_t timeout = 60;
  // How many processes there are: any other number is refused. 0: as many as were started. Where one process alone has
  // been started, its plan and predictions are those of one of so many, and it trains nothing.
  std::int64_t nodes = 0;
  // GB/s that each of them can send to the others, and as much receive meanwhile: predictions count what exchanges
  // take. 0: processes that were started together measure it; to one that plans alone they take no time.
  double bandwidth = 0;
};

struct TransferOptions {
  static constexpr std::int64_t kChosen = -1;

  // Where layer inputs wait for the backward pass. "auto": where recompute.policy = "auto" finds the step shortest,
  // else those of as many blocks as fit on the device, the others on the host; reversible blocks keep none. "host" |
  // "device": all of them there, also those of a reversible model.
  std::string stash = "auto";
  // Blocks whose weights stay on the device from the forward to the backward pass, and so cross the link once a step.
  // The last block does so anyway where the head is one layer, and is not counted. kChosen (key: "auto"): none, or,
  // with recompute.policy = "auto", as many as make the step shortest in device.memory; none of several processes with
  // sharded weights.
  std::int64_t resident_layers = kChosen;
  std::int64_t prefetch = 1;  // layers fetched ahead; there are 1 + prefetch weight slots
  // Rows of the embedding table that travel at once. 0: the whole table, but if it is larger than a block, as many rows
  // as fit in a block's slot.
  std::int64_t vocabulary_chunk = 0;
  std::uint64_t link_bandwidth = 0;  // host device: bytes per second, each way, from 10,000; 0: not throttled
};

struct RecomputeOptions {
  // What a block recomputes in the backward pass:
  //   "full"       everything, from its input (Chen et al., 2016)
  //   "selective"  the core of attention, with model.attention = "core" (Korthikanti et al., 2022)
  //   "min_cut"    what needs no matrix product, from the fewest bytes
  //   "none"       nothing
  //   "budget"     as "full", with scratch of at most `budget`, which must be set
  //   "auto"       chosen for each block together with the place of its stash, to make the step shortest in
  //                device.memory; what ops take on this machine is measured where a Trainer is told to or by tune(),
  //                else estimated. None of its choices changes a bit. With a budget as "budget"; as "full" where blocks
  //                rebuild their inputs
  std::string policy = "auto";
  // Limit on the scratch of a block's backward pass of one microbatch; the block recomputes more where it must.
  std::uint64_t budget = 0;

  // Whether the choice follows from measured times.
  bool leaves_choice() const { return policy == "auto" || budget > 0; }
};

struct EpsOptions {
  std::int64_t threads = 0;  // workers of the parameter server; 0: all cores, less one for a GPU's feeder
  std::uint64_t memory = 0;  // limit on weights, optimizer state and gradients in host memory, in bytes
  // Layers of each device whose gradients may wait in host memory for their updates, at most all. With more, a host
  // that updates more slowly than the device computes makes up for it during the next forward pass: worth it up to the
  // layers that it can update in that time. 0: 1 + 2 K for K devices, in all; beside a GPU more, of up to a twentieth
  // of the memory of weights and optimizer state, where there is room. Without effect where updates wait for the whole
  // backward pass anyway.
  std::int64_t gradient_buffers = 0;
  // Limit on the host stash, in bytes. 0: what there is; but recompute.policy = "auto" takes a quarter of what is free
  // at most, or the least that it can do with.
  std::uint64_t stash_memory = 0;
  // Checksums of weights and optimizer state, taken at every update and compared when they are read next, so that a bit
  // that flips in host memory ends the run before it is saved (CorruptState).
  bool verify = true;
};

struct CheckpointOptions {
  // Empty: nothing is saved; l2l-train then takes checkpoints/NAME, where its config is NAME.toml. In a file that
  // load_options() reads, "<config>/NAME" is NAME beside that file.
  std::filesystem::path directory;
  std::int64_t every = 0;  // steps between saves, which are written while training goes on; 0: at the end only
  double minutes = 30;     // a save also begins when the last one began so long ago; 0: it does not
  std::int64_t keep = 2;   // how many of the newest checkpoints are kept
  // The checkpoint of the best validation is kept, too, as `best` in the directory: by "loss", or by a metric, which is
  // better the higher it is. Empty: it is not.
  std::string best = {};
};

struct RunOptions {
  std::int64_t steps = 100;                // in total, those before a resume included
  std::uint64_t seed = 1;                  // of initial weights, dropout and the order of data
  std::int64_t seconds = 0;                // the run ends after the step that reaches this time; 0: no limit
  std::int64_t patience = 0;               // the run ends after so many validations without a better one; 0: never
  std::int64_t validate_every = 0;         // steps between validations; 0: at the end only
  double validate_minutes = 0;             // a validation also begins so long after the last one; 0: it does not
  bool allow_nonfinite = false;            // load weights that are NaN or infinite, not refuse them
  std::filesystem::path tensorboard = {};  // of an event file for TensorBoard; empty: none
};

struct Options {
  ModelOptions model;
  DataOptions data;
  BatchOptions batch;
  OptimizerOptions optimizer;
  LoraOptions lora;
  ScheduleOptions schedule;
  PrecisionOptions precision;
  DeviceOptions device;
  DistributedOptions distributed;
  TransferOptions transfer;
  RecomputeOptions recompute;
  EpsOptions eps;
  CheckpointOptions checkpoint;
  RunOptions run;

  // Keys ("model.layers") that load_options(), parse_options() and set_option() have set, each once.
  std::vector<std::string> given = {};

  // Whether blocks rebuild their inputs from their outputs in the backward pass, instead of keeping them.
  bool rebuilds_inputs() const { return model.reversible != "none" && transfer.stash == "auto"; }
};

// Reads a TOML file. Throws BadInput naming file, line and key: unknown keys (with the nearest known one), wrong types,
// values outside their range. What a run reads (data, tokenizer, model.pretrained, lora.adapter) is looked for in the
// folder of the file where its name is relative; in this version, what is not there is looked for in the working
// directory, with a warning. What a run writes (checkpoint.directory, run.tensorboard) is relative to the working
// directory. ~ is the user's home in each of these, and in set_option().
L2L_API Options load_options(const std::filesystem::path& file);

// The same from text; `name` stands for the file in messages. All names are relative to the working directory.
L2L_API Options parse_options(const std::string& text, const std::string& name);

// Applies one `section.key=value`, the value in TOML (a bare word is taken for a string). Throws BadInput.
L2L_API void set_option(Options& options, std::string_view assignment);

// Checks what single keys cannot show (divisibility, combinations). Throws BadInput naming the keys. Trainer calls it.
L2L_API void validate_options(const Options& options);

// The options as a config file that load_options() reads back to the same values, with the same working directory and
// the file in it. For options as a Trainer or load_options() has them: every key is written, and is then one that has
// been set, even where it says what a model directory or a family would say otherwise.
L2L_API std::string to_toml(const Options& options);

// The options with the names of all files and folders made absolute, from those relative to the working directory: to
// be written to a config that is read anywhere.
L2L_API Options with_absolute_paths(Options options);
// The same, but what is read in `folder`, and a checkpoint.directory in it, are named from there, as load_options()
// reads them: to be written to a config in that folder, which can then be moved.
L2L_API Options with_paths_beside(Options options, const std::filesystem::path& folder);

}  // namespace l2l
