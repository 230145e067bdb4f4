#include "text/regex.h"

#include <algorithm>
#include <cstdint>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "l2l/errors.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

// Steps of one search, at least and by bytes of the text, and bytes of the stack that compiled code may use.
// Expressions of tokenizers need a few steps for each byte of a match; one that needs more than these is refused instead
// of running for hours.
constexpr std::size_t kMostSteps = 20'000'000, kMostStepsPerByte = 8;
constexpr std::size_t kFirstStack = 64 << 10, kMostStack = 16 << 20;

std::string message_of(int code) {
  char text[256] = {};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

}  // namespace

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  bool jit = false;
  ~Compiled() { pcre2_code_free(code); }
};

namespace {

// What a thread needs to match: freed with the thread.
struct Workspace {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kFirstStack, kMostStack, nullptr);
  Workspace() {
    if (data == nullptr || context == nullptr || stack == nullptr) throw OutOfMemory("regular expressions: no memory");
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Workspace() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Workspace(const Workspace&) = delete;
};

}  // namespace

Regex::Regex(const std::string& pattern) : compiled_(std::make_unique<Compiled>()), pattern_(pattern) {
  if (valid_prefix(pattern) != pattern.size()) throw BadInput("a regular expression is not UTF-8");
  const std::string own = translate_regex(pattern);
  int error = 0;
  std::size_t place = 0;
  compiled_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(own.data()), own.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr);
  if (compiled_->code == nullptr) {
    throw BadInput("the regular expression " + pattern + " is not one: " + message_of(error) + " (at byte " +
                   std::to_string(place) + " of " + own + ")");
  }
  compiled_->jit = pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

std::optional<Match> Regex::find(std::string_view text, std::size_t from) const {
  thread_local Workspace own;
  const std::size_t steps = std::max(kMostSteps, kMostStepsPerByte * text.size());
  pcre2_set_match_limit(own.context, static_cast<std::uint32_t>(std::min<std::size_t>(steps, UINT32_MAX)));
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int found =
      compiled_->jit
          ? pcre2_jit_match(compiled_->code, subject, text.size(), from, 0, own.data, own.context)
          : pcre2_match(compiled_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, own.data, own.context);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) {
    throw BadInput("the regular expression " + pattern_ + " takes too long on this text: " + message_of(found));
  }
  const std::size_t* const range = pcre2_get_ovector_pointer(own.data);
  return Match{range[0], range[1]};
}

}  // namespace l2l::text
