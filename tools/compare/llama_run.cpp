// What gguf_check.py asks of llama.cpp, by its C API, which it is compiled against.
//
//   llama_run MODEL.gguf logits OUT ID...       logits of every token, f32 [tokens, vocabulary], in the file OUT
//   llama_run MODEL.gguf greedy COUNT ID...     lines "TOKEN GAP": the likeliest, and how far its logit is above the
//   next llama_run MODEL.gguf tokens                 of each text on stdin, which end with a zero byte, a line of ids
#include <llama.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "llama_run: %s\n", what);
  std::exit(1);
}

llama_context* open_context(llama_model* model, int tokens) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(std::max(tokens, 256));
  params.n_batch = params.n_ubatch = params.n_ctx;
  params.n_threads = params.n_threads_batch = 1;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* const context = llama_init_from_model(model, params);
  if (context == nullptr) fail("no context");
  return context;
}

// Logits of the last `count` tokens are wanted.
void decode(llama_context* context, const std::vector<llama_token>& tokens, int first, bool all) {
  const int count = static_cast<int>(tokens.size());
  llama_batch batch = llama_batch_init(count, 0, 1);
  batch.n_tokens = count;
  for (int i = 0; i < count; ++i) {
    batch.token[i] = tokens[static_cast<size_t>(i)];
    batch.pos[i] = first + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = all || i + 1 == count;
  }
  if (llama_decode(context, batch) != 0) fail("llama_decode() failed");
  llama_batch_free(batch);
}

void write_logits(llama_model* model, const char* out, const std::vector<llama_token>& tokens) {
  llama_context* const context = open_context(model, static_cast<int>(tokens.size()));
  decode(context, tokens, 0, true);
  const auto vocabulary = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  std::FILE* const file = std::fopen(out, "wb");
  if (file == nullptr) fail("OUT cannot be written");
  for (int i = 0; i < static_cast<int>(tokens.size()); ++i) {
    std::fwrite(llama_get_logits_ith(context, i), sizeof(float), vocabulary, file);
  }
  std::fclose(file);
}

void print_greedy(llama_model* model, int count, std::vector<llama_token> tokens) {
  const auto prompt = static_cast<int>(tokens.size());
  llama_context* const context = open_context(model, prompt + count);
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  for (int i = 0; i < count; ++i) {
    decode(context, tokens, i == 0 ? 0 : prompt + i - 1, false);
    const float* const logits = llama_get_logits_ith(context, -1);
    const auto best = static_cast<int>(std::max_element(logits, logits + vocabulary) - logits);
    float second = -1e30f;
    for (int id = 0; id < vocabulary; ++id) second = id == best ? second : std::max(second, logits[id]);
    std::printf("%d %.9g\n", best, static_cast<double>(logits[best] - second));
    tokens = {best};
  }
}

void print_tokens(llama_model* model) {
  const llama_vocab* const vocabulary = llama_model_get_vocab(model);
  const std::string all{std::istreambuf_iterator<char>(std::cin), {}};
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = all.find('\0', begin);
    std::vector<llama_token> ids(end - begin + 16);
    const int count = llama_tokenize(vocabulary, all.data() + begin, static_cast<int32_t>(end - begin), ids.data(),
                                     static_cast<int32_t>(ids.size()), /*add_special=*/true, /*parse_special=*/true);
    if (count < 0) fail("llama_tokenize() failed");
    for (int i = 0; i < count; ++i) std::printf("%s%d", i > 0 ? " " : "", ids[static_cast<size_t>(i)]);
    std::printf("\n");
    begin = end + 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) fail("MODEL.gguf logits|greedy|tokens ...");
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  llama_model_params params = llama_model_default_params();
  const std::string what = argv[2];
  params.vocab_only = what == "tokens";
  params.use_extra_bufts = false;  // the plain kernels, on any processor
  llama_model* const model = llama_model_load_from_file(argv[1], params);
  if (model == nullptr) fail("the model was not loaded");
  std::vector<llama_token> ids;
  for (int i = 4; i < argc; ++i) ids.push_back(std::atoi(argv[i]));
  if (what == "logits") write_logits(model, argv[3], ids);
  if (what == "greedy") print_greedy(model, std::atoi(argv[3]), ids);
  if (what == "tokens") print_tokens(model);
  return 0;
}
