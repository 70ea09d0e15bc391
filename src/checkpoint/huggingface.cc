#include "checkpoint/huggingface.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/family.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/tensor_source.h"

namespace trireme {
namespace {

constexpr const char* kPositions = "embedding.position.weight";
constexpr const char* kTokens = "embedding.token.weight";

Json read_config_file(const std::string& folder) { return read_json(folder + "/config.json", size_t{16} << 20); }

const Family& family_of(const Json& config, const std::string& folder) {
  const std::string where = folder + "/config.json";
  return find_family(json_field<std::string>(config, "model_type", where), where);
}

std::vector<int64_t> sizes_of(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (int d = 0; d < shape.dims(); ++d) sizes.push_back(shape[d]);
  return sizes;
}

/// Where a parameter of ours comes from: one tensor of theirs, or one each for q, k and v.
struct Piece {
  SourceTensor source;
  Layout layout;
};
struct Wanted {
  const Parameter* parameter;
  std::vector<Piece> pieces;
};

/// Compares a folder's tensors with what a model needs; every difference is a line of one error.
class Importer {
 public:
  Importer(const Family& family, const TensorSource& source, const Spec& spec, const ParameterTable& table)
      : family_(family), spec_(spec), rules_(numbered_rules(family.names, spec.layers)) {
    index_tensors(source);
    for (const Parameter& parameter : table.all()) match(parameter);
    check_rest();
  }

  void require_no_faults(const std::string& folder) const {
    require(faults_.empty(), ErrorKind::data, "{} does not fit the model ({} tensors):\n  {}", folder, faults_.size(),
            fmt::join(faults_, "\n  "));
  }

  void load(TrainingState& state) const {
    std::vector<float> ours;
    for (const Wanted& wanted : wanted_) {
      const Shape& shape = wanted.parameter->stored_shape;
      ours.resize(static_cast<size_t>(shape.count()));
      for (const Piece& piece : wanted.pieces) {
        import_values(piece.layout, spec_.heads, shape[0], shape.count() / shape[0],
                      piece.source.file->read_f32(*piece.source.entry), ours);
      }
      state.write_master(*wanted.parameter, ours);
    }
  }

 private:
  void index_tensors(const TensorSource& source) {
    for (const SourceTensor& tensor : source.all()) {
      const auto [place, added] = tensors_.emplace(plain_name(family_, tensor.entry->name), tensor);
      if (added) continue;
      faults_.push_back(fmt::format("{}: stands twice, as \"{}\" and as \"{}\"", place->first,
                                    place->second.entry->name, tensor.entry->name));
    }
  }

  void match(const Parameter& parameter) {
    Wanted wanted{&parameter, {}};
    bool known = false;
    for (const NamedRule& rule : rules_) {
      if (rule.ours != parameter.name) continue;
      known = true;
      used_.insert(rule.theirs);
      const auto found = tensors_.find(rule.theirs);
      if (found == tensors_.end()) {
        faults_.push_back(fmt::format("{}: missing, expected {}", rule.theirs,
                                      their_shape(rule.layout, sizes_of(parameter.stored_shape))));
      } else if (check(parameter, rule, found->second)) {
        wanted.pieces.push_back({found->second, rule.layout});
      }
    }
    if (!known)
      faults_.push_back(fmt::format("{}: the family {} has no such parameter", parameter.name, family_.model_type));
    wanted_.push_back(std::move(wanted));
  }

  bool check(const Parameter& parameter, const NamedRule& rule, const SourceTensor& source) {
    const std::vector<int64_t> expected = their_shape(rule.layout, sizes_of(parameter.stored_shape));
    const std::vector<int64_t>& found = source.entry->shape;
    const std::string& dtype = source.entry->dtype;
    if (dtype != "F32" && dtype != "F16" && dtype != "BF16" && dtype != "F64") {
      faults_.push_back(fmt::format("{}: type {}, expected F32, F16, BF16 or F64", rule.theirs, dtype));
      return false;
    }
    if (found == expected) return true;
    if (parameter.name == kPositions && found.size() == 2 && found[1] == expected[1]) {
      const int64_t known = found[0] - spec_.position_offset;
      if (found[0] > expected[0]) {
        log::info("{}: the first {} of {} positions are taken", rule.theirs, spec_.context, known);
        return true;
      }
      faults_.push_back(fmt::format("{}: knows {} positions, the model asks for {}; set --model.context {} or less",
                                    rule.theirs, known, spec_.context, known));
      return false;
    }
    faults_.push_back(fmt::format("{}: shape {}, expected {}", rule.theirs, found, expected));
    return false;
  }

  /// Tensors of the file that no parameter took.
  void check_rest() {
    for (const auto& [name, tensor] : tensors_) {
      const bool ignored = std::any_of(family_.ignored.begin(), family_.ignored.end(),
                                       [&](const char* pattern) { return fits(pattern, name); });
      if (ignored || used_.contains(name) || is_copy(name, tensor)) continue;
      if (is_of_another_head(name)) {
        log::info("{}: left out, the model has another head", name);
      } else {
        faults_.push_back(fmt::format("{}: unexpected, {} {}", name, tensor.entry->dtype, tensor.entry->shape));
      }
    }
  }

  bool is_of_another_head(const std::string& name) const {
    return std::any_of(rules_.begin(), rules_.end(), [&](const NamedRule& rule) {
      return rule.theirs == name && rule.ours.starts_with("head.") && rule.ours != "head.weight";
    });
  }

  /// Tied tensors must be the other one again.
  bool is_copy(const std::string& name, const SourceTensor& copy) {
    for (const NameRule& rule : family_.copies) {
      if (rule.theirs != name) continue;
      const auto original =
          std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& w) { return w.parameter->name == rule.ours; });
      if (original == wanted_.end() || (original->parameter->name == kTokens && !spec_.tied_head)) continue;
      if (original->pieces.empty()) return true;  // reported already
      const SourceTensor& source = original->pieces.front().source;
      const bool equal = copy.entry->shape == source.entry->shape &&
                         copy.file->read_f32(*copy.entry) == source.file->read_f32(*source.entry);
      if (equal) return true;
      faults_.push_back(fmt::format(
          "{}: differs from {} although the head is tied; set \"tie_word_embeddings\": false in config.json to "
          "keep both",
          copy.entry->name, plain_name(family_, source.entry->name)));
      return true;
    }
    return false;
  }

  const Family& family_;
  const Spec& spec_;
  std::vector<NamedRule> rules_;
  std::map<std::string, SourceTensor> tensors_;  // by plain name
  std::vector<Wanted> wanted_;
  std::set<std::string> used_;
  std::vector<std::string> faults_;
};

}  // namespace

Spec read_huggingface_spec(const std::string& folder) {
  const Json config = read_config_file(folder);
  const std::string where = folder + "/config.json";
  const Family& family = family_of(config, folder);
  require(!config.contains("quantization_config"), ErrorKind::data,
          "{}: the weights are quantised (quantization_config); save them in f32, f16 or bf16 first", where);
  const Spec spec = family.read_config(config, find_architecture(family, config, where).head, where);
  try {
    spec.validate();
  } catch (const Error& e) {
    fail(ErrorKind::data, "{}: {}", where, e.what());
  }
  return spec;
}

void load_huggingface(const std::string& folder, const Spec& spec, const ParameterTable& table, TrainingState& state) {
  const TensorSource source(folder);
  const Importer importer(family_of(read_config_file(folder), folder), source, spec, table);
  importer.require_no_faults(folder);
  importer.load(state);
}

}  // namespace trireme
