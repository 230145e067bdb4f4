#include "tools/bench/layer_streams.h"

#include <algorithm>
#include <map>

#include "models/families.h"

namespace l2l::tools {
namespace {

using compiler::Graph;
using compiler::Region;
using compiler::ValueId;
using compiler::memory::Index;
using compiler::memory::StreamProgram;

constexpr Index kNone = ~Index{0};

class Streaming {
 public:
  Streaming(const Graph& graph, std::size_t streams)
      : graph_(graph),
        producer_(graph.values.size(), kNone),
        tensor_(graph.values.size(), kNone),
        last_(streams, kNone),
        length_(streams, 0) {
    program_.streams = streams;
  }

  StreamProgram run() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) add(static_cast<Index>(i));
    return std::move(program_);
  }

 private:
  std::size_t choose(const std::vector<Index>& producers) const {
    for (std::size_t s = 0; s < last_.size(); ++s) {
      if (last_[s] != kNone && std::find(producers.begin(), producers.end(), last_[s]) != producers.end()) return s;
    }
    return static_cast<std::size_t>(std::min_element(length_.begin(), length_.end()) - length_.begin());
  }

  void add(Index op) {
    const compiler::Op& its = graph_.ops[op];
    std::vector<Index> producers;
    for (const ValueId id : its.inputs) {
      const Index producer = producer_[static_cast<std::size_t>(id)];
      if (producer != kNone) producers.push_back(producer);
    }
    const std::size_t stream = choose(producers);
    program_.ops.push_back(stream);
    for (const Index producer : producers) {
      if (program_.ops[producer] != stream) program_.events.push_back({producer, op});
    }
    last_[stream] = op;
    ++length_[stream];
    for (const ValueId id : its.outputs) write(id, op);
    for (const ValueId id : its.inputs) {
      const Index tensor = tensor_[static_cast<std::size_t>(id)];
      if (tensor != kNone) program_.tensors[tensor].consumers.push_back(op);
    }
  }

  void write(ValueId id, Index op) {
    producer_[static_cast<std::size_t>(id)] = op;
    const compiler::Value& value = graph_.value(id);
    if (value.region != Region::scratch) return;
    tensor_[static_cast<std::size_t>(id)] = static_cast<Index>(program_.tensors.size());
    program_.tensors.push_back({value.name, value.bytes(), op});
  }

  const Graph& graph_;
  StreamProgram program_;
  std::vector<Index> producer_, tensor_;  // per value
  std::vector<Index> last_;               // op of each stream
  std::vector<std::size_t> length_;
};

class Relay {
 public:
  explicit Relay(const Graph& graph) : graph_(graph) { program_.streams = 3; }

  StreamProgram run(std::size_t visits) {
    for (std::size_t visit = 0; visit < visits; ++visit) add_visit();
    return std::move(program_);
  }

 private:
  static constexpr std::size_t kCompute = 0, kFetch = 1, kStore = 2;

  struct Visit {
    Index last = kNone, store = kNone;  // op
  };

  Index add_op(std::size_t stream) {
    program_.ops.push_back(stream);
    return static_cast<Index>(program_.ops.size() - 1);
  }
  void wait(Index op, Index for_op) {
    if (for_op != kNone) program_.events.push_back({for_op, op});
  }
  Index add_tensor(std::string name, Bytes size, Index producer) {
    program_.tensors.push_back({std::move(name), size, producer});
    return static_cast<Index>(program_.tensors.size() - 1);
  }

  void add_visit() {
    tensor_.assign(graph_.values.size(), kNone);
    leaving_.clear();
    gradients_.clear();
    const Index fetch = add_op(kFetch);
    wait(fetch, before_last_.last);
    bring_weights(fetch);
    Visit visit;
    for (const compiler::Op& op : graph_.ops) {
      const Index at = add_op(kCompute);
      if (visit.last == kNone) {
        wait(at, fetch);
        wait(at, before_last_.store);
      }
      for (const ValueId id : op.inputs) read(id, at, fetch);
      for (const ValueId id : op.outputs) write(id, at);
      visit.last = at;
    }
    visit.store = add_op(kStore);
    wait(visit.store, visit.last);
    for (const Index tensor : leaving_) program_.tensors[tensor].consumers.push_back(visit.store);
    if (!gradients_.empty()) program_.groups.push_back(gradients_);
    before_last_ = last_;
    last_ = visit;
    handed_ = leaving_.empty() ? kNone : leaving_.front();
  }

  // Values of parameters lie one after the other in the wire; some may be views of others.
  void bring_weights(Index fetch) {
    std::map<Bytes, std::vector<std::size_t>> at;
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      if (graph_.values[id].region == Region::weights) at[graph_.values[id].offset].push_back(id);
    }
    std::vector<Index> group;
    for (auto here = at.begin(); here != at.end(); ++here) {
      const auto next = std::next(here);
      const Bytes end = next == at.end() ? graph_.region_bytes(Region::weights) : next->first;
      group.push_back(add_tensor("weights/" + graph_.values[here->second[0]].name, end - here->first, fetch));
      for (const std::size_t id : here->second) tensor_[id] = group.back();
    }
    if (!group.empty()) program_.groups.push_back(std::move(group));
  }

  // What a visit reads of the one before, or else was fetched.
  void read(ValueId id, Index op, Index fetch) {
    Index& tensor = tensor_[static_cast<std::size_t>(id)];
    const compiler::Value& value = graph_.value(id);
    const bool handed = value.region == (backward() ? Region::output_gradient : Region::input);
    if (tensor == kNone && handed && handed_ != kNone) tensor = handed_;
    if (tensor == kNone) tensor = add_tensor("fetched/" + value.name, value.bytes(), fetch);
    program_.tensors[tensor].consumers.push_back(op);
  }

  void write(ValueId id, Index op) {
    Index& tensor = tensor_[static_cast<std::size_t>(id)];
    if (tensor != kNone) return program_.tensors[tensor].consumers.push_back(op);  // adds to it
    const compiler::Value& value = graph_.value(id);
    const bool scratch = value.region == Region::scratch, gradient = value.region == Region::gradients;
    tensor = add_tensor((scratch    ? "scratch/"
                         : gradient ? "gradients/"
                                    : "activations/") +
                            value.name,
                        value.bytes(), op);
    if (gradient) gradients_.push_back(tensor);
    if (scratch) return;
    const bool hands_on = value.region == Region::output || value.region == Region::input_gradient;
    leaving_.insert(hands_on ? leaving_.begin() : leaving_.end(), tensor);
  }

  bool backward() const {
    return std::any_of(graph_.values.begin(), graph_.values.end(),
                       [](const compiler::Value& value) { return value.region == Region::output_gradient; });
  }

  const Graph& graph_;
  StreamProgram program_;
  std::vector<Index> tensor_;               // per value, of this visit
  std::vector<Index> leaving_, gradients_;  // tensors, of this visit; first what it hands on
  Index handed_ = kNone;                    // by the visit before
  Visit last_, before_last_;
};

void add_model(const std::string& name, const models::Model& model, std::vector<NamedStreams>& all) {
  const models::LayerType& block = model.type(model.block(2));  // BERT's first is the norm of its embedding
  const auto blocks = static_cast<std::size_t>(model.blocks());
  all.push_back({name + " block forward", on_streams(block.forward, 3)});
  all.push_back({name + " block backward", on_streams(block.backward, 3)});
  all.push_back({name + " relay forward", relayed(block.forward, blocks)});
  all.push_back({name + " relay backward", relayed(block.backward, blocks)});
}

}  // namespace

StreamProgram on_streams(const Graph& graph, std::size_t streams) { return Streaming(graph, streams).run(); }

StreamProgram relayed(const Graph& graph, std::size_t visits) { return Relay(graph).run(visits); }

std::vector<NamedStreams> known_layer_streams() {
  std::vector<NamedStreams> all;
  models::TransformerShape shape{24, 1024, 16, 4096, 30522, 512, 4};
  shape.compute = DType::bf16;
  add_model("BERT-Large", models::make_bert(shape), all);
  shape = {48, 1600, 25, 6400, 50257, 1024, 4};
  shape.compute = DType::bf16;
  add_model("GPT-2 XL", models::make_gpt2(shape), all);
  shape = {32, 4096, 32, 11008, 32000, 2048, 4};
  shape.compute = DType::bf16;
  add_model("Llama-7B", models::make_llama(shape), all);
  return all;
}

}  // namespace l2l::tools
