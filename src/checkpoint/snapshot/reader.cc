#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_steps.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "checkpoint/snapshot/manifest.h"
#include "checkpoint/snapshot/stored_shard.h"
#include "model/adapters.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

/// Files that look like shards but do not belong to this checkpoint.
std::vector<std::string> extra_shards(const std::string& folder, const Manifest& manifest) {
  std::vector<std::string> extra;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    const bool known = std::any_of(manifest.shards.begin(), manifest.shards.end(),
                                   [&](const StoredShard& shard) { return shard.file == name; });
    if (name.ends_with(".safetensors") && !known) {
      extra.push_back(fmt::format("{}: this shard is not in the manifest; remove it if it was copied here by mistake",
                                  item.path().string()));
    }
  }
  std::sort(extra.begin(), extra.end());
  return extra;
}

/// A step folder holds the step of its name; a folder of another name is the user's own copy.
void check_name(const std::string& folder, const Manifest& manifest) {
  fs::path path = fs::path(folder).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  const auto named = parse_step_name(path.filename().string());
  const int64_t step = manifest.facts.progress.step;
  require(!named || *named == step, ErrorKind::data,
          "{}/manifest.json belongs to step {}: the folder is a copy of {} or was renamed; remove it", folder, step,
          step_name(step));
}

/// Calls the check, keeps its message.
void collect(std::vector<std::string>& faults, const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& e) {
    faults.emplace_back(e.what());
  } catch (const fs::filesystem_error& e) {
    faults.emplace_back(e.what());
  }
}

/// Lists every parameter that differs from the model's; throws if any does.
void check_table(const Manifest& manifest, const ParameterTable& whole, const std::string& folder) {
  constexpr size_t kShown = 20;
  std::vector<std::string> lines;
  for (const Parameter& p : whole.all()) {
    const auto stored = std::ranges::find(manifest.parameters, p.name, &StoredParameter::name);
    const std::string shape = p.stored_shape.to_string();
    if (is_adapter(p.name) && manifest.facts.spec.adapters.empty()) continue;  // new ones on its model
    if (stored == manifest.parameters.end()) {
      lines.push_back(fmt::format("{}: missing from the checkpoint, {} in the model", p.name, shape));
    } else if (stored->shape != p.stored_shape) {
      lines.push_back(
          fmt::format("{}: {} in the checkpoint, {} in the model", p.name, stored->shape.to_string(), shape));
    }
  }
  for (const StoredParameter& s : manifest.parameters) {
    if (!whole.look_up(s.name))
      lines.push_back(fmt::format("{}: {} in the checkpoint, missing from the model", s.name, s.shape.to_string()));
  }
  if (lines.empty()) return;
  const size_t more = lines.size() > kShown ? lines.size() - kShown : 0;
  lines.resize(lines.size() - more);
  fail(ErrorKind::data, "{} belongs to another model:\n  {}{}", folder, fmt::join(lines, "\n  "),
       more ? fmt::format("\n  and {} more", more) : std::string());
}

/// Checks that the optimizer states needed to resume are present.
void check_states(const Manifest& manifest, const ParameterTable& whole, const std::string& folder) {
  const bool has_any =
      std::ranges::any_of(manifest.parameters, [](const StoredParameter& p) { return !p.states.empty(); });
  require(has_any, ErrorKind::data, "{} has only weights; resuming a run needs the optimizer's moments", folder);
  for (const StoredParameter& stored : manifest.parameters) {
    const Parameter& own = whole.find(stored.name);
    for (const StateKind& state : own.states) {
      require(std::ranges::find(stored.states, state.name) != stored.states.end(), ErrorKind::data,
              "{}: {} is missing; resuming a run needs it", folder, stored_name(stored.name, state.name));
    }
    for (const std::string& state : stored.states) {
      require(own.states.empty() || std::ranges::find(own.states, state, &StateKind::name) != own.states.end(),
              ErrorKind::data,
              "{}: unknown optimizer state {}: another optimizer or a newer version has written it; "
              "--model.init {} starts a new run from the weights",
              folder, stored_name(stored.name, state), folder);
    }
  }
}

/// Extracts a process's part from the slices of a checkpoint.
class SliceLoader {
 public:
  /// nearby: a folder that may have some of the shards, too, and is asked first; empty: none.
  SliceLoader(const std::string& folder, const std::string& nearby, const Manifest& manifest, TrainingState& state)
      : folder_(folder), nearby_(nearby), manifest_(manifest), state_(state), shards_(manifest.shards.size()) {}

  /// The overlap of the slice and the parameter, or a state of it.
  void load(const StoredSlice& slice, const Parameter& own) {
    const StateExtent extent = extent_of(slice, own);
    const Box held = values_box(extent, own.box), wanted = overlap(slice.box, values_box(extent, own.stored()));
    if (wanted.empty()) return;
    const int64_t first = wanted.begin[0] - slice.box.begin[0];
    for (auto piece = static_cast<size_t>(first / slice.rows_per_hash); piece < slice.pieces(); ++piece) {
      const Box rows = slice.piece(piece);
      if (rows.begin[0] >= wanted.end(0)) return;
      if (!keeps_some(own, held, slice, overlap(rows, wanted))) continue;
      const auto bytes = read(slice, piece);
      bytes_read_ += bytes.size();
      for_each_run(overlap(rows, wanted), rows, held, [&](int64_t from, int64_t to, int64_t count) {
        store(own, slice, to, floats_of(bytes).subspan(static_cast<size_t>(from), static_cast<size_t>(count)));
      });
    }
  }

  uint64_t bytes_read() const { return bytes_read_; }

 private:
  struct OpenShard {
    MappedFile file;
    bool nearby = false;
  };

  static StateExtent extent_of(const StoredSlice& slice, const Parameter& own) {
    const auto state = std::ranges::find(own.states, slice.part, &StateKind::name);
    return state == own.states.end() ? StateExtent::element : state->extent;
  }

  /// Whether this rank keeps anything between the first and the last value of a box. held: all values of the parameter.
  bool keeps_some(const Parameter& own, const Box& held, const StoredSlice& slice, const Box& box) const {
    if (!state_.is_sharded()) return true;
    const auto place = [&](int64_t value) { return offset_of(held, index_at(box, value)); };
    const int64_t first = place(0), end = place(box.elements() - 1) + 1;
    if (!slice.is_weight()) return state_.keeps_some(slice.part, own, first, end - first);
    if (!state_.shards_weights()) return true;
    bool some = false;
    state_.for_owned(own.offset + first, own.offset + end, [&](int64_t, int64_t, int64_t) { some = true; });
    return some;
  }

  std::span<const std::byte> read(const StoredSlice& slice, size_t piece) {
    std::optional<OpenShard>& shard = shards_[slice.shard];
    if (!shard) shard = open(manifest_.shards[slice.shard]);
    try {
      return checked_piece(shard->file, manifest_, slice, piece);
    } catch (const Error& e) {
      if (!shard->nearby) throw;
      log::warning("{}; reading {} instead", e.what(), folder_);
    }
    shard = OpenShard{open_shard(folder_, manifest_.shards[slice.shard])};
    return checked_piece(shard->file, manifest_, slice, piece);
  }

  OpenShard open(const StoredShard& stored) const {
    if (!nearby_.empty() && fs::exists(nearby_ + "/" + stored.file)) {
      try {
        return {open_shard(nearby_, stored), true};
      } catch (const Error& e) {
        log::warning("{}; reading {} instead", e.what(), folder_);
      }
    }
    return {open_shard(folder_, stored)};
  }

  void store(const Parameter& own, const StoredSlice& slice, int64_t at, std::span<const float> values) {
    if (slice.is_weight()) return state_.write_weights(own.offset + at, values);
    state_.write_state(slice.part, own, at, values);
  }

  const std::string &folder_, &nearby_;
  const Manifest& manifest_;
  TrainingState& state_;
  std::vector<std::optional<OpenShard>> shards_;
  uint64_t bytes_read_ = 0;
};

}  // namespace

CheckpointFacts open_snapshot(const std::string& step_folder) {
  Manifest manifest = read_manifest(step_folder);
  check_name(step_folder, manifest);
  for (const StoredShard& shard : manifest.shards) open_shard(step_folder, shard);
  const auto extra = extra_shards(step_folder, manifest);
  require(extra.empty(), ErrorKind::data, "{}", fmt::join(extra, "; "));
  manifest.facts.tokenizer_json = read_tokenizer(step_folder, manifest);
  return std::move(manifest.facts);
}

std::vector<std::string> verify_checkpoint(const std::string& step_folder) {
  std::vector<std::string> faults;
  Manifest manifest;
  collect(faults, [&] { manifest = read_manifest(step_folder); });
  if (!faults.empty()) return faults;
  collect(faults, [&] { check_name(step_folder, manifest); });
  collect(faults, [&] { read_tokenizer(step_folder, manifest); });
  uint64_t weights = 0;
  const size_t before = faults.size();
  for (size_t i = 0; i < manifest.shards.size(); ++i)
    for (std::string& fault : verify_shard(step_folder, manifest, i, weights)) faults.push_back(std::move(fault));
  const std::string& said = manifest.facts.parameter_hash;
  if (faults.size() == before && !said.empty() && said != hex64(weights))
    faults.push_back(
        fmt::format("{}/manifest.json: parameter_hash is {}, but the weights in the shards have the hash {}: they were "
                    "not written together",
                    step_folder, said, hex64(weights)));
  collect(faults, [&] {
    for (std::string& line : extra_shards(step_folder, manifest)) faults.push_back(std::move(line));
  });
  return faults;
}

uint64_t load_snapshot(const std::string& step_folder, const std::string& nearby, const ParameterTable& table,
                       TrainingState& state, bool states) {
  const Manifest manifest = read_manifest(step_folder);
  const ParameterTable whole = table.whole();
  check_table(manifest, whole, step_folder);
  if (states) check_states(manifest, whole, step_folder);
  std::vector<const Parameter*> own;
  for (const StoredParameter& stored : manifest.parameters) own.push_back(table.look_up(stored.name));
  SliceLoader loader(step_folder, nearby, manifest, state);
  for (const StoredSlice& slice : manifest.slices) {
    const Parameter* parameter = own[slice.parameter];
    const bool kept = slice.is_weight() || (states && parameter && parameter->trained());
    if (parameter && kept) loader.load(slice, *parameter);
  }
  for (const Parameter& parameter : table.all()) state.clear_padding(parameter);
  return loader.bytes_read();
}

std::vector<int64_t> prune_checkpoints(const std::string& run_dir, int64_t keep) {
  std::vector<int64_t> steps = list_steps(run_dir), kept = steps_in_line(run_dir), deleted;
  if (keep <= 0 || kept.empty()) return deleted;
  const auto named = read_pointer(run_dir, "latest"), best = read_pointer(run_dir, "best");
  const int64_t latest = named && std::binary_search(kept.begin(), kept.end(), *named) ? *named : kept.back();
  for (auto* list : {&steps, &kept}) std::erase_if(*list, [&](int64_t step) { return step > latest; });
  if (static_cast<int64_t>(steps.size()) <= keep) return deleted;
  const std::vector<std::string> faults = verify_checkpoint(run_dir + "/" + step_name(latest));
  require(faults.empty(), ErrorKind::data, "the newest checkpoint failed verification: {}", fmt::join(faults, "; "));
  kept.erase(kept.begin(), kept.end() - std::min<ptrdiff_t>(keep, std::ssize(kept)));
  for (const int64_t step : steps) {
    if (step == best || std::binary_search(kept.begin(), kept.end(), step)) continue;
    remove_folder(run_dir, step_name(step));
    deleted.push_back(step);
  }
  return deleted;
}

}  // namespace trireme
