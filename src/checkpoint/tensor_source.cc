#include "checkpoint/tensor_source.h"

#include <filesystem>
#include <set>

#include "base/error.h"
#include "checkpoint/json_fields.h"

namespace trireme {
namespace fs = std::filesystem;

TensorSource::TensorSource(const std::string& folder) {
  const std::string single = folder + "/model.safetensors", index = single + ".index.json";
  if (fs::exists(single)) {
    files_.emplace_back(single);
  } else if (fs::exists(index)) {
    open_index(folder, index);
  } else if (fs::exists(folder + "/pytorch_model.bin")) {
    fail(ErrorKind::io,
         "{} holds pytorch_model.bin but no model.safetensors; convert it with save_pretrained(..., "
         "safe_serialization=True) of transformers",
         folder);
  } else {
    fail(ErrorKind::io, "{} holds neither model.safetensors nor model.safetensors.index.json", folder);
  }
}

void TensorSource::open_index(const std::string& folder, const std::string& index_path) {
  const Json json = read_json(index_path, size_t{100} << 20);
  const Json& map = json_member(json, "weight_map", index_path);
  require(map.is_object(), ErrorKind::data, "{}: \"weight_map\" is {}, expected an object", index_path,
          map.type_name());
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.items()) {
    require(file.is_string(), ErrorKind::data, "{}: the file of {} is no string", index_path, tensor);
    const auto name = file.get<std::string>();
    require(name.find('/') == name.npos && name != "..", ErrorKind::data,
            "{}: {} lies in \"{}\", expected a file of the same folder", index_path, tensor, name);
    names.insert(name);
  }
  for (const std::string& name : names) files_.emplace_back(folder + "/" + name);
  size_t tensors = 0;
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsEntry& entry : file.entries()) {
      ++tensors;
      const auto listed = map.find(entry.name);
      require(listed != map.end(), ErrorKind::data, "{}: tensor {} is not in {}", file.path(), entry.name, index_path);
      require(file.path() == folder + "/" + listed->get<std::string>(), ErrorKind::data,
              "{}: holds tensor {}, which belongs to {} by {}", file.path(), entry.name, listed->get<std::string>(),
              index_path);
    }
  }
  require(tensors == map.size(), ErrorKind::data, "{} lists {} tensors, its files hold {}", index_path, map.size(),
          tensors);
}

SourceTensor TensorSource::find(std::string_view name) const {
  for (const SafetensorsFile& file : files_) {
    if (const SafetensorsEntry* entry = file.find(name)) return {&file, entry};
  }
  return {};
}

std::vector<SourceTensor> TensorSource::all() const {
  std::vector<SourceTensor> tensors;
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsEntry& entry : file.entries()) tensors.push_back({&file, &entry});
  }
  return tensors;
}

}  // namespace trireme
