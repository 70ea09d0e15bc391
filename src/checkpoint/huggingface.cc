#include "checkpoint/huggingface.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/family.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/tensor_source.h"

namespace trireme {
namespace {

constexpr const char* kPositions = "embedding.position.weight";

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

/// Where a parameter of ours comes from.
struct Wanted {
  const Parameter* parameter;
  std::string theirs;  ///< without prefix
  Layout layout;
  SourceTensor source;
};

/// Compares a folder's tensors with what a model needs; every difference is a line of one error.
class Importer {
 public:
  Importer(const Family& family, const TensorSource& source, const Spec& spec, const ParameterTable& table)
      : family_(family), source_(source), spec_(spec) {
    match_parameters(table);
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
      const std::vector<float> theirs = wanted.source.file->read_f32(*wanted.source.entry);
      ours.resize(static_cast<size_t>(shape.count()));
      import_values(wanted.layout, spec_.heads, shape[0], shape.count() / shape[0], theirs, ours);
      state.write_master(*wanted.parameter, ours);
    }
  }

 private:
  void match_parameters(const ParameterTable& table) {
    std::map<std::string, std::pair<std::string, Layout>> rules;
    for (const NameRule& rule : family_.names) {
      for (int64_t block = 0; block < spec_.layers; ++block) {
        rules[numbered(rule.ours, block)] = {numbered(rule.theirs, block), rule.layout};
      }
    }
    rules[family_.head.ours] = {family_.head.theirs, family_.head.layout};
    for (const Parameter& parameter : table.all()) {
      const auto rule = rules.find(parameter.name);
      if (rule == rules.end()) {
        faults_.push_back(fmt::format("{}: the family {} has no such parameter", parameter.name, family_.model_type));
        continue;
      }
      const auto& [theirs, layout] = rule->second;
      const SourceTensor source = find(theirs);
      used_.insert(theirs);
      if (!source.entry) {
        faults_.push_back(
            fmt::format("{}: missing, expected {}", theirs, their_shape(layout, sizes_of(parameter.stored_shape))));
      } else if (check(parameter, theirs, layout, source)) {
        wanted_.push_back({&parameter, theirs, layout, source});
      }
    }
  }

  /// The tensor with or without the family's prefix.
  SourceTensor find(const std::string& name) {
    const SourceTensor prefixed = source_.find(family_.prefix + name), plain = source_.find(name);
    if (prefixed.entry && plain.entry) {
      faults_.push_back(fmt::format("{}: stands with and without \"{}\"", name, family_.prefix));
    }
    return prefixed.entry ? prefixed : plain;
  }

  bool check(const Parameter& parameter, const std::string& name, Layout layout, const SourceTensor& source) {
    const std::vector<int64_t> expected = their_shape(layout, sizes_of(parameter.stored_shape));
    const std::vector<int64_t>& found = source.entry->shape;
    const std::string& dtype = source.entry->dtype;
    if (dtype != "F32" && dtype != "F16" && dtype != "BF16" && dtype != "F64") {
      faults_.push_back(fmt::format("{}: type {}, expected F32, F16, BF16 or F64", name, dtype));
      return false;
    }
    if (found == expected) return true;
    if (parameter.name == kPositions && found.size() == 2 && found[1] == expected[1]) {
      if (found[0] > expected[0]) {
        log::info("{}: the first {} of {} positions are taken", name, expected[0], found[0]);
        return true;
      }
      faults_.push_back(fmt::format("{}: knows {} positions, the model asks for {}; set --model.context {} or less",
                                    name, found[0], expected[0], found[0]));
      return false;
    }
    faults_.push_back(fmt::format("{}: shape {}, expected {}", name, found, expected));
    return false;
  }

  /// Tensors of the file that no parameter took.
  void check_rest() {
    for (const SourceTensor& tensor : source_.all()) {
      std::string name = tensor.entry->name;
      if (name.starts_with(family_.prefix)) name = name.substr(std::strlen(family_.prefix));
      const bool ignored = std::any_of(family_.ignored.begin(), family_.ignored.end(),
                                       [&](const char* pattern) { return fits(pattern, name); });
      if (ignored || used_.contains(name)) continue;
      if (name == family_.head.theirs && spec_.tied_head) {
        check_tied(tensor);
      } else {
        faults_.push_back(fmt::format("{}: unexpected, {} {}", name, tensor.entry->dtype, tensor.entry->shape));
      }
    }
  }

  /// A head that the config calls tied must be the embedding again.
  void check_tied(const SourceTensor& head) {
    const auto embedding = std::find_if(wanted_.begin(), wanted_.end(),
                                        [](const Wanted& w) { return w.parameter->name == "embedding.token.weight"; });
    if (embedding == wanted_.end()) return;  // reported already
    const bool equal = head.entry->shape == embedding->source.entry->shape &&
                       head.file->read_f32(*head.entry) == embedding->source.file->read_f32(*embedding->source.entry);
    if (equal) return;
    faults_.push_back(fmt::format(
        "{}: differs from {} although the head is tied; set \"tie_word_embeddings\": false in config.json to "
        "keep both",
        head.entry->name, embedding->theirs));
  }

  const Family& family_;
  const TensorSource& source_;
  const Spec& spec_;
  std::vector<Wanted> wanted_;
  std::set<std::string> used_;
  std::vector<std::string> faults_;
};

}  // namespace

Spec read_huggingface_spec(const std::string& folder) {
  const Json config = read_config_file(folder);
  return family_of(config, folder).read_config(config, folder + "/config.json");
}

void load_huggingface(const std::string& folder, const Spec& spec, const ParameterTable& table, TrainingState& state) {
  const TensorSource source(folder);
  const Importer importer(family_of(read_config_file(folder), folder), source, spec, table);
  importer.require_no_faults(folder);
  importer.load(state);
}

}  // namespace trireme
