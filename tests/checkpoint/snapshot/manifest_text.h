#pragma once
// Manifests that are changed by hand, their checksum put right.

#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_text.h"

namespace trireme {

/// The text of the manifest after `change`, with the hash that belongs to it.
inline std::string changed_manifest(const std::string& text, const std::function<void(Json&)>& change) {
  Json json = parse_json(text, "manifest");
  change(json);
  json["hash"] = std::string(16, '0');
  std::string changed = dump_json(json, 1) + "\n";
  const std::string key = "\"hash\": \"";
  changed.replace(changed.find(key) + key.size(), 16, hex64(xxh3(std::as_bytes(std::span(changed)))));
  return changed;
}

inline void change_manifest(const std::string& step_folder, const std::function<void(Json&)>& change) {
  const std::string path = step_folder + "/manifest.json";
  write_text(path, changed_manifest(read_text(path), change));
}

}  // namespace trireme
