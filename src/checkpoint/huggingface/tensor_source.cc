#include "checkpoint/huggingface/tensor_source.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "checkpoint/huggingface/folder_kind.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostIndexBytes = size_t{32} << 20;  // the largest published ones have some megabytes

/// Weights that another program wrote are called by the format's name.
void refuse_other_formats(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string format = other_format(MappedFile(entry.path().string()).bytes());
    require(
        format.empty() || format.find("pickle") != format.npos, ErrorKind::data,
        "{}: format {} is recognised but not supported; convert it to model.safetensors with the tool that wrote it",
        entry.path().string(), format);
  }
}

}  // namespace

TensorSource TensorSource::of_folder(const std::string& folder) {
  TensorSource source;
  const std::string safe = folder + "/model.safetensors", torch = folder + "/pytorch_model.bin";
  if (fs::exists(safe)) {
    source.safe_.emplace_back(safe);
    if (fs::exists(safe + ".index.json")) source.require_listed_tensors(safe + ".index.json");
  } else if (fs::exists(safe + ".index.json")) {
    source.open_index(folder, safe + ".index.json", true);
  } else if (fs::exists(torch)) {
    source.torch_.emplace_back(torch);
  } else if (fs::exists(torch + ".index.json")) {
    source.open_index(folder, torch + ".index.json", false);
  } else if (const std::vector<std::string> files = find_unnamed_weights(folder); !files.empty()) {
    for (const std::string& file : files)
      file.ends_with(".safetensors") ? (void)source.safe_.emplace_back(file) : (void)source.torch_.emplace_back(file);
    source.require_each_once();
  } else {
    refuse_other_formats(folder);
    refuse_other_folder(folder);
    fail(ErrorKind::io, "{} holds no weights: neither model.safetensors nor pytorch_model.bin, nor an index of either",
         folder);
  }
  return source;
}

TensorSource TensorSource::of_safetensors(const std::string& path) {
  TensorSource source;
  source.safe_.emplace_back(path);
  return source;
}

TensorSource TensorSource::of_torch_file(const std::string& path) {
  TensorSource source;
  source.torch_.emplace_back(path);
  return source;
}

void TensorSource::open_index(const std::string& folder, const std::string& index_path, bool safe) {
  const Json json = read_json(index_path, kMostIndexBytes);
  const Json& map = json_member(json, "weight_map", index_path);
  require(map.is_object(), ErrorKind::data, "{}: \"weight_map\" is {}, expected an object", index_path,
          map.type_name());
  std::set<std::string> names;
  std::unordered_map<std::string_view, std::string> file_of;  // the JSON object itself is searched from its front
  for (const auto& [tensor, file] : map.items()) {
    require(file.is_string(), ErrorKind::data, "{}: the file of {} is not a string", index_path, tensor);
    const auto name = file.get<std::string>();
    require(name.find('/') == name.npos && name != "..", ErrorKind::data,
            "{}: {} is in \"{}\", expected a file in the same folder", index_path, tensor, name);
    names.insert(name);
    file_of.emplace(tensor, name);
  }
  size_t missing = 0;
  std::string first_missing;
  for (const std::string& name : names) {
    if (fs::exists(folder + "/" + name)) continue;
    if (missing++ == 0) first_missing = name;
  }
  require(missing == 0, ErrorKind::io, "{}: {} of its {} are missing; the first is {}", index_path, missing,
          count_text(names.size(), "file"), first_missing);
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    safe ? (void)safe_.emplace_back(path) : (void)torch_.emplace_back(path);
  }
  const auto tensors = places();
  for (const auto& [file, tensor] : tensors) {
    const auto listed = file_of.find(tensor);
    require(listed != file_of.end(), ErrorKind::data, "{}: tensor {} is not in {}", file, tensor, index_path);
    require(file == folder + "/" + listed->second, ErrorKind::data,
            "{}: contains tensor {}, which {} should contain according to {}", file, tensor, listed->second,
            index_path);
  }
  require(tensors.size() == map.size(), ErrorKind::data, "{} lists {}, but its files contain {}", index_path,
          count_text(map.size(), "tensor"), tensors.size());
}

void TensorSource::require_listed_tensors(const std::string& index_path) const {
  const Json json = read_json(index_path, kMostIndexBytes);
  const Json& map = json_member(json, "weight_map", index_path);
  std::set<std::string_view> names;  // the JSON object itself is searched from its front
  for (const auto& [tensor, file] : map.items()) names.insert(tensor);
  const auto tensors = places();
  const bool listed = std::ranges::all_of(tensors, [&](const auto& place) { return names.contains(place.second); });
  require(
      listed && tensors.size() == map.size(), ErrorKind::data,
      "{} has {}, but {} beside it lists {} in other files: one of the two is left over from another model; remove it",
      safe_.front().path(), count_text(tensors.size(), "tensor"), index_path, count_text(map.size(), "tensor"));
}

void TensorSource::require_each_once() const {
  std::unordered_map<std::string, std::string> file_of;
  for (const auto& [file, tensor] : places()) {
    const auto [before, added] = file_of.emplace(tensor, file);
    require(added, ErrorKind::data, "{}: tensor {} is also in {}", file, tensor, before->second);
  }
}

std::vector<std::pair<std::string, std::string>> TensorSource::places() const {
  std::vector<std::pair<std::string, std::string>> places;
  for (const SafetensorsFile& file : safe_) {
    for (const SafetensorsEntry& entry : file.entries()) places.emplace_back(file.path(), entry.name);
  }
  for (const TorchFile& file : torch_) {
    for (const TorchTensor& tensor : file.tensors()) places.emplace_back(file.path(), tensor.name);
  }
  return places;
}

TensorSource TensorSource::of_tensors(std::vector<SourceTensor> tensors) {
  TensorSource source;
  source.others_ = std::move(tensors);
  return source;
}

std::vector<SourceTensor> TensorSource::all() const {
  std::vector<SourceTensor> tensors = others_;
  for (const SafetensorsFile& file : safe_) {
    for (const SafetensorsEntry& entry : file.entries())
      tensors.push_back({entry.name, entry.dtype, entry.shape, [&file, &entry] { return file.read_f32(entry); },
                         [&file, &entry] { return file.bytes(entry); }});
  }
  for (const TorchFile& file : torch_) {
    for (const TorchTensor& tensor : file.tensors())
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape, [&file, &tensor] { return file.read_f32(tensor); }});
  }
  return tensors;
}

}  // namespace trireme
