#include "checkpoint/huggingface/huggingface.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "model/adapters.h"

namespace trireme {
namespace {

constexpr const char* kPositions = "embedding.position.weight";
constexpr const char* kTokens = "embedding.token.weight";

bool of_head(const std::string& ours) { return ours.starts_with("head."); }

std::vector<int64_t> sizes_of(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (int d = 0; d < shape.dims(); ++d) sizes.push_back(shape[d]);
  return sizes;
}

/// The source of one of our parameters: one of their tensors, or one each for q, k and v.
struct Piece {
  const SourceTensor* source;
  FileLayout layout;
};
struct Wanted {
  const Parameter* parameter;  ///< of the whole model
  std::vector<Piece> pieces;
};

/// Compares files with the parameters of a model; every difference is a line of one error.
class Importer {
 public:
  Importer(const Family& family, const TensorSource& source, const Spec& spec, const ParameterTable& table,
           MissingHead missing_head, bool tied)
      : family_(family),
        spec_(spec),
        table_(table),
        whole_(spec),
        missing_head_(missing_head),
        tied_(tied),
        rules_(numbered_rules(family.names, spec.layers)),
        all_(source.all()) {
    index_tensors();
    for (const Parameter& parameter : whole_.all())
      if (!is_adapter(parameter.name)) match(parameter);
    check_rest();
  }

  void require_no_faults(const std::string& where) const {
    require(faults_.empty(), ErrorKind::data, "{} does not fit the model ({}):\n  {}", where,
            count_text(faults_.size(), "tensor"), fmt::join(faults_, "\n  "));
  }

  void load(const std::string& where, TrainingState& state) const {
    if (others_ > 0 && !family_.wrapper)
      log::info("{}: {} of other parts of the model are not read, and an export of this text model lacks them", where,
                count_text(others_, "tensor"));
    if (!left_out_.empty())
      log::info("{}: skipped, because the model has another head: {}", where, fmt::join(left_out_, ", "));
    if (!renewed_.empty())
      log::info("{}: its head is for another task with other classes; a new one is initialised: {}", where,
                fmt::join(renewed_, ", "));
    else if (!new_.empty())
      log::info("{}: missing, so they are initialised: {}", where, fmt::join(new_, ", "));
    std::vector<float> all, ours;
    for (const Wanted& wanted : wanted_) {
      const Parameter* own = table_.look_up(wanted.parameter->name);
      if (wanted.pieces.empty() || !own) continue;
      const Box whole = wanted.parameter->stored();
      all.resize(static_cast<size_t>(whole.elements()));
      for (const Piece& piece : wanted.pieces)
        import_values(piece.layout, groups_of(spec_), whole.count[0], whole.row_width(), piece.source->read(), all);
      if (own->is_whole()) {
        state.write_master(*own, all);
        continue;
      }
      ours.resize(static_cast<size_t>(own->stored().elements()));
      for_each_run(own->stored(), whole, own->stored(), [&](int64_t from, int64_t to, int64_t count) {
        std::copy_n(all.begin() + from, count, ours.begin() + to);
      });
      state.write_master(*own, ours);
    }
  }

  const std::vector<std::string>& new_head() const { return new_; }

 private:
  void index_tensors() {
    for (const SourceTensor& tensor : all_) {
      const auto [place, added] = tensors_.emplace(plain_name(family_, tensor.name), &tensor);
      if (added) continue;
      faults_.push_back(
          fmt::format("{}: appears twice, as \"{}\" and as \"{}\"", place->first, place->second->name, tensor.name));
    }
  }

  void match(const Parameter& parameter) {
    Wanted wanted{&parameter, {}};
    bool known = false;
    for (const NamedRule& rule : rules_) {
      if (rule.ours != parameter.name) continue;
      known = true;
      if (const SourceTensor* found = find(rule)) {
        if (is_of_another_task(parameter, rule, *found))
          renew(parameter, rule, *found);
        else if (check(parameter, rule, *found))
          wanted.pieces.push_back({found, rule.layout});
      } else if (missing_head_ != MissingHead::refuse && of_head(parameter.name)) {
        new_.push_back(rule.theirs);
      } else {
        faults_.push_back(fmt::format("{}: missing, expected {}", rule.theirs,
                                      their_shape(rule.layout, groups_of(spec_), sizes_of(parameter.stored_shape))));
      }
    }
    if (!known)
      faults_.push_back(fmt::format("{}: the family {} has no such parameter", parameter.name, family_.model_type));
    wanted_.push_back(std::move(wanted));
  }

  /// A head that may be new and has a different number of classes.
  bool is_of_another_task(const Parameter& parameter, const NamedRule& rule, const SourceTensor& source) const {
    if (missing_head_ != MissingHead::renew || !of_head(parameter.name)) return false;
    const std::vector<int64_t> expected = their_shape(rule.layout, groups_of(spec_), sizes_of(parameter.stored_shape));
    return source.shape.size() == expected.size() && !expected.empty() && source.shape[0] != expected[0] &&
           std::equal(expected.begin() + 1, expected.end(), source.shape.begin() + 1);
  }

  void renew(const Parameter& parameter, const NamedRule& rule, const SourceTensor& source) {
    renewed_.push_back(fmt::format("{} ({} there, {} here)", rule.theirs, source.shape,
                                   their_shape(rule.layout, groups_of(spec_), sizes_of(parameter.stored_shape))));
    new_.push_back(rule.theirs);
  }

  /// The tensor of a rule, or the one that an untied head computes with instead.
  const SourceTensor* find(const NamedRule& rule) {
    used_.insert(rule.theirs);
    const auto named = tensors_.find(rule.theirs);
    const SourceTensor* found = named == tensors_.end() ? nullptr : named->second;
    const NameRule* copy = untied_copy(family_, spec_, rule.ours);
    const auto instead = copy ? tensors_.find(copy->theirs) : tensors_.end();
    if (instead == tensors_.end()) return found ? found : only_copy(rule);
    used_.insert(copy->theirs);
    if (found && found->read() != instead->second->read())
      log::info("{}: skipped, because the untied head uses {} instead", rule.theirs, copy->theirs);
    return instead->second;
  }

  /// Tensors that the files of a tied model hold only under the other name.
  const SourceTensor* only_copy(const NamedRule& rule) {
    if (!tied_) return nullptr;
    for (const NameRule& copy : family_.copies) {
      const auto found = rule.ours == copy.ours ? tensors_.find(copy.theirs) : tensors_.end();
      if (found == tensors_.end()) continue;
      used_.insert(copy.theirs);
      return found->second;
    }
    return nullptr;
  }

  bool check(const Parameter& parameter, const NamedRule& rule, const SourceTensor& source) {
    const std::string name = plain_name(family_, source.name);
    const std::vector<int64_t> expected = their_shape(rule.layout, groups_of(spec_), sizes_of(parameter.stored_shape));
    const std::vector<int64_t>& found = source.shape;
    if (source.dtype != "F32" && source.dtype != "F16" && source.dtype != "BF16" && source.dtype != "F64") {
      faults_.push_back(fmt::format("{}: type {}, expected F32, F16, BF16 or F64", name, source.dtype));
      return false;
    }
    if (found == expected) return true;
    if (parameter.name == kPositions && found.size() == 2 && found[1] == expected[1]) {
      const int64_t known = found[0] - spec_.position_offset;
      if (found[0] > expected[0]) {
        log::info("{}: using the first {} of {} positions", name, spec_.context, known);
        return true;
      }
      faults_.push_back(fmt::format("{}: has {} positions, but the model needs {}; set --model.context {} or less",
                                    name, known, spec_.context, known));
      return false;
    }
    faults_.push_back(fmt::format("{}: shape {}, expected {}", name, found, expected));
    return false;
  }

  /// Tensors of the files that no parameter took.
  void check_rest() {
    for (const auto& [name, tensor] : tensors_) {
      const bool ignored =
          std::any_of(family_.ignored.begin(), family_.ignored.end(),
                      [whole = std::string_view(name)](const char* pattern) { return fits(pattern, whole); });
      if (ignored || used_.contains(name) || is_copy(name, *tensor)) continue;
      if (is_of_another_part(family_, tensor->name)) {
        ++others_;
        continue;
      }
      if (is_of_another_head(name)) {
        left_out_.push_back(name);
      } else {
        faults_.push_back(fmt::format("{}: unexpected, {} {}", name, tensor->dtype, tensor->shape));
      }
    }
  }

  /// A decoder's matrix is another head's only for a classifier: elsewhere it means that the head is not tied.
  bool is_of_another_head(const std::string& name) const {
    for (const NamedRule& rule : rules_) {
      if (rule.theirs == name && of_head(rule.ours)) return rule.ours != "head.weight" || !spec_.has_decoder();
    }
    return !spec_.has_decoder() && std::any_of(family_.copies.begin(), family_.copies.end(),
                                               [&](const NameRule& rule) { return rule.theirs == name; });
  }

  /// Tied tensors must be the other one again.
  bool is_copy(const std::string& name, const SourceTensor& copy) {
    for (const NameRule& rule : family_.copies) {
      if (rule.theirs != name) continue;
      const auto original =
          std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& w) { return w.parameter->name == rule.ours; });
      if (original == wanted_.end() || (original->parameter->name == kTokens && !spec_.tied_head)) continue;
      if (original->pieces.empty()) return true;  // reported already
      const SourceTensor& source = *original->pieces.front().source;
      if (copy.shape == source.shape && copy.read() == source.read()) return true;
      faults_.push_back(fmt::format(
          "{}: differs from {} although the head is tied; set \"tie_word_embeddings\": false in config.json to "
          "keep both",
          copy.name, plain_name(family_, source.name)));
      return true;
    }
    return false;
  }

  const Family& family_;
  const Spec& spec_;
  const ParameterTable& table_;
  ParameterTable whole_;
  MissingHead missing_head_;
  bool tied_;
  std::vector<NamedRule> rules_;
  std::vector<SourceTensor> all_;
  std::map<std::string, const SourceTensor*> tensors_;  // by plain name
  std::vector<Wanted> wanted_;
  std::set<std::string> used_;
  std::vector<std::string> faults_, left_out_, new_, renewed_;
  int64_t others_ = 0;
};

}  // namespace

std::vector<std::string> import_tensors(const Family& family, const TensorSource& source, const std::string& where,
                                        const Spec& spec, const ParameterTable& table, MissingHead missing_head,
                                        TrainingState& state, bool tied) {
  const Importer importer(family, source, spec, table, missing_head, tied);
  importer.require_no_faults(where);
  importer.load(where, state);
  return importer.new_head();
}

}  // namespace trireme
