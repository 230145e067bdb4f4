#include <algorithm>

#include "compiler/memory/streams.h"
#include "l2l/errors.h"

namespace l2l::compiler::memory {
namespace {

class StorageBuilder {
 public:
  StorageBuilder(const StreamProgram& program, const OpOrder& order) : program_(program), order_(order) {}

  Storages run() {
    for (Index t = 0; t < program_.tensors.size(); ++t) check_ops(t);
    find_roots();
    std::vector<Index> storage_of_root(program_.tensors.size(), kNone);
    for (Index t = 0; t < program_.tensors.size(); ++t) {
      if (roots_[t] != t) continue;
      storage_of_root[t] = static_cast<Index>(storages_.all.size());
      storages_.all.push_back({t, 0, {}, false, {}});
    }
    for (Index t = 0; t < program_.tensors.size(); ++t) {
      storages_.of_tensor.push_back(storage_of_root[roots_[t]]);
      add_to_storage(t, storages_.all[storages_.of_tensor.back()]);
    }
    return std::move(storages_);
  }

 private:
  static constexpr Index kNone = ~Index{0};

  [[noreturn]] void refuse(Index t, const std::string& what) const {
    throw BadInput("planner: tensor '" + program_.tensors[t].name + "' " + what);
  }
  static std::string name(Index op) { return "op " + std::to_string(op); }

  void check_ops(Index t) const {
    const StreamTensor& tensor = program_.tensors[t];
    const bool written = !tensor.lifelong || tensor.in_place_of;
    if (written && tensor.producer >= program_.ops.size())
      refuse(t, "is produced by " + name(tensor.producer) + ", which is not there");
    for (const Index op : tensor.consumers) {
      if (op >= program_.ops.size()) refuse(t, "is consumed by " + name(op) + ", which is not there");
      if (written && op != tensor.producer && !order_.before(tensor.producer, op)) {
        refuse(t, "is consumed by " + name(op) + ", which does not wait for its producer, " + name(tensor.producer));
      }
    }
  }

  void find_roots() {
    std::vector<bool> taken(program_.tensors.size(), false);
    for (Index t = 0; t < program_.tensors.size(); ++t) {
      if (!program_.tensors[t].in_place_of) continue;
      const Index input = *program_.tensors[t].in_place_of;
      check_in_place(t, input);
      if (taken[input]) refuse(t, "lies in place of '" + program_.tensors[input].name + "', as another does");
      taken[input] = true;
    }
    for (Index t = 0; t < program_.tensors.size(); ++t) {
      Index root = t;
      std::size_t steps = 0;
      while (program_.tensors[root].in_place_of) {
        root = *program_.tensors[root].in_place_of;
        if (++steps > program_.tensors.size()) refuse(t, "lies in place of itself");
      }
      roots_.push_back(root);
    }
  }

  void check_in_place(Index t, Index input) const {
    if (input >= program_.tensors.size()) refuse(t, "lies in place of a tensor that is not there");
    const StreamTensor& tensor = program_.tensors[t];
    const StreamTensor& other = program_.tensors[input];
    if (std::find(other.consumers.begin(), other.consumers.end(), tensor.producer) == other.consumers.end()) {
      refuse(t, "lies in place of '" + other.name + "', which its producer does not consume");
    }
    for (const Index op : other.consumers) {
      if (op == tensor.producer || order_.before(op, tensor.producer)) continue;
      refuse(t, "lies in place of '" + other.name + "', which " + name(op) + " may still read");
    }
  }

  void add_to_storage(Index t, Storage& storage) const {
    const StreamTensor& tensor = program_.tensors[t];
    storage.size = std::max(storage.size, tensor.size);
    storage.lifelong = storage.lifelong || tensor.lifelong;
    if (tensor.offset) {
      if (storage.offset && *storage.offset != *tensor.offset)
        refuse(t, "is pinned elsewhere than what it is in place of");
      storage.offset = tensor.offset;
    }
    if (tensor.lifelong) return;
    touch(storage, tensor.producer);
    for (const Index op : tensor.consumers) touch(storage, op);
  }

  void touch(Storage& storage, Index op) const {
    for (Index& last : storage.last) {
      if (program_.ops[last] != program_.ops[op]) continue;
      if (order_.place(last) < order_.place(op)) last = op;
      return;
    }
    storage.last.push_back(op);
  }

  const StreamProgram& program_;
  const OpOrder& order_;
  std::vector<Index> roots_;
  Storages storages_;
};

}  // namespace

Storages storages_of(const StreamProgram& program, const OpOrder& order) {
  return StorageBuilder(program, order).run();
}

}  // namespace l2l::compiler::memory
