#include "hub/place.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>

#include "base/count.h"
#include "base/log.h"
#include "base/run_pointer.h"
#include "base/text.h"
#include "hub/api.h"

namespace trireme::hub {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGlue = "nyu-mll/glue";

bool exists(const std::string& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

/// The cached snapshot with all requested files, or the hub's.
struct Looked {
  std::optional<Snapshot> snapshot;
  std::string why_not;
};

Looked ask(const Settings& settings, const Repository& repository, const std::string& revision,
           const Selection& selection, const Alive& alive) {
  try {
    if (settings.offline) return {std::nullopt, "HF_HUB_OFFLINE is set, so the Hugging Face hub is not used"};
    return {fetch(settings, repository, revision, selection, alive), ""};
  } catch (const Unreachable& e) {
    return {std::nullopt, e.what()};
  } catch (const NotThere& e) {
    return {std::nullopt, e.what()};
  }
}

Looked look(const Settings& settings, const Repository& repository, const std::string& revision,
            const Selection& selection, const Alive& alive) {
  if (auto cached = find_snapshot(settings, repository, revision, selection)) {
    log::info("{} is {}", repository.name, cached->folder);
    return {std::move(cached), ""};
  }
  return ask(settings, repository, revision, selection, alive);
}

/// A model with a tokenizer; without one only if the hub has none or is unreachable.
class CompleteModel final : public Selection {
 public:
  Files first(const Files& all) const override { return model_.first(all); }
  Files then(const Files& all, const std::string& folder) const override { return model_.then(all, folder); }
  std::string what() const override { return model_.what(); }
  bool whole(const Files& here, const std::string& folder) const override {
    return model_.whole(here, folder) && TokenizerSelection().whole(here, folder);
  }

 private:
  ModelSelection model_;
};

/// Parquet files of one task, of all its splits.
class GlueSelection final : public Selection {
 public:
  explicit GlueSelection(std::string task) : task_(std::move(task)), glob_({task_ + "/*.parquet"}) {}
  Files first(const Files& all) const override { return glob_.first(all); }
  std::string what() const override { return glob_.what(); }
  bool whole(const Files& here, const std::string&) const override {
    const Files files = first(here);
    const auto has = [&](const std::string& split) {
      return std::ranges::any_of(files, [&](const std::string& f) { return f.starts_with(task_ + "/" + split); });
    };
    return has("test") && (task_ == "ax" || (has("train") && has("validation"))) && has_all_parts(files);
  }

 private:
  std::string task_;
  GlobSelection glob_;
};

std::string sentence(const Settings& settings, const Repository& repository, const std::string& revision,
                     const std::string& reason) {
  return fmt::format("; {}{}", reason, advice(settings, repository, revision));
}

Place place_of(const std::string& given, const Selection& wanted, const Selection& enough, const Alive& alive) {
  const std::string name = name_in(given);
  if (exists(given) || !looks_like_name(given)) return {given, ""};
  const Settings settings = settings_for_names();
  const Repository repository = checked_repository(Kind::model, name);
  const std::string revision = revision_in(given);
  Looked looked = look(settings, repository, revision, wanted, alive);
  if (!looked.snapshot) {
    looked.snapshot = find_snapshot(settings, repository, revision, enough);
    if (looked.snapshot) log::info("{}: using the cached version: {}", name, looked.why_not);
  }
  if (!looked.snapshot) return {given, sentence(settings, repository, revision, looked.why_not)};
  return {looked.snapshot->folder, ""};
}

/// The parts of "OWNER/NAME@REVISION/PATTERN".
struct DataWords {
  std::string name, revision = kMainRevision;
  std::optional<std::string> pattern;
};

DataWords split_data(const std::string& given) {
  const size_t owner = given.find('/'), at = given.find('@');
  size_t end = owner == given.npos ? given.npos : given.find('/', owner + 1);
  DataWords words{.name = given.substr(0, std::min(at, end)), .revision = kMainRevision, .pattern = {}};
  if (at != given.npos && (end == given.npos || at < end)) {
    if (given.compare(at + 1, 5, "refs/") == 0) {  // refs/convert/parquet, refs/pr/7
      end = given.find('/', at + 6);
      if (end != given.npos) end = given.find('/', end + 1);
    }
    words.revision = given.substr(at + 1, end == given.npos ? end : end - at - 1);
    require_revision(words.revision);
  }
  if (end != given.npos) words.pattern = given.substr(end + 1);
  return words;
}

/// The split named in a file's name: "train", "validation" or "test"; "" if none.
std::string split_of(const std::string& file) {
  const std::string name = fs::path(file).filename().string();
  for (const auto& [word, split] :
       {std::pair{"train", "train"}, {"valid", "validation"}, {"dev", "validation"}, {"test", "test"}}) {
    const size_t at = name.find(word);
    if (at != name.npos && (at == 0 || !std::isalpha(static_cast<unsigned char>(name[at - 1])))) return split;
  }
  return "";
}

/// Files that `prepare` reads by default: the texts for training.
class TrainingData final : public Selection {
 public:
  explicit TrainingData(std::string name) : name_(std::move(name)) {}

  Files first(const Files& all) const override {
    const Files files = data_.first(all);
    require_one_folder(files);
    const Files train = training_files(files);
    std::set<std::string> others;
    for (const std::string& file : files) {
      const std::string split = split_of(file);
      if (split != "train") others.insert(split.empty() ? file : split);
    }
    if (train.size() < files.size())
      log::info("{}: using its {} for training, not {}; select others with {}/PATTERN", name_,
                count_text(train.size(), "file"), fmt::join(others, ", "), name_);
    return train;
  }
  std::string what() const override { return data_.what(); }
  bool whole(const Files& here, const std::string&) const override {
    const Files files = training_files(data_.first(here));
    return !files.empty() && has_all_parts(files);
  }

 private:
  static Files training_files(const Files& files) {
    Files train;
    std::ranges::copy_if(files, std::back_inserter(train), [](const std::string& f) { return split_of(f) == "train"; });
    return train.empty() ? files : train;
  }
  void require_one_folder(const Files& files) const {
    std::set<std::string> folders;
    for (const std::string& file : files) folders.insert(fs::path(file).parent_path().string());
    require(folders.size() <= 1, ErrorKind::usage,
            "the data set {} has {} folders to choose from ({}); name one: {}/{}/*", name_, folders.size(),
            fmt::join(folders, ", "), name_, folders.empty() ? "" : *folders.rbegin());
  }

  std::string name_;
  DataSelection data_;
};

}  // namespace

bool is_only_a_name(const std::string& given) { return !given.empty() && !exists(given) && looks_like_name(given); }

std::string advice(const Settings& settings, const Repository& repository, const std::string& revision) {
  const std::string close = nearest(repository.name, cached_names(settings.cache, repository.kind));
  std::string option = repository.kind == Kind::model ? "" : " --dataset";
  if (revision != kMainRevision) option += " --revision " + revision;
  return fmt::format(
      "; {}run `trireme fetch {}{}` on a connected machine and copy its folder {}/{} to this one",
      close.empty() ? "" : fmt::format("the nearest {} in the cache is {}; ", name_of(repository.kind), close),
      repository.name, option, settings.cache, repository.folder());
}

Place place_of_model(const std::string& given, const Alive& alive) {
  if (exists(given + "/config.json") && looks_like_name(given) && given.find('.') != 0)
    log::write_first(log::Level::info,
                     fmt::format("{} is the local folder of that name, not a model of the hub", given));
  Place place = place_of(given, CompleteModel(), ModelSelection(), alive);
  place.path = follow_run_pointer(place.path);
  return place;
}

Place place_of_tokenizer(const std::string& given, const Alive& alive) {
  Place place = place_of(given, TokenizerSelection(), TokenizerSelection(), alive);
  place.path = tokenizer_folder_of_run(follow_run_pointer(place.path));
  return place;
}

Place place_of_glue(const std::string& task, const Alive& alive) {
  const Settings settings = read_settings();
  const GlueSelection selection(task);
  if (auto old = find_snapshot(settings, {Kind::dataset, "glue"}, kMainRevision, selection)) return {old->folder, ""};
  const Repository repository{Kind::dataset, kGlue};
  const Looked looked = look(settings, repository, kMainRevision, selection, alive);
  if (!looked.snapshot) return {"", sentence(settings, repository, kMainRevision, looked.why_not)};
  return {looked.snapshot->folder, ""};
}

std::vector<std::string> still_to_fetch(const Named& named) {
  if (!is_only_a_name(named.model) && !is_only_a_name(named.tokenizer) && named.glue_task.empty()) return {};
  return still_to_fetch(named, read_settings());
}

std::vector<std::string> still_to_fetch(const Named& named, const Settings& settings) {
  std::vector<std::string> missing;
  const auto look_for = [&](const std::string& given, const Selection& selection) {
    if (is_only_a_name(given) && !find_snapshot(settings, {Kind::model, name_in(given)}, revision_in(given), selection))
      missing.push_back(given);
  };
  if (settings.offline)  // as place_of_model() does if the hub is unreachable
    look_for(named.model, ModelSelection());
  else
    look_for(named.model, CompleteModel());
  look_for(named.tokenizer, TokenizerSelection());
  if (named.glue_task.empty()) return missing;
  const GlueSelection glue(named.glue_task);
  if (!find_snapshot(settings, {Kind::dataset, "glue"}, kMainRevision, glue) &&
      !find_snapshot(settings, {Kind::dataset, kGlue}, kMainRevision, glue))
    missing.push_back("glue/" + named.glue_task);
  return missing;
}

NamedData named_data(const std::string& given) {
  const std::string name = name_in(given), revision = revision_in(given);
  if (name == "glue") return {{Kind::dataset, kGlue}, {}, revision};
  if (name.starts_with("glue/")) return {{Kind::dataset, kGlue}, {name.substr(5) + "/*"}, revision};
  return {checked_repository(Kind::dataset, name), {}, revision};
}

PlaceOfData place_of_data(const std::string& given, const Alive& alive) {
  const DataWords words = split_data(given);
  const std::string& name = words.name;
  if (!looks_like_name(name)) return {};
  const Settings settings = settings_for_names();
  const Repository repository = checked_repository(Kind::dataset, name);
  std::unique_ptr<Selection> selection = std::make_unique<TrainingData>(name);
  if (words.pattern) selection = std::make_unique<GlobSelection>(Files{*words.pattern});
  // Only the hub knows which files exist, and so whether all of them are cached.
  Looked looked = ask(settings, repository, words.revision, *selection, alive);
  if (!looked.snapshot) {
    looked.snapshot = find_snapshot(settings, repository, words.revision, *selection);
    if (looked.snapshot) log::info("{}: using the cached version: {}", name, looked.why_not);
  }
  if (!looked.snapshot) return {{}, sentence(settings, repository, words.revision, looked.why_not)};
  Files files = looked.snapshot->files;
  for (std::string& file : files) file.insert(0, looked.snapshot->folder + "/");
  return {std::move(files), ""};
}

}  // namespace trireme::hub
