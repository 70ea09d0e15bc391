#include "checkpoint/gguf/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "checkpoint/gguf/architecture.h"

namespace trireme {
namespace {

/// The keys of one architecture.
class Keys {
 public:
  explicit Keys(const GgufHeader& header) : header_(header), prefix_(header.text("general.architecture") + ".") {}

  const GgufHeader& header() const { return header_; }
  int64_t integer(const char* key, std::optional<int64_t> otherwise = {}) const {
    return header_.integer(prefix_ + key, otherwise);
  }
  double number(const char* key, std::optional<double> otherwise = {}) const {
    return shortest(header_.number(prefix_ + key, otherwise));
  }
  bool flag(const char* key, bool otherwise) const { return header_.flag(prefix_ + key, otherwise); }
  std::string text(const char* key) const { return has(key) ? header_.text(prefix_ + key) : std::string(); }
  bool has(const char* key) const { return header_.has(prefix_ + key); }
  /// A number that may be one for each layer, all alike.
  int64_t same_integer(const char* key) const {
    const auto found = header_.values.find(prefix_ + key);
    const auto* list = found == header_.values.end() ? nullptr : std::get_if<std::vector<int64_t>>(&found->second);
    if (!list || list->empty()) return integer(key);
    require(std::ranges::count(*list, list->front()) == std::ssize(*list), ErrorKind::data,
            "{}: {}{} is not the same in all layers, which is not supported", header_.where, prefix_, key);
    return list->front();
  }
  const std::vector<int64_t>* integers(const char* key) const {
    const auto found = header_.values.find(prefix_ + key);
    return found == header_.values.end() ? nullptr : std::get_if<std::vector<int64_t>>(&found->second);
  }
  bool has_tensor(const char* name) const { return header_.find(name) != nullptr; }

 private:
  static double shortest(double value) {
    return std::isfinite(value) ? shortest_double(static_cast<float>(value)) : value;
  }

  const GgufHeader& header_;
  std::string prefix_;
};

const std::string& architecture_name(const GgufHeader& header) { return header.text("general.architecture"); }

/// The one of two families with one architecture that has what the file has.
std::string model_type_of(const GgufHeader& header) {
  const std::string& name = architecture_name(header);
  if (name == "olmo2") return header.has("olmo2.attention.sliding_window") ? "olmo3" : "olmo2";
  const std::vector<const GgufArchitecture*> known = gguf_architectures();
  const auto found = std::ranges::find_if(known, [&](const GgufArchitecture* a) { return a->name == name; });
  std::vector<std::string_view> names;
  for (const GgufArchitecture* a : known)
    if (names.empty() || names.back() != a->name) names.emplace_back(a->name);
  require(found != known.end(), ErrorKind::data, "{}: the architecture {} is not supported; supported: {}",
          header.where, name, fmt::join(names, ", "));
  return (*found)->model_type;
}

Json factors(const GgufFile& file, const char* name) {
  Json list = Json::array();
  const GgufTensor* tensor = file.header().find(name);
  require(tensor != nullptr, ErrorKind::data, "{}: tensor {} is missing", file.header().where, name);
  for (const float factor : file.read(*tensor)) list.push_back(shortest_double(factor));
  return list;
}

/// Divisors of frequencies are Llama 3's, or factors of their own.
Json divisors_json(const GgufFile& file, const Keys& keys) {
  const std::vector<float> divisors = file.read(*file.header().find("rope_freqs.weight"));
  RotaryScaling usual{.kind = RotaryKind::llama3, .original_context = 8192};
  usual.factor = std::max(1.0f, *std::ranges::max_element(divisors));
  const double base = keys.number("rope.freq_base", 10000);
  const auto dims = static_cast<int64_t>(2 * divisors.size());
  const std::vector<float> plain = rotary_frequencies(base, dims, {}, 8192),
                           scaled = rotary_frequencies(base, dims, usual, 8192);
  bool same = true;
  for (size_t i = 0; i < divisors.size(); ++i) same &= std::fabs(plain[i] / scaled[i] / divisors[i] - 1) < 1e-5f;
  if (same)
    return {{"rope_type", "llama3"},
            {"factor", shortest_double(usual.factor)},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", 8192}};
  const Json list = factors(file, "rope_freqs.weight");
  return {{"rope_type", "longrope"}, {"factor", 1.0},
          {"attention_factor", 1.0}, {"original_max_position_embeddings", keys.integer("context_length")},
          {"short_factor", list},    {"long_factor", list}};
}

/// "rope_scaling"; null: none.
Json scaling_json(const GgufFile& file, const Keys& keys) {
  const std::string type = keys.text("rope.scaling.type");
  if (file.header().find("rope_freqs.weight")) return divisors_json(file, keys);
  if (file.header().find("rope_factors_long.weight")) {
    const int64_t original = keys.integer("rope.scaling.original_context_length");
    return {{"rope_type", "longrope"},
            {"attention_factor", keys.number("rope.scaling.attn_factor", 1)},
            {"original_max_position_embeddings", original},
            {"short_factor", factors(file, "rope_factors_short.weight")},
            {"long_factor", factors(file, "rope_factors_long.weight")}};
  }
  const double factor = keys.number("rope.scaling.factor", 1);
  if (type.empty() || type == "none" || factor == 1) return nullptr;
  require(type == "linear" || type == "yarn", ErrorKind::data, "{}: rope.scaling.type \"{}\" is not supported",
          file.header().where, type);
  Json rope{{"rope_type", type}, {"factor", factor}};
  if (type == "linear") return rope;
  rope["original_max_position_embeddings"] =
      keys.integer("rope.scaling.original_context_length", keys.integer("context_length"));
  rope["beta_fast"] = keys.number("rope.scaling.yarn_beta_fast", 32);
  rope["beta_slow"] = keys.number("rope.scaling.yarn_beta_slow", 1);
  rope["attention_factor"] =
      shortest_double(static_cast<float>(keys.number("rope.scaling.attn_factor", 1) * (0.1 * std::log(factor) + 1)));
  return rope;
}

/// "layer_types" of a family whose layers have windows by turns.
Json layer_types(const Keys& keys, int64_t interval) {
  const auto* pattern = keys.integers("attention.sliding_window_pattern");
  if (!pattern) interval = keys.integer("attention.sliding_window_pattern", interval);
  require(interval >= 1, ErrorKind::data, "{}: attention.sliding_window_pattern is {}", keys.header().where, interval);
  const int64_t layers = keys.integer("block_count");
  require(!pattern || std::ssize(*pattern) == layers, ErrorKind::data,
          "{}: attention.sliding_window_pattern has {} entries, expected {}, one per layer", keys.header().where,
          pattern ? pattern->size() : 0, layers);
  Json types = Json::array();
  for (int64_t i = 0; i < layers; ++i) {
    const bool window = pattern ? (*pattern)[static_cast<size_t>(i)] != 0 : (i + 1) % interval != 0;
    types.push_back(window ? "sliding_attention" : "full_attention");
  }
  return types;
}

/// Whether the matrix of the head is that of the embedding, or a copy of it.
bool is_tied(const GgufFile& file) {
  const GgufTensor *head = file.header().find("output.weight"), *tokens = file.header().find("token_embd.weight");
  if (!head || !tokens) return true;
  return head->type == tokens->type && head->shape == tokens->shape &&
         std::ranges::equal(file.bytes(*head), file.bytes(*tokens));
}

int64_t vocabulary_of(const GgufHeader& header) {
  const GgufTensor* tokens = header.find("token_embd.weight");
  require(tokens != nullptr && tokens->shape.size() == 2, ErrorKind::data,
          "{}: tensor token_embd.weight with two dims is missing", header.where);
  return tokens->shape[0];
}

Json gpt2_config(const Keys& keys) {
  return {{"n_positions", keys.integer("context_length")},
          {"n_layer", keys.integer("block_count")},
          {"n_head", keys.integer("attention.head_count")},
          {"n_embd", keys.integer("embedding_length")},
          {"n_inner", keys.integer("feed_forward_length")},
          {"activation_function", "gelu_new"},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"resid_pdrop", 0.0},
          {"layer_norm_epsilon", keys.number("attention.layer_norm_epsilon")}};
}

Json sizes(const Keys& keys) {
  return {{"max_position_embeddings", keys.integer("context_length")},
          {"num_hidden_layers", keys.integer("block_count")},
          {"num_attention_heads", keys.same_integer("attention.head_count")},
          {"hidden_size", keys.integer("embedding_length")},
          {"intermediate_size", keys.same_integer("feed_forward_length")}};
}

Json neox_config(const Keys& keys) {
  Json config = sizes(keys);
  const int64_t heads = keys.same_integer("attention.head_count"), width = keys.integer("embedding_length");
  require(heads > 0 && width >= heads, ErrorKind::data, "{}: {} heads of {} values", keys.header().where, heads, width);
  const int64_t head = width / heads, dims = keys.integer("rope.dimension_count", head);
  const double share = static_cast<double>(dims) / static_cast<double>(head);
  config["rotary_pct"] =
      static_cast<int64_t>(share * static_cast<double>(head)) == dims ? share : std::nextafter(share, 2.0);
  config["rotary_emb_base"] = keys.number("rope.freq_base", 10000);
  config["use_parallel_residual"] = keys.flag("use_parallel_residual", true);
  config["layer_norm_eps"] = keys.number("attention.layer_norm_epsilon");
  config["hidden_act"] = "gelu";
  config["attention_bias"] = keys.has_tensor("blk.0.attn_qkv.bias");
  return config;
}

void add_gemma(const Keys& keys, const std::string& type, Json& config) {
  config["hidden_activation"] = "gelu_pytorch_tanh";
  if (type == "gemma") return;
  const int64_t heads = keys.same_integer("attention.head_count"), width = keys.integer("embedding_length");
  const bool largest = keys.integer("block_count") == (type == "gemma2" ? 46 : 62);
  config["query_pre_attn_scalar"] = largest && heads > 0 ? width / heads : config["head_dim"].get<int64_t>();
  config["final_logit_softcapping"] = nullptr;
  if (type == "gemma2" || keys.has("final_logit_softcapping"))
    config["final_logit_softcapping"] = keys.number("final_logit_softcapping", 30);
  if (type == "gemma2") config["attn_logit_softcapping"] = keys.number("attn_logit_softcapping", 50);
  config["sliding_window"] = keys.integer("attention.sliding_window", 4096);
  config["layer_types"] = layer_types(keys, type == "gemma2" ? 2 : 6);
  if (type == "gemma3_text") config["rope_local_base_freq"] = keys.number("rope.freq_base_swa", 10000);
}

Json decoder_config(const GgufFile& file, const Keys& keys, const std::string& type) {
  Json config = sizes(keys);
  const int64_t heads = keys.same_integer("attention.head_count"), width = keys.integer("embedding_length");
  require(heads > 0, ErrorKind::data, "{}: attention.head_count is {}", keys.header().where, heads);
  const int64_t head = keys.integer("attention.key_length", width / heads);
  require(keys.integer("attention.value_length", head) == head, ErrorKind::data,
          "{}: values and keys of a head have different lengths, which is not supported", keys.header().where);
  config["num_key_value_heads"] =
      keys.has("attention.head_count_kv") ? keys.same_integer("attention.head_count_kv") : heads;
  config["head_dim"] = head;
  config["rms_norm_eps"] = keys.number("attention.layer_norm_rms_epsilon");
  config["rope_theta"] = keys.number("rope.freq_base", 10000);
  config["hidden_act"] = type == "gemma" ? "gelu_pytorch_tanh" : "silu";
  config["sliding_window"] = nullptr;
  config["attention_bias"] = keys.has_tensor("blk.0.attn_output.bias") && keys.has_tensor("blk.0.attn_q.bias");
  config["mlp_bias"] = keys.has_tensor("blk.0.ffn_down.bias");
  const Json scaling = scaling_json(file, keys);
  if (!scaling.is_null()) config["rope_scaling"] = scaling;
  if (type.starts_with("gemma")) add_gemma(keys, type, config);
  if (type == "olmo3") {
    config["sliding_window"] = keys.integer("attention.sliding_window");
    config["layer_types"] = layer_types(keys, 4);
    const Json full = scaling.is_null() ? Json{{"rope_type", "default"}} : scaling;
    config["rope_parameters"] = {{"full_attention", full}, {"sliding_attention", {{"rope_type", "default"}}}};
    for (auto& [name, rope] : config["rope_parameters"].items()) rope["rope_theta"] = config["rope_theta"];
    config.erase("rope_scaling");
  }
  if (type == "phi3") {
    config["partial_rotary_factor"] = static_cast<double>(keys.integer("rope.dimension_count", head)) /
                                      static_cast<double>(std::max<int64_t>(head, 1));
    config["original_max_position_embeddings"] =
        keys.integer("rope.scaling.original_context_length", keys.integer("context_length"));
  }
  if (type == "granite") {
    config["embedding_multiplier"] = keys.number("embedding_scale", 1);
    config["residual_multiplier"] = keys.number("residual_scale", 1);
    config["attention_multiplier"] = keys.number("attention.scale", 1 / std::sqrt(static_cast<double>(head)));
    config["logits_scaling"] = keys.number("logit_scale");
  }
  return config;
}

Spec spec_of(const GgufFile& file, const Family& family) {
  const GgufHeader& header = file.header();
  const Keys keys(header);
  const std::string type = family.model_type;
  const int64_t layers = keys.integer("block_count");
  require(layers <= std::ssize(header.tensors), ErrorKind::data, "{}: block_count is {}, but the file has only {}",
          header.where, layers, count_text(header.tensors.size(), "tensor"));
  Json config = type == "gpt2"       ? gpt2_config(keys)
                : type == "gpt_neox" ? neox_config(keys)
                                     : decoder_config(file, keys, type);
  config["vocab_size"] = vocabulary_of(header);
  config["tie_word_embeddings"] = is_tied(file);
  Spec spec = family.read_config(config, HeadKind::language_model, header.where);
  try {
    spec.validate();
  } catch (const Error& e) {
    fail(ErrorKind::data, "{}: {}", header.where, e.what());
  }
  uint64_t values = 0;
  for (const GgufTensor& tensor : header.tensors) values += tensor.values();
  const auto parameters = static_cast<uint64_t>(ParameterTable(spec).total());
  require(parameters <= values, ErrorKind::data, "{}: the model has {}, but the tensors of the file only {}",
          header.where, count_text(parameters, "parameter"), count_text(values, "value"));
  return spec;
}

}  // namespace

GgufModel read_gguf_model(const std::string& path) {
  const GgufFile file(path);
  const std::string type = model_type_of(file.header());
  return {.spec = spec_of(file, find_family(type, path)),
          .tokenizer_json = gguf_tokenizer(file.header()),
          .generation = gguf_generation(file.header(), type)};
}

void load_gguf(const std::string& path, const Spec& spec, const ParameterTable& table, TrainingState& state) {
  const auto file = std::make_shared<const GgufFile>(path);
  Family family = find_family(model_type_of(file->header()), path);
  const GgufArchitecture& architecture = gguf_architecture(family, spec);
  const std::vector<NameRule> names = gguf_names(family);
  constexpr NameRule kCopies[] = {{"output.weight", "embedding.token.weight"}};
  constexpr const char* kIgnored[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight",
                                      "blk.{}.attn_rot_embd"};
  family.names = names;
  family.copies = kCopies;
  family.prefixes = {};
  family.synonyms = {};
  family.ignored = kIgnored;
  std::vector<SourceTensor> tensors;
  for (const GgufTensor& tensor : file->header().tensors) {
    tensors.push_back({tensor.name, "F32", tensor.shape, [file, &tensor, &architecture, &spec] {
                         std::vector<float> values = file->read(tensor);
                         from_gguf_values(architecture, spec, tensor.name,
                                          tensor.shape.size() > 1 ? tensor.shape.back() : 1, values);
                         return values;
                       }});
  }
  (void)import_tensors(family, TensorSource::of_tensors(std::move(tensors)), path, spec, table, MissingHead::refuse,
                       state, spec.tied_head);
}

}  // namespace trireme
