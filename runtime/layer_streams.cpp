#include "runtime/layer_streams.h"

#include <algorithm>

#include "models/bert.h"
#include "models/gpt2.h"
#include "models/llama.h"

namespace l2l::runtime {
namespace {

using device::graph::Graph;
using device::graph::Region;
using device::graph::ValueId;
using device::planner::Index;
using device::planner::StreamProgram;

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
    const device::graph::Op& its = graph_.ops[op];
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
    const device::graph::Value& value = graph_.value(id);
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

void add_block(const std::string& name, const models::Model& model, std::size_t streams,
               std::vector<NamedStreams>& all) {
  const models::LayerType& block = model.type(model.block(2));  // BERT's first is the norm of its embedding
  all.push_back({name + " forward", on_streams(block.forward, streams)});
  all.push_back({name + " backward", on_streams(block.backward, streams)});
}

}  // namespace

StreamProgram on_streams(const Graph& graph, std::size_t streams) { return Streaming(graph, streams).run(); }

std::vector<NamedStreams> known_layer_streams(std::size_t streams) {
  std::vector<NamedStreams> all;
  models::TransformerShape shape{24, 1024, 16, 4096, 30522, 512, 4};
  shape.compute = DType::bf16;
  add_block("BERT-Large", models::make_bert(shape), streams, all);
  shape = {48, 1600, 25, 6400, 50257, 1024, 4};
  shape.compute = DType::bf16;
  add_block("GPT-2 XL", models::make_gpt2(shape), streams, all);
  shape = {32, 4096, 32, 11008, 32000, 2048, 4};
  shape.compute = DType::bf16;
  add_block("Llama-7B", models::make_llama(shape), streams, all);
  return all;
}

}  // namespace l2l::runtime
