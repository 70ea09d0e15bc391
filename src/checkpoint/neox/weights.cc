#include "checkpoint/neox/weights.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <string_view>

#include "base/count.h"
#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

/// The weight's elements; null and a line in `faults` if shape or type is wrong.
std::unique_ptr<ElementSource> open_weight(const TorchTensor& tensor, const std::string& file, std::string_view key,
                                           const Shape& expected, std::vector<std::string>& faults) {
  const std::string name = fs::path(file).filename().string();
  std::vector<int64_t> sizes;
  for (int d = 0; d < expected.dims(); ++d) sizes.push_back(expected[d]);
  if (tensor.shape != sizes) {
    faults.push_back(fmt::format("{}: {} has shape {}, expected {}", name, key, tensor.shape, sizes));
    return nullptr;
  }
  if (!is_float_type(tensor.dtype)) {
    faults.push_back(fmt::format("{}: {} has type {}, expected F32, F16, BF16 or F64", name, key, tensor.dtype));
    return nullptr;
  }
  auto source = std::make_unique<ElementSource>();
  source->add(tensor, element_count(tensor.shape), file);
  return source;
}

}  // namespace

NeoxWeights::NeoxWeights(const NeoxStep& step) : step_(step) {
  for (int64_t rank = 0; rank < step_.tensor_ranks(); ++rank) weights_.push_back(weights_of(rank));
  vocabulary_rows_ = count_vocabulary_rows();
}

int64_t NeoxWeights::count_vocabulary_rows() const {
  int64_t rows = 0;
  for (int64_t rank = 0; rank < step_.tensor_ranks(); ++rank) {
    const Weights& weights = weights_[static_cast<size_t>(rank)];
    const auto found = weights.find("0.word_embeddings.weight");
    const std::string where = step_.files().pipelined() ? neox_layer_file(0, rank) : neox_model_states_file(rank);
    require(found != weights.end(), ErrorKind::data, "{}: word_embeddings.weight is missing", step_.path_of(where));
    require(found->second.first.shape.size() == 2, ErrorKind::data,
            "{}: word_embeddings.weight has shape {}, expected "
            "rows and columns",
            *found->second.second, found->second.first.shape);
    rows += found->second.first.shape[0];
  }
  const auto args = step_.states(0).root().find("args");
  const auto padded = args && args->is_dict() ? args->find("padded_vocab_size") : std::nullopt;
  if (padded && padded->integer() != rows)
    padded->fail_with(fmt::format("is {}, but word_embeddings.weight has {} rows over {} tensor ranks",
                                  padded->integer(), rows, step_.tensor_ranks()));
  return rows;
}

NeoxWeights::Weights NeoxWeights::weights_of(int64_t tensor_rank) const {
  Weights weights;
  const auto add = [&](const std::string& name, const TorchValue& value, const std::string& file) {
    if (is_neox_buffer(name)) return;
    const auto [at, added] = weights.emplace(neox_name(name), std::pair(value.tensor(), &file));
    if (!added)
      value.fail_with(fmt::format("appears twice, also as {} in {}", at->second.first.name, *at->second.second));
  };
  if (step_.files().pipelined()) {
    for (const auto& [place, file] : step_.layers()) {
      if (place.second != tensor_rank) continue;
      for (const auto& [key, value] : file.root().entries())
        add(fmt::format("{}.{}", place.first, key), value, file.path());
    }
    return weights;
  }
  for (const auto& [key, value] : step_.states(tensor_rank).root().at("module").entries())
    add(key, value, step_.states(tensor_rank).path());
  return weights;
}

void NeoxWeights::check(const NeoxModel& model) {
  std::vector<std::string> faults;
  check_layers(model, faults);
  for (int64_t rank = 0; rank < step_.tensor_ranks(); ++rank) {
    Weights& weights = weights_[static_cast<size_t>(rank)];
    sources_.emplace_back();
    for (const NeoxRule& rule : model.rules) {
      const Shape& expected = model.tables[static_cast<size_t>(rank)].find(rule.ours).shape;
      const auto found = weights.find(rule.theirs);
      if (found == weights.end()) {
        const std::string file =
            step_.files().pipelined() ? neox_layer_file(rule.layer, rank) : neox_model_states_file(rank);
        if (!step_.files().pipelined() || step_.files().layers.contains({rule.layer, rank}))
          faults.push_back(fmt::format("{}: {} is missing, expected {}", file, rule.key(), expected.to_string()));
        continue;
      }
      const auto& [tensor, file] = found->second;
      sources_.back().push_back(open_weight(tensor, *file, rule.key(), expected, faults));
      weights.extract(found);
    }
    for (const auto& [name, weight] : weights)
      faults.push_back(fmt::format("{}: {} is unexpected, {} {}", fs::path(*weight.second).filename().string(), name,
                                   weight.first.dtype, weight.first.shape));
  }
  require(faults.empty(), ErrorKind::data, "{} does not fit its configs ({}):\n  {}", step_.files().folder,
          count_text(faults.size(), "tensor"), fmt::join(faults, "\n  "));
}

void NeoxWeights::check_layers(const NeoxModel& model, std::vector<std::string>& faults) const {
  if (!step_.files().pipelined()) return;
  for (const NeoxRule& rule : model.rules) {
    for (int64_t rank = 0; rank < step_.tensor_ranks(); ++rank) {
      const std::string line = neox_layer_file(rule.layer, rank) + ": the file is missing";
      if (!step_.files().layers.contains({rule.layer, rank}) && (faults.empty() || faults.back() != line))
        faults.push_back(line);
    }
  }
  for (const auto& [place, file] : step_.files().layers) {
    if (place.first > neox_last_layer(model.spec))
      faults.push_back(fmt::format("{}: unexpected layer; a model of {} ends with layer {}",
                                   fs::path(file).filename().string(), count_text(model.spec.layers, "layer"),
                                   neox_last_layer(model.spec)));
  }
}

}  // namespace trireme
