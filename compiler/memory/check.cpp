#include <bit>

#include "compiler/memory/planner.h"
#include "core/checked.h"

namespace l2l::compiler::memory {
namespace {

constexpr Bytes kMostBytes = Bytes{1} << 62;  // differences of offsets fit in 64 bits with a sign

class Checker {
 public:
  Checker(const Problem& problem, const std::function<std::string(Index)>& where) : problem_(problem), where_(where) {}

  void run() {
    check_shape();
    Bytes sum = 0;
    for (Index t = 0; t < problem_.tensors.size(); ++t) {
      check_clocks(t);
      sum = check_bytes(t, sum);
    }
    check_groups();
    check_pinned();
  }

 private:
  [[noreturn]] void refuse(Index t, const std::string& what) const {
    throw BadInput((where_ ? where_(t) : "planner: ") + "tensor '" + problem_.tensors[t].name + "' " + what);
  }

  void check_shape() const {
    if (!std::has_single_bit(problem_.alignment) || problem_.alignment > kMostBytes) {
      throw BadInput("planner: alignment " + std::to_string(problem_.alignment) + " is not a power of two up to 2^62");
    }
    if (problem_.tensors.size() >= ~Index{0}) throw BadInput("planner: more than 2^32 - 2 tensors");
    const std::size_t entries = checked_multiply(problem_.tensors.size(), problem_.streams, "planner: clock entries");
    if (problem_.streams == 0 || problem_.begin.size() != entries || problem_.end.size() != entries) {
      throw BadInput("planner: " + std::to_string(problem_.tensors.size()) + " tensors on " +
                     std::to_string(problem_.streams) + " streams have " + std::to_string(problem_.begin.size()) +
                     " and " + std::to_string(problem_.end.size()) + " clock entries");
    }
  }

  void check_clocks(Index t) const {
    const auto begin = problem_.begin_of(t), end = problem_.end_of(t);
    for (std::size_t s = 0; s < begin.size(); ++s) {
      if (begin[s] <= end[s]) continue;
      refuse(t, "ends at " + std::to_string(end[s]) + ", before it begins at " + std::to_string(begin[s]) +
                    (problem_.streams > 1 ? " (stream " + std::to_string(s) + ")" : ""));
    }
  }

  // `sum`: of sizes and paddings of the tensors before. Returns it with this tensor's.
  Bytes check_bytes(Index t, Bytes sum) {
    const Tensor& tensor = problem_.tensors[t];
    for (const Bytes bytes : {tensor.size, tensor.offset.value_or(0), problem_.alignment - 1}) {
      if (bytes >= kMostBytes) refuse(t, "has a size or offset of " + std::to_string(bytes) + ", beyond 2^62");
    }
    sum += tensor.size + problem_.alignment - 1;
    highest_pinned_ = std::max(highest_pinned_, tensor.offset.value_or(0));
    if (sum + highest_pinned_ >= kMostBytes) refuse(t, "brings the sum of all sizes beyond 2^62 bytes");
    return sum;
  }

  void check_groups() {
    grouped_.assign(problem_.tensors.size(), false);
    for (const std::vector<Index>& group : problem_.groups) {
      for (const Index t : group) {
        if (t >= problem_.tensors.size()) throw BadInput("planner: a group names tensor " + std::to_string(t));
        if (grouped_[t]) refuse(t, "is in two groups, or twice in one");
        grouped_[t] = true;
      }
    }
  }

  void check_pinned() const {
    Problem pinned{problem_.streams, 1, {}, {}, {}, {}};  // the tensors with known offsets, each by itself
    std::vector<Index> original;
    Plan plan;
    const auto add = [&](Index t, Bytes offset) {
      original.push_back(t);
      pinned.tensors.push_back(problem_.tensors[t]);
      const auto begin = problem_.begin_of(t), end = problem_.end_of(t);
      pinned.begin.insert(pinned.begin.end(), begin.begin(), begin.end());
      pinned.end.insert(pinned.end.end(), end.begin(), end.end());
      plan.offsets.push_back(offset);
    };
    for (Index t = 0; t < problem_.tensors.size(); ++t) {
      const std::optional<Bytes> offset = problem_.tensors[t].offset;
      if (!offset || grouped_[t]) continue;
      if (*offset % problem_.alignment != 0) refuse(t, misaligned(*offset));
      add(t, *offset);
    }
    for (const std::vector<Index>& group : problem_.groups) add_group(group, add);
    const std::optional<Clash> clash = find_clash(pinned, plan);
    if (!clash) return;
    const auto place = [&](Index i) {
      const Tensor& tensor = pinned.tensors[i];
      return "'" + tensor.name + "' (tensor " + std::to_string(original[i]) + ", " + std::to_string(tensor.size) +
             " bytes at " + std::to_string(plan.offsets[i]) + ")";
    };
    throw BadInput((where_ ? where_(original[clash->tensor]) : "planner: ") + "pinned tensors clash: " +
                   place(clash->tensor) + " overlaps " + place(clash->other) + " while both are alive");
  }

  template <typename Add>
  void add_group(const std::vector<Index>& group, Add add) const {
    std::optional<Bytes> base;
    Bytes before = 0;
    for (const Index t : group) {
      if (const std::optional<Bytes> offset = problem_.tensors[t].offset) {
        if (*offset < before || (base && *base + before != *offset)) {
          refuse(t, "is pinned at " + std::to_string(*offset) + ", not where its group puts it");
        }
        if ((*offset - before) % problem_.alignment != 0) refuse(t, misaligned(*offset - before) + " begins its group");
        base = *offset - before;
      }
      before += problem_.tensors[t].size;
    }
    if (!base) return;
    for (const Index t : group) {
      add(t, *base);
      *base += problem_.tensors[t].size;
    }
  }

  std::string misaligned(Bytes offset) const {
    return "is pinned: " + std::to_string(offset) + ", not a multiple of " + std::to_string(problem_.alignment) + ",";
  }

  const Problem& problem_;
  const std::function<std::string(Index)>& where_;
  std::vector<bool> grouped_;
  Bytes highest_pinned_ = 0;
};

}  // namespace

void check(const Problem& problem, const std::function<std::string(Index)>& where) { Checker(problem, where).run(); }

}  // namespace l2l::compiler::memory
