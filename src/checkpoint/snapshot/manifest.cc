#include "checkpoint/snapshot/manifest.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "base/hash.h"
#include "base/json_fields.h"
#include "base/json_text.h"
#include "checkpoint/snapshot/spec_json.h"
#include "checkpoint/snapshot/stored_fields.h"

namespace trireme {
namespace {

constexpr const char* kFormat = "trireme-checkpoint";
// 2: boxes of tensors, optimizer states by name, several hashes per slice; 3: parameter_hash is the same on any layout
constexpr int64_t kOldest = 1, kVersion = 4;
constexpr std::string_view kHashKey = "\"hash\": \"";  // its first occurrence is the manifest's own: it appears second
constexpr size_t kHashDigits = 16;
constexpr size_t kMaxManifest = size_t{1} << 30;

/// XXH3 of the text with the digits of its own hash replaced by zeros.
uint64_t own_hash(std::string text, size_t digits) {
  text.replace(digits, kHashDigits, kHashDigits, '0');
  return xxh3(std::as_bytes(std::span(text)));
}

uint64_t parse_hash(const Json& json, const char* name, std::string_view where) {
  const std::string text = json.is_string() ? json.get<std::string>() : dump_valid_json(json);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  require(text.size() == kHashDigits && error == std::errc{} && end == text.data() + text.size(), ErrorKind::data,
          "{}: \"{}\" is \"{}\", expected 16 hexadecimal digits", where, name, text.substr(0, 40));
  return value;
}

Json progress_to_json(const RunCounters& p) {
  Json json{{"step", p.step},           {"samples", p.samples}, {"updates", p.updates},
            {"best_step", p.best_step}, {"skipped", p.skipped}, {"consecutive_skips", p.consecutive_skips}};
  json["losses"] = {{"count", p.losses.count}, {"mean", p.losses.mean}, {"variance", p.losses.variance}};
  json["best_loss"] = std::isfinite(p.best_loss) ? Json(p.best_loss) : Json(nullptr);  // JSON has no infinity
  if (const auto& s = p.loss_scale)
    json["loss_scale"] = {{"scale", s->scale},
                          {"window", s->window},
                          {"clean", s->clean},
                          {"hysteresis", s->hysteresis},
                          {"in_a_row", s->in_a_row}};
  if (p.overflows > 0) json["overflows"] = p.overflows;
  return json;
}

RunCounters progress_from_json(const Json& json, std::string_view where, int64_t version) {
  StoredFields fields(json, "progress", where, version);
  RunCounters p;
  p.step = fields.get<int64_t>("step");
  p.samples = fields.get<uint64_t>("samples");
  p.updates = fields.get<int64_t>("updates");
  p.best_step = fields.get<int64_t>("best_step");
  p.skipped = fields.get<int64_t>("skipped");
  p.consecutive_skips = fields.get<int64_t>("consecutive_skips");
  p.best_loss =
      fields.member("best_loss").is_null() ? std::numeric_limits<double>::infinity() : fields.get<double>("best_loss");
  if (const Json* losses = fields.newer("losses", 2)) {  // the first programs of version 1 wrote none
    StoredFields trend(*losses, "losses", where, version);
    p.losses.count = trend.get<int64_t>("count");
    p.losses.mean = trend.get<double>("mean");
    p.losses.variance = trend.get<double>("variance");
    trend.end();
  }
  if (const Json* scale = fields.optional("loss_scale")) {
    StoredFields state(*scale, "loss_scale", where, version);
    p.loss_scale = LossScale{.scale = state.get<double>("scale"),
                             .window = state.get<int64_t>("window"),
                             .clean = state.get<int64_t>("clean"),
                             .hysteresis = state.get<int64_t>("hysteresis"),
                             .in_a_row = state.get<int64_t>("in_a_row")};
    state.end();
    require(std::isfinite(p.loss_scale->scale) && p.loss_scale->scale > 0 && p.loss_scale->window > 0, ErrorKind::data,
            "{}: loss_scale has scale {} and window {}, expected numbers above 0", where, p.loss_scale->scale,
            p.loss_scale->window);
  }
  if (fields.optional("overflows")) p.overflows = fields.get<int64_t>("overflows");
  fields.end();
  return p;
}

Json sizes_to_json(const Shape& shape) {
  Json sizes = Json::array();
  for (int d = 0; d < shape.dims(); ++d) sizes.push_back(shape[d]);
  return sizes;
}

Json tensors_to_json(const Manifest& manifest) {
  Json parameters = Json::array(), shards = Json::array(), slices = Json::array();
  for (const StoredParameter& p : manifest.parameters) {
    Json states = Json::array();
    for (const std::string& state : p.states) states.push_back(state);
    parameters.push_back({{"name", p.name}, {"shape", sizes_to_json(p.shape)}, {"states", std::move(states)}});
  }
  for (const StoredShard& s : manifest.shards) {
    shards.push_back({{"file", s.file},
                      {"bytes", s.bytes},
                      {"header_bytes", s.header_bytes},
                      {"header_hash", hex64(s.header_hash)}});
  }
  for (const StoredSlice& s : manifest.slices) {
    Json hashes = Json::array();
    for (const uint64_t hash : s.hashes) hashes.push_back(hex64(hash));
    slices.push_back({{"parameter", manifest.parameters[s.parameter].name},
                      {"part", s.part},
                      {"shard", s.shard},
                      {"first", sizes_to_json(s.box.begin)},
                      {"count", sizes_to_json(s.box.count)},
                      {"begin", s.begin},
                      {"end", s.end},
                      {"rows_per_hash", s.rows_per_hash},
                      {"hashes", std::move(hashes)}});
  }
  return {{"parameters", std::move(parameters)}, {"shards", std::move(shards)}, {"slices", std::move(slices)}};
}

/// One to four sizes of at least `least`.
Shape read_sizes(const Json& array, int64_t least, std::string_view what, std::string_view where) {
  require(!array.empty() && array.size() <= Shape::kMaxDims, ErrorKind::data, "{}: {} has {} dims, expected 1 to {}",
          where, what, array.size(), Shape::kMaxDims);
  Shape sizes = array.size() == 1   ? Shape{0}
                : array.size() == 2 ? Shape{0, 0}
                : array.size() == 3 ? Shape{0, 0, 0}
                                    : Shape{0, 0, 0, 0};
  for (size_t d = 0; d < array.size(); ++d) {
    require(json_holds<int64_t>(array[d]) && array[d].get<int64_t>() >= least, ErrorKind::data,
            "{}: {} holds {}, expected a number of at least {}", where, what, dump_valid_json(array[d]).substr(0, 40),
            least);
    sizes = sizes.with(static_cast<int>(d), array[d].get<int64_t>());
  }
  return sizes;
}

/// Any name: whether a run can do something with it is decided when it is resumed.
std::string read_state(const Json& name, const std::string& parameter, std::string_view where) {
  constexpr size_t kLongest = 64;
  std::string state = name.is_string() ? name.get<std::string>() : "";
  const bool fits = !state.empty() && state.size() <= kLongest && state != kWeightPart &&
                    std::ranges::all_of(state, [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_'; });
  require(fits, ErrorKind::data, "{}: {} cannot be an optimizer state of {}", where,
          dump_valid_json(name).substr(0, 40), parameter);
  return state;
}

StoredParameter read_parameter(const Json& item, bool moments, std::string_view where, int64_t version) {
  StoredFields fields(item, "a parameter", where, version);
  StoredParameter p;
  p.name = fields.get<std::string>("name");
  p.shape = read_sizes(fields.array("shape"), 1, "shape of " + p.name, where);
  int64_t count = 1;
  for (int d = 0; d < p.shape.dims(); ++d) {
    require(!__builtin_mul_overflow(count, p.shape[d], &count), ErrorKind::data, "{}: shape of {} overflows", where,
            p.name);
  }
  if (version == 1) {
    if (moments) p.states = {std::string(kAdamM), std::string(kAdamV)};
  } else {
    for (const Json& state : fields.array("states")) p.states.push_back(read_state(state, p.name, where));
    std::ranges::sort(p.states);
    require(std::ranges::adjacent_find(p.states) == p.states.end(), ErrorKind::data,
            "{}: {} has an optimizer state twice", where, p.name);
  }
  fields.end();
  return p;
}

StoredShard read_shard(const Json& item, std::string_view where, int64_t version) {
  StoredFields fields(item, "a shard", where, version);
  StoredShard s;
  s.file = fields.get<std::string>("file");
  require(s.file.find('/') == s.file.npos && s.file.ends_with(".safetensors"), ErrorKind::data,
          "{}: \"{}\" is not the name of a shard", where, s.file);
  s.bytes = fields.get<uint64_t>("bytes");
  s.header_bytes = fields.get<uint64_t>("header_bytes");
  require(s.header_bytes <= s.bytes, ErrorKind::data, "{}: header of {} is longer than the file", where, s.file);
  s.header_hash = parse_hash(fields.member("header_hash"), "header_hash", where);
  fields.end();
  return s;
}

/// Version 1: rows of the full width, one hash.
void read_rows(StoredFields& fields, const StoredParameter& parameter, StoredSlice& s, std::string_view where) {
  const auto first = fields.get<int64_t>("first_row"), rows = fields.get<int64_t>("rows");
  const Box whole = whole_box(parameter.shape);
  s.box = {whole.begin.with(0, first), whole.count.with(0, rows)};
  s.rows_per_hash = rows;
  s.hashes = {parse_hash(fields.member("hash"), "hash", where)};
}

void read_box(StoredFields& fields, const StoredParameter& parameter, StoredSlice& s, std::string_view where) {
  s.box = {read_sizes(fields.array("first"), 0, "slice of " + parameter.name, where),
           read_sizes(fields.array("count"), 1, "slice of " + parameter.name, where)};
  s.rows_per_hash = fields.get<int64_t>("rows_per_hash");
  for (const Json& hash : fields.array("hashes")) s.hashes.push_back(parse_hash(hash, "hashes", where));
}

using ParameterNames = std::vector<std::pair<std::string_view, size_t>>;  // ascending, with their indices

StoredSlice read_slice(const Json& item, const Manifest& manifest, const ParameterNames& names, std::string_view where,
                       int64_t version) {
  StoredFields fields(item, "a slice", where, version);
  StoredSlice s;
  const auto parameter = fields.get<std::string>("parameter");
  const auto found = std::lower_bound(names.begin(), names.end(), ParameterNames::value_type(parameter, 0));
  require(found != names.end() && found->first == parameter, ErrorKind::data, "{}: slice of unknown parameter {}",
          where, parameter);
  s.parameter = found->second;
  auto part = fields.get<std::string>("part");
  if (version == 1 && (part == "m" || part == "v")) part = "adam." + part;
  const std::vector<std::string>& states = manifest.parameters[s.parameter].states;
  require(part == kWeightPart || std::ranges::find(states, part) != states.end(), ErrorKind::data,
          "{}: unknown part \"{}\" of {}", where, part.substr(0, 40), parameter);
  s.part = std::move(part);
  s.shard = fields.get<uint64_t>("shard");
  s.begin = fields.get<uint64_t>("begin");
  s.end = fields.get<uint64_t>("end");
  version == 1 ? read_rows(fields, manifest.parameters[s.parameter], s, where)
               : read_box(fields, manifest.parameters[s.parameter], s, where);
  fields.end();
  return s;
}

void read_tensors(StoredFields& fields, Manifest& manifest, std::string_view where) {
  const int64_t version = fields.version();
  const bool moments = version == 1 && fields.get<bool>("moments");
  for (const Json& item : fields.array("parameters"))
    manifest.parameters.push_back(read_parameter(item, moments, where, version));
  for (const Json& item : fields.array("shards")) manifest.shards.push_back(read_shard(item, where, version));
  ParameterNames names;
  for (size_t i = 0; i < manifest.parameters.size(); ++i) names.emplace_back(manifest.parameters[i].name, i);
  std::ranges::sort(names);
  for (const Json& item : fields.array("slices"))
    manifest.slices.push_back(read_slice(item, manifest, names, where, version));
  check_cover(manifest, where);
}

/// Position of the digits of the manifest's own hash; checks them.
void check_own_hash(std::string_view text, std::string_view where) {
  const size_t key = text.substr(0, 200).find(kHashKey);
  require(key != text.npos && key + kHashKey.size() + kHashDigits <= text.size(), ErrorKind::data,
          "{}: not a checkpoint manifest (no \"hash\" at its start)", where);
  const size_t digits = key + kHashKey.size();
  const std::string found(text.substr(digits, kHashDigits)), expected = hex64(own_hash(std::string(text), digits));
  require(found == expected, ErrorKind::data,
          "{}: wrong checksum: the file says {}, but its {} bytes have {}; the file was changed or damaged", where,
          found, text.size(), expected);
}

}  // namespace

int64_t piece_rows(const Box& box) {
  const int64_t rows = kPieceBytes / (box.row_width() * static_cast<int64_t>(sizeof(float)));
  return std::clamp<int64_t>(rows, 1, box.count[0]);
}

Box StoredSlice::piece(size_t index) const {
  const int64_t first = static_cast<int64_t>(index) * rows_per_hash;
  return box.rows(first, std::min(rows_per_hash, box.count[0] - first));
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
  json["parameter_hash"] = facts.parameter_hash.empty() ? Json() : Json(facts.parameter_hash);
  if (!facts.generation.empty()) json["generation"] = parse_json(facts.generation, "generation settings to store");
  json.update(tensors_to_json(manifest));
  std::string text = dump_json(json, 1) + "\n";
  const size_t digits = text.find(kHashKey) + kHashKey.size();
  text.replace(digits, kHashDigits, hex64(own_hash(text, digits)));
  return text;
}

Manifest parse_manifest(std::string_view text, std::string_view where) {
  check_own_hash(text, where);
  const Json json = parse_json(text, where);
  const auto version = json_field<int64_t>(json, "version", where);
  require(version >= kOldest && version <= kVersion, ErrorKind::data,
          "{}: format version {}, but this program reads only {} to {}", where, version, kOldest, kVersion);
  StoredFields fields(json, "the manifest", where, version);
  require(fields.get<std::string>("format") == kFormat, ErrorKind::data, "{}: not a checkpoint manifest", where);
  fields.member("hash");
  fields.member("version");
  Manifest manifest;
  manifest.facts.progress = progress_from_json(fields.member("progress"), where, version);
  manifest.facts.spec = spec_from_json(fields.member("model"), where, version);
  const Json& config = fields.member("config");
  if (!config.is_null()) manifest.facts.config_json = dump_json(config, 2);
  const Json& tokenizer = fields.member("tokenizer_hash");
  manifest.has_tokenizer = !tokenizer.is_null();
  if (manifest.has_tokenizer) manifest.tokenizer_hash = parse_hash(tokenizer, "tokenizer_hash", where);
  for (const Json& item : fields.array("data_files")) {
    StoredFields file(item, "a data file", where, version);
    manifest.facts.data_files.push_back(
        {file.get<std::string>("path"), file.get<uint64_t>("bytes"), file.get<std::string>("hash")});
    file.end();
  }
  const Json* hash = fields.newer("parameter_hash", 2);
  if (hash && !hash->is_null())
    (version < 3 ? manifest.facts.layout_hash : manifest.facts.parameter_hash) =
        hex64(parse_hash(*hash, "parameter_hash", where));
  if (json.contains("generation")) manifest.facts.generation = dump_json(fields.member("generation"));
  read_tensors(fields, manifest, where);
  fields.end();
  return manifest;
}

Manifest read_manifest(const std::string& step_folder) {
  const std::string path = step_folder + "/manifest.json";
  return parse_manifest(read_text(path, kMaxManifest), path);
}

}  // namespace trireme
