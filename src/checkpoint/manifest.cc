#include "checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/file.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/spec_json.h"

namespace trireme {
namespace {

constexpr const char* kFormat = "trireme-checkpoint";
constexpr int64_t kVersion = 1;
constexpr std::string_view kHashKey = "\"hash\": \"";  // its first occurrence is the manifest's own: it stands second
constexpr size_t kHashDigits = 16;
constexpr size_t kMaxManifest = size_t{1} << 30;

constexpr std::pair<Part, const char*> kPartNames[] = {
    {Part::weight, "weight"}, {Part::moment1, "m"}, {Part::moment2, "v"}};

/// XXH3 of the text with the digits of its own hash replaced by zeros.
uint64_t own_hash(std::string text, size_t digits) {
  text.replace(digits, kHashDigits, kHashDigits, '0');
  return xxh3(std::as_bytes(std::span(text)));
}

uint64_t read_hash(const Json& object, const char* name, std::string_view where) {
  const auto text = json_field<std::string>(object, name, where);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  require(text.size() == kHashDigits && error == std::errc{} && end == text.data() + text.size(), ErrorKind::data,
          "{}: \"{}\" is \"{}\", expected 16 hexadecimal digits", where, name, text.substr(0, 40));
  return value;
}

Json progress_to_json(const RunProgress& p) {
  Json json{{"step", p.step},           {"samples", p.samples}, {"updates", p.updates},
            {"best_step", p.best_step}, {"skipped", p.skipped}, {"consecutive_skips", p.consecutive_skips}};
  json["losses"] = {{"count", p.losses.count}, {"mean", p.losses.mean}, {"variance", p.losses.variance}};
  json["best_loss"] = std::isfinite(p.best_loss) ? Json(p.best_loss) : Json(nullptr);  // JSON has no infinity
  return json;
}

RunProgress progress_from_json(const Json& json, std::string_view where) {
  RunProgress p;
  p.step = json_field<int64_t>(json, "step", where);
  p.samples = json_field<uint64_t>(json, "samples", where);
  p.updates = json_field<int64_t>(json, "updates", where);
  p.best_step = json_field<int64_t>(json, "best_step", where);
  p.skipped = json_field<int64_t>(json, "skipped", where);
  p.consecutive_skips = json_field<int64_t>(json, "consecutive_skips", where);
  if (json.contains("losses")) {  // checkpoints of the first releases have none
    const Json& losses = json_member(json, "losses", where);
    p.losses.count = json_field<int64_t>(losses, "count", where);
    p.losses.mean = json_field<double>(losses, "mean", where);
    p.losses.variance = json_field<double>(losses, "variance", where);
  }
  p.best_loss = json_member(json, "best_loss", where).is_null() ? std::numeric_limits<double>::infinity()
                                                                : json_field<double>(json, "best_loss", where);
  return p;
}

Json tensors_to_json(const Manifest& manifest) {
  Json parameters = Json::array(), shards = Json::array(), slices = Json::array();
  for (const StoredParameter& p : manifest.parameters) parameters.push_back({{"name", p.name}, {"shape", p.shape}});
  for (const StoredShard& s : manifest.shards) {
    shards.push_back({{"file", s.file},
                      {"bytes", s.bytes},
                      {"header_bytes", s.header_bytes},
                      {"header_hash", hex64(s.header_hash)}});
  }
  for (const StoredSlice& s : manifest.slices) {
    slices.push_back({{"parameter", manifest.parameters[s.parameter].name},
                      {"part", kPartNames[static_cast<size_t>(s.part)].second},
                      {"shard", s.shard},
                      {"first_row", s.first_row},
                      {"rows", s.rows},
                      {"begin", s.begin},
                      {"end", s.end},
                      {"hash", hex64(s.hash)}});
  }
  return {{"parameters", std::move(parameters)}, {"shards", std::move(shards)}, {"slices", std::move(slices)}};
}

std::vector<StoredParameter> read_parameters(const Json& json, std::string_view where) {
  std::vector<StoredParameter> parameters;
  for (const Json& item : json_array(json, "parameters", where)) {
    StoredParameter p;
    p.name = json_field<std::string>(item, "name", where);
    int64_t count = 1;
    for (const Json& size : json_array(item, "shape", where)) {
      require(json_holds<int64_t>(size) && size.get<int64_t>() > 0 &&
                  !__builtin_mul_overflow(count, size.get<int64_t>(), &count),
              ErrorKind::data, "{}: shape of {} is wrong or overflows", where, p.name);
      p.shape.push_back(size.get<int64_t>());
    }
    require(!p.shape.empty() && p.shape.size() <= Shape::kMaxDims, ErrorKind::data,
            "{}: {} has {} dims, expected 1 to {}", where, p.name, p.shape.size(), Shape::kMaxDims);
    parameters.push_back(std::move(p));
  }
  return parameters;
}

std::vector<StoredShard> read_shards(const Json& json, std::string_view where) {
  std::vector<StoredShard> shards;
  for (const Json& item : json_array(json, "shards", where)) {
    StoredShard s;
    s.file = json_field<std::string>(item, "file", where);
    require(s.file.find('/') == s.file.npos && s.file.ends_with(".safetensors"), ErrorKind::data,
            "{}: \"{}\" is no shard's name", where, s.file);
    s.bytes = json_field<uint64_t>(item, "bytes", where);
    s.header_bytes = json_field<uint64_t>(item, "header_bytes", where);
    require(s.header_bytes <= s.bytes, ErrorKind::data, "{}: header of {} is longer than the file", where, s.file);
    s.header_hash = read_hash(item, "header_hash", where);
    shards.push_back(std::move(s));
  }
  return shards;
}

StoredSlice read_slice(const Json& item, const std::vector<std::pair<std::string_view, size_t>>& names,
                       std::string_view where) {
  StoredSlice s;
  const auto parameter = json_field<std::string>(item, "parameter", where);
  const auto found = std::lower_bound(names.begin(), names.end(), std::pair<std::string_view, size_t>(parameter, 0));
  require(found != names.end() && found->first == parameter, ErrorKind::data, "{}: slice of unknown parameter {}",
          where, parameter);
  s.parameter = found->second;
  const auto part = json_field<std::string>(item, "part", where);
  const auto* kind = std::find_if(std::begin(kPartNames), std::end(kPartNames),
                                  [&](const auto& known) { return part == known.second; });
  require(kind != std::end(kPartNames), ErrorKind::data, "{}: unknown part \"{}\" of {}", where, part, parameter);
  s.part = kind->first;
  s.shard = json_field<uint64_t>(item, "shard", where);
  s.first_row = json_field<int64_t>(item, "first_row", where);
  s.rows = json_field<int64_t>(item, "rows", where);
  s.begin = json_field<uint64_t>(item, "begin", where);
  s.end = json_field<uint64_t>(item, "end", where);
  s.hash = read_hash(item, "hash", where);
  return s;
}

/// Every row of every part exactly once, each inside its shard and of the right size.
void check_cover(const Manifest& manifest, std::string_view where) {
  std::vector<const StoredSlice*> order;
  for (const StoredSlice& s : manifest.slices) {
    const StoredParameter& p = manifest.parameters[s.parameter];
    require(s.shard < manifest.shards.size(), ErrorKind::data, "{}: slice of {} lies in shard {} of {}", where, p.name,
            s.shard, manifest.shards.size());
    const StoredShard& shard = manifest.shards[s.shard];
    const bool inside = s.begin >= shard.header_bytes && s.begin <= s.end && s.end <= shard.bytes;
    const bool rows = s.first_row >= 0 && s.rows > 0 && s.rows <= p.shape[0] && s.first_row <= p.shape[0] - s.rows;
    require(inside && rows && (s.end - s.begin) / sizeof(float) == static_cast<uint64_t>(s.rows * p.width()) &&
                s.begin % sizeof(float) == 0 && s.end % sizeof(float) == 0,
            ErrorKind::data, "{}: slice of {}, rows {} to {}, does not fit its place {} to {} in {}", where, p.name,
            s.first_row, s.first_row + s.rows, s.begin, s.end, shard.file);
    order.push_back(&s);
  }
  std::sort(order.begin(), order.end(), [](const StoredSlice* a, const StoredSlice* b) {
    return std::tuple(a->parameter, a->part, a->first_row) < std::tuple(b->parameter, b->part, b->first_row);
  });
  size_t next = 0;
  for (size_t i = 0; i < manifest.parameters.size(); ++i) {
    for (const Part part : kParts) {
      if (part != Part::weight && !manifest.moments) continue;
      int64_t row = 0;
      for (; next < order.size() && order[next]->parameter == i && order[next]->part == part; ++next) {
        require(order[next]->first_row == row, ErrorKind::data, "{}: rows of {} are missing or stand twice at row {}",
                where, stored_name(manifest.parameters[i].name, part), row);
        row += order[next]->rows;
      }
      require(row == manifest.parameters[i].shape[0], ErrorKind::data, "{}: {} ends at row {} of {}", where,
              stored_name(manifest.parameters[i].name, part), row, manifest.parameters[i].shape[0]);
    }
  }
  require(next == order.size(), ErrorKind::data, "{}: slices of moments in a checkpoint that says it has none", where);
}

void read_tensors(const Json& json, Manifest& manifest, std::string_view where) {
  manifest.parameters = read_parameters(json, where);
  manifest.shards = read_shards(json, where);
  std::vector<std::pair<std::string_view, size_t>> names;
  for (size_t i = 0; i < manifest.parameters.size(); ++i) names.emplace_back(manifest.parameters[i].name, i);
  std::sort(names.begin(), names.end());
  for (const Json& item : json_array(json, "slices", where)) manifest.slices.push_back(read_slice(item, names, where));
  check_cover(manifest, where);
}

/// Position of the digits of the manifest's own hash; checks them.
void check_own_hash(std::string_view text, std::string_view where) {
  const size_t key = text.substr(0, 200).find(kHashKey);
  require(key != text.npos && key + kHashKey.size() + kHashDigits <= text.size(), ErrorKind::data,
          "{}: is no manifest of a checkpoint (no \"hash\" at its start)", where);
  const size_t digits = key + kHashKey.size();
  const std::string found(text.substr(digits, kHashDigits)), expected = hex64(own_hash(std::string(text), digits));
  require(found == expected, ErrorKind::data,
          "{}: its checksum does not fit: it says {}, its {} bytes give {}; the file was changed or damaged", where,
          found, text.size(), expected);
}

}  // namespace

int64_t StoredParameter::width() const {
  int64_t n = 1;
  for (size_t i = 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

std::string write_manifest(const Manifest& manifest) {
  const CheckpointFacts& facts = manifest.facts;
  Json json{{"format", kFormat}, {"hash", std::string(kHashDigits, '0')}, {"version", kVersion}};
  json["progress"] = progress_to_json(facts.progress);
  json["model"] = spec_to_json(facts.spec);
  json["config"] = facts.config_json.empty() ? Json(nullptr) : parse_json(facts.config_json, "configuration to store");
  json["tokenizer_hash"] = manifest.has_tokenizer ? Json(hex64(manifest.tokenizer_hash)) : Json(nullptr);
  json["data_files"] = Json::array();
  for (const DataFileFact& file : facts.data_files) {
    json["data_files"].push_back({{"path", file.path}, {"bytes", file.bytes}, {"hash", file.hash}});
  }
  if (!facts.parameter_hash.empty()) json["parameter_hash"] = facts.parameter_hash;
  json["moments"] = manifest.moments;
  json.update(tensors_to_json(manifest));
  std::string text = dump_json(json, 1) + "\n";
  const size_t digits = text.find(kHashKey) + kHashKey.size();
  text.replace(digits, kHashDigits, hex64(own_hash(text, digits)));
  return text;
}

Manifest parse_manifest(std::string_view text, std::string_view where) {
  check_own_hash(text, where);
  const Json json = parse_json(text, where);
  require(json_field<std::string>(json, "format", where) == kFormat, ErrorKind::data,
          "{}: is no manifest of a checkpoint", where);
  const auto version = json_field<int64_t>(json, "version", where);
  require(version == kVersion, ErrorKind::data, "{}: format version {}, this program reads {}", where, version,
          kVersion);
  Manifest manifest;
  manifest.facts.progress = progress_from_json(json_member(json, "progress", where), where);
  manifest.facts.spec = spec_from_json(json_member(json, "model", where), where);
  const Json& config = json_member(json, "config", where);
  if (!config.is_null()) manifest.facts.config_json = dump_json(config, 2);
  manifest.has_tokenizer = !json_member(json, "tokenizer_hash", where).is_null();
  if (manifest.has_tokenizer) manifest.tokenizer_hash = read_hash(json, "tokenizer_hash", where);
  for (const Json& file : json_array(json, "data_files", where)) {
    manifest.facts.data_files.push_back({json_field<std::string>(file, "path", where),
                                         json_field<uint64_t>(file, "bytes", where),
                                         json_field<std::string>(file, "hash", where)});
  }
  if (json.contains("parameter_hash")) {  // checkpoints of the first releases have none
    manifest.facts.parameter_hash = hex64(read_hash(json, "parameter_hash", where));
  }
  manifest.moments = json_field<bool>(json, "moments", where);
  read_tensors(json, manifest, where);
  return manifest;
}

Manifest read_manifest(const std::string& step_folder) {
  const std::string path = step_folder + "/manifest.json";
  return parse_manifest(read_text(path, kMaxManifest), path);
}

}  // namespace trireme
