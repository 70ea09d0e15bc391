// Datasets, tokenizers and folders in GPT-NeoX's files.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "config/gpt_neox.h"
#include "config/gpt_neox_part.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class DataTranslator : private NeoxPart {
 public:
  DataTranslator(const DialectView& view, Translation& out) : NeoxPart(view, out) {}

  void translate() {
    data();
    tokenizer();
    folders();
  }

 private:
  /// "0.3 a 0.7 b" from the paths and weights of one of NeoX's three parts; a single path also has a weight, so that it
  /// has the sample order of a blend.
  std::optional<std::string> blend(const std::string& part) {
    const std::string paths_key = part + "_data_paths", weights_key = part + "_data_weights";
    const auto paths =
        neox_list(view_, paths_key.c_str(), "a list of paths", [](const Json& item) { return item.is_string(); });
    if (!paths) return std::nullopt;
    Json weights = Json::array();
    for (size_t i = 0; i < paths->size(); ++i) weights.push_back(1.0);
    if (view_.given(weights_key)) {
      const auto given =
          neox_list(view_, weights_key.c_str(), "a list of numbers", [](const Json& item) { return item.is_number(); });
      if (!given) return std::nullopt;
      weights = *given;
    }
    if (weights.size() != paths->size() || paths->empty()) {
      view_.object(paths_key,
                   fmt::format("{} and {}", count_text(paths->size(), "path"), count_text(weights.size(), "weight")));
      return std::nullopt;
    }
    std::string text;
    for (size_t i = 0; i < paths->size(); ++i)
      text += fmt::format("{}{} {}", i > 0 ? " " : "", weights[i].get<double>(), (*paths)[i].get<std::string>());
    return text;
  }

  /// Weights by number of documents matter only for several paths: a single path has the whole weight.
  void document_weights() {
    const auto several = [&](const char* key) {
      return view_.given(key) && parse_json(view_.setting(key).text, view_.origin(key).text()).size() > 1;
    };
    if (is("weight_by_num_documents") &&
        (several("train_data_paths") || several("valid_data_paths") || several("test_data_paths")))
      object("weight_by_num_documents",
             "computing weights is not supported; set train_data_weights, valid_data_weights and test_data_weights");
  }

  void data() {
    document_weights();
    if (is("eod_mask_loss")) {
      set("data.mask-end-of-text", true, "eod_mask_loss");
      if (!view_.native("optim.loss-mean"))
        object("eod_mask_loss",
               "choose the mean for micro-batches with different numbers of tokens: --optim.loss-mean tokens, over all "
               "tokens, or --optim.loss-mean micro-batches, the mean of the micro-batches' means, as in NeoX");
    }
    if (!is("use_shared_fs") && !view_.native("data.index-dir"))
      object("use_shared_fs", "name a local folder on each host for the order of the samples: --data.index-dir FOLDER");
    if (view_.given("test_data_paths") && !view_.given("train_data_paths"))
      object("test_data_paths",
             "NeoX reads it only with train_data_paths; with data_path, the third share of split is the test");
    if (view_.given("train_data_paths")) {
      if (view_.given("data_path")) object("data_path", "train_data_paths also names the data; remove one of them");
      if (const auto text = blend("train")) set("data.train", *text, "train_data_paths");
      if (!view_.given("valid_data_paths")) {
        set("data.validation", "", "train_data_paths");
      } else if (const auto validation = blend("valid")) {
        set("data.validation", *validation, "valid_data_paths");
      }
      if (view_.given("test_data_paths")) {
        if (const auto test = blend("test")) set("data.test", *test, "test_data_paths");
      }
    } else if (view_.given("data_path")) {
      copy("data_path", "data.train");
      copy("split", "data.split");
    }
  }

  void tokenizer() {
    constexpr const char *kType = "tokenizer_type", *kVocabulary = "vocab_file", *kMerges = "merge_file";
    const std::string& type = view_.text(kType);
    if (type == "CharLevelTokenizer") return set("data.tokenizer", "CharLevelTokenizer", kType);
    if (type == "HFTokenizer") {
      if (view_.given(kVocabulary)) copy(kVocabulary, "data.tokenizer");
      return;
    }
    if (type != "GPT2BPETokenizer")
      return object(kType,
                    "supported: HFTokenizer (vocab_file is a tokenizer.json), GPT2BPETokenizer (vocab_file and "
                    "merge_file) and CharLevelTokenizer; set one of them, or --data.tokenizer FILE and HFTokenizer");
    if (view_.given(kVocabulary)) copy(kVocabulary, "data.tokenizer");
    if (view_.given(kMerges) && view_.given(kVocabulary)) copy(kMerges, "data.merges");
    if (view_.given(kMerges) != view_.given(kVocabulary))
      object(view_.given(kMerges) ? kMerges : kVocabulary, "GPT2BPETokenizer needs vocab_file and merge_file");
  }

  enum class Found { nothing, ours, neox };
  static Found look_into(const std::string& folder) {
    const fs::path latest = fs::path(folder) / "latest";
    std::error_code unreadable;
    if (!fs::exists(latest, unreadable)) return holds_neox_steps(folder) ? Found::neox : Found::nothing;
    constexpr size_t kMostBytes = 4096;  // the name of a folder
    return read_text(latest.string(), kMostBytes).starts_with("step-") ? Found::ours : Found::neox;
  }

  /// Without `latest`: the folder has copied steps, or is the folder of one step.
  static bool holds_neox_steps(const std::string& folder) {
    std::error_code unreadable;
    for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("global_step") || name.starts_with("mp_rank_00")) return true;
    }
    return false;
  }

  /// `save` is the run folder; `load` is the folder to resume from.
  void folders() {
    const std::string &save = view_.text("save"), &load = view_.text("load");
    if (view_.given("save")) {
      copy("save", "run.dir");
      if (!view_.native("run.dir") && look_into(save) == Found::neox)
        object("save", fmt::format("the folder has NeoX's own checkpoints, which are never overwritten; name another "
                                   "folder: --run.dir {}-trireme",
                                   save));
    }
    if (is("finetune")) {
      if (view_.given("load") || view_.native("model.init")) return finetune();
      out_.notes.push_back(
          fmt::format("{}: finetune has no effect without load: the run starts from scratch, as in NeoX",
                      view_.origin("finetune").text()));
    }
    if (view_.native("checkpoint.resume")) return;
    const Setting* own = view_.native("run.dir");
    if (view_.given("iteration") && view_.integer("iteration") > 0) return resume_iteration(own ? own->text : save);
    const Found found = view_.given("load") ? look_into(load) : Found::nothing;
    if (found == Found::neox) return resume_from_neox(own ? own->text : save, load);
    if (own) return;
    if (!view_.given("load")) return set("checkpoint.resume", "none", "load");
    if (found == Found::nothing)
      out_.notes.push_back(fmt::format("{}: load is {}, which has no checkpoint; the run starts from scratch",
                                       view_.origin("load").text(), load));
    if (load == save) return set("checkpoint.resume", "auto", "load");
    set("checkpoint.resume", found == Found::ours ? load : "none", "load");
  }

  /// Starts a new run with the weights of `load`. A run that was stopped resumes from its own snapshots; NeoX would
  /// start from the weights of `load` again.
  void finetune() {
    constexpr const char* kKey = "finetune";
    const std::string &save = view_.text("save"), &load = view_.text("load");
    if (!view_.native("checkpoint.resume")) set("checkpoint.resume", "auto", kKey);
    if (view_.native("model.init")) return;
    const Setting* own = view_.native("run.dir");
    std::error_code unreadable;
    if (load == (own ? own->text : save) || fs::equivalent(load, own ? own->text : save, unreadable))
      return object(kKey, fmt::format("load is {}, the folder of this run; set load to the folder of the weights, or "
                                      "finetune to false",
                                      load));
    const int64_t step = view_.given("iteration") ? view_.integer("iteration") : 0;
    const std::string folder = step > 0 ? folder_of_step(load, step) : load;
    // Never a name of the hub.
    set("model.init", folder.starts_with('/') || folder.starts_with('.') ? folder : "./" + folder, kKey);
  }

  /// A snapshot of this program, or a checkpoint of NeoX.
  static std::string folder_of_step(const std::string& load, int64_t step) {
    std::error_code unreadable;
    const std::string ours = fmt::format("{}/step-{:08}", load, step);
    const bool is_ours = fs::exists(ours, unreadable) || look_into(load) == Found::ours;
    return is_ours ? ours : fmt::format("{}/global_step{}", load, step);
  }

  /// Resumes from that step of `load`, not from its `latest`. A run that began there and saved elsewhere has newer
  /// snapshots.
  void resume_iteration(const std::string& save) {
    const std::string& load = view_.text("load");
    const int64_t step = view_.integer("iteration");
    if (!view_.given("load") || load.empty())
      return object("iteration", "load is missing, the folder of that step; add --load FOLDER");
    std::error_code unreadable;
    const std::string of_load = folder_of_step(load, step);
    const bool elsewhere = !fs::equivalent(save, load, unreadable) && save != load;
    if (!elsewhere || look_into(save) != Found::ours) return set("checkpoint.resume", of_load, "iteration");
    set("checkpoint.resume", "auto", "iteration");
    out_.notes.push_back(fmt::format("{}: the run began with {}; resuming from its own newer snapshots in {}",
                                     view_.origin("iteration").text(), of_load, save));
  }

  /// A run that began with NeoX's checkpoint and was stopped resumes from its own snapshots.
  void resume_from_neox(const std::string& save, const std::string& load) {
    if (look_into(save) != Found::ours) return set("checkpoint.resume", load, "load");
    set("checkpoint.resume", "auto", "load");
    out_.notes.push_back(
        fmt::format("{}: load is {}, which has NeoX's own checkpoints; resuming from the run's newer snapshots in {}",
                    view_.origin("load").text(), load, save));
  }
};

}  // namespace

std::optional<Json> neox_list(const DialectView& view, const char* key, const char* expected,
                              bool (*is_item)(const Json& item)) {
  Json list = parse_json(view.setting(key).text, view.origin(key).text());
  for (Json& item : list) {
    const auto number = item.is_string() ? resolve_pyyaml(item.get<std::string>()) : std::nullopt;
    if (!number || is_item(item)) continue;
    if (const auto* whole = std::get_if<int64_t>(&*number)) item = *whole;
    if (const auto* real = std::get_if<double>(&*number)) item = *real;
  }
  if (list.is_array() && std::ranges::all_of(list, is_item)) return list;
  view.object(key, fmt::format("found {}, expected {}", view.setting(key).text, expected));
  return std::nullopt;
}

void translate_neox_data(const DialectView& view, Translation& out) { DataTranslator(view, out).translate(); }

}  // namespace trireme
