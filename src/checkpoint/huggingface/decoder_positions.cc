#include "checkpoint/huggingface/decoder_config.h"

#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "base/json_fields.h"
#include "checkpoint/huggingface/family_config.h"

namespace trireme {
namespace {

constexpr const char *kFull = "full_attention", *kWindow = "sliding_attention";

/// The member, an object; an empty one if it is absent or null.
Json object_or_empty(const Json& config, const char* key, std::string_view where) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return Json::object();
  require(found->is_object(), ErrorKind::data, "{}: \"{}\" is {}, expected an object", where, key, found->type_name());
  return *found;
}

RotaryKind kind_of(const Json& rope, const DecoderValues& values, std::string_view where) {
  const auto name =
      field_or<std::string>(rope, "rope_type", field_or<std::string>(rope, "type", "default", where), where);
  if (values.longrope && (name == "su" || name == "yarn")) return RotaryKind::longrope;
  const auto kind = value_named<RotaryKind>(name);
  std::vector<std::string_view> known;
  for (const auto& [text, value] : Names<RotaryKind>::kAll) known.push_back(text);
  require(kind.has_value(), ErrorKind::data, "{}: unknown rope_type \"{}\"; known: {}", where, name,
          fmt::join(known, ", "));
  return *kind;
}

std::vector<float> read_factors(const Json& rope, const char* key, std::string_view where) {
  std::vector<float> factors;
  for (const Json& factor : json_array(rope, key, where)) {
    require(factor.is_number(), ErrorKind::data, "{}: \"{}\" has {}, expected numbers", where, key,
            dump_valid_json(factor).substr(0, 80));
    factors.push_back(static_cast<float>(factor.get<double>()));
  }
  return factors;
}

/// What yarn and longrope multiply cosines and sines by.
double attention_factor_of(const Json& rope, RotaryKind kind, double factor, int64_t original, std::string_view where) {
  if (kind == RotaryKind::yarn) {
    const auto scale = field_or<double>(rope, "mscale", 0, where),
               all = field_or<double>(rope, "mscale_all_dim", 0, where);
    const auto of = [&](double k) { return factor <= 1 ? 1.0 : 0.1 * k * std::log(factor) + 1; };
    if (scale != 0 && all != 0) return field_or<double>(rope, "attention_factor", of(scale) / of(all), where);
  }
  return field_or<double>(rope, "attention_factor", default_attention_factor(kind, factor, original), where);
}

/// The context that the scaling begins from.
int64_t original_context(const Json& rope, const Json& config, const DecoderValues& values, const Spec& spec,
                         std::string_view where) {
  constexpr const char* kKey = "original_max_position_embeddings";
  if (config.contains(kKey) && !config.at(kKey).is_null()) return size_field(config, kKey, where);
  if (values.longrope) return 4096;  // of the class, whatever the object says
  return rope.contains(kKey) ? size_field(rope, kKey, where) : spec.context;
}

void require_scaling(const Json& rope, const RotaryScaling& scaling, int64_t pairs, std::string_view where) {
  require(scaling.factor >= 1, ErrorKind::data, "{}: \"factor\" of \"{}\" positions is {}; it must be at least 1",
          where, name_of(scaling.kind), scaling.factor);
  require(scaling.kind != RotaryKind::llama3 || (0 < scaling.low && scaling.low < scaling.high), ErrorKind::data,
          "{}: \"low_freq_factor\" is {} and \"high_freq_factor\" {}; the first must be above 0 and below the second",
          where, scaling.low, scaling.high);
  if (scaling.kind != RotaryKind::longrope) return;
  for (const char* key : {"short_factor", "long_factor"}) {
    const std::vector<float> factors = read_factors(rope, key, where);
    require(std::ssize(factors) == pairs, ErrorKind::data,
            "{}: \"{}\" has {} entries, expected {}, one per pair of rotated values", where, key, factors.size(),
            pairs);
    for (const float factor : factors)
      require(factor > 0, ErrorKind::data, "{}: \"{}\" has {}; factors must be above 0", where, key, factor);
  }
}

RotaryScaling read_scaling(const Json& rope, const Json& config, const DecoderValues& values, const Spec& spec,
                           std::string_view where) {
  RotaryScaling scaling;
  scaling.kind = kind_of(rope, values, where);
  const RotaryKind kind = scaling.kind;
  if (kind == RotaryKind::none) return scaling;
  if (kind != RotaryKind::linear)
    scaling.original_context =
        kind == RotaryKind::dynamic ? spec.context : original_context(rope, config, values, spec, where);
  const auto original = static_cast<double>(scaling.original_context);
  const bool by_context = kind == RotaryKind::yarn || kind == RotaryKind::longrope;
  const double factor = by_context
                            ? field_or<double>(rope, "factor", static_cast<double>(spec.context) / original, where)
                            : json_field<double>(rope, "factor", where);
  scaling.factor = static_cast<float>(std::max(factor, kind == RotaryKind::longrope ? 1.0 : factor));
  if (by_context)
    scaling.attention_factor =
        static_cast<float>(attention_factor_of(rope, kind, factor, scaling.original_context, where));
  if (kind == RotaryKind::llama3) {
    scaling.low = static_cast<float>(json_field<double>(rope, "low_freq_factor", where));
    scaling.high = static_cast<float>(json_field<double>(rope, "high_freq_factor", where));
  } else if (kind == RotaryKind::yarn) {
    scaling.beta_fast = rate_or(rope, "beta_fast", 32, where);
    scaling.beta_slow = rate_or(rope, "beta_slow", 1, where);
    // transformers looks for the key beside the objects of the kinds of layers, where it never is.
    scaling.truncate = values.positions_by_layer || field_or<bool>(rope, "truncate", true, where);
  } else if (kind == RotaryKind::longrope) {
    scaling.short_factors = read_factors(rope, "short_factor", where);
    scaling.long_factors = read_factors(rope, "long_factor", where);
  }
  require_scaling(rope, scaling, spec.rotary_dims / 2, where);
  return scaling;
}

float theta_of(const Json& rope, const Json& config, const char* key, double otherwise, std::string_view where) {
  const float theta = rate_or(rope, "rope_theta", field_or<double>(config, key, otherwise, where), where);
  require(theta > 1, ErrorKind::data, "{}: \"{}\" is {}; it must be above 1", where,
          rope.contains("rope_theta") ? "rope_theta" : key, theta);
  return theta;
}

/// A share of a head that is cut to these dims again.
double share_of_head(int64_t dims, int64_t head_dim) {
  const double exact = static_cast<double>(dims) / static_cast<double>(head_dim);
  return static_cast<int64_t>(exact * static_cast<double>(head_dim)) == dims ? exact : std::nextafter(exact, 2.0);
}

Json factors_json(const std::vector<float>& factors) {
  Json list = Json::array();
  for (const float factor : factors) list.push_back(shortest_double(factor));
  return list;
}

/// The object of a kind without base and share.
Json scaling_json(const RotaryScaling& scaling) {
  Json rope{{"rope_type", name_of(scaling.kind)}};
  if (scaling.kind == RotaryKind::none) return rope;
  rope["factor"] = shortest_double(scaling.factor);
  if (scaling.kind == RotaryKind::llama3 || scaling.kind == RotaryKind::yarn || scaling.kind == RotaryKind::longrope)
    rope["original_max_position_embeddings"] = scaling.original_context;
  if (scaling.kind == RotaryKind::llama3) {
    rope["low_freq_factor"] = shortest_double(scaling.low);
    rope["high_freq_factor"] = shortest_double(scaling.high);
  } else if (scaling.kind == RotaryKind::yarn) {
    rope["beta_fast"] = shortest_double(scaling.beta_fast);
    rope["beta_slow"] = shortest_double(scaling.beta_slow);
    rope["truncate"] = scaling.truncate;
    rope["attention_factor"] = shortest_double(scaling.attention_factor);
  } else if (scaling.kind == RotaryKind::longrope) {
    rope["short_factor"] = factors_json(scaling.short_factors);
    rope["long_factor"] = factors_json(scaling.long_factors);
    rope["attention_factor"] = shortest_double(scaling.attention_factor);
  }
  return rope;
}

/// What transformers ignores in families whose kinds of layers have their own positions.
void require_kinds_of_layers(const Json& rope, const Json& scaling, bool nested, std::string_view where) {
  for (const auto& [key, value] : rope.items())
    require(key == kFull || key == kWindow, ErrorKind::data,
            "{}: \"rope_parameters\" has \"{}\", but only its objects \"{}\" and \"{}\" are used in this family", where,
            key, kFull, kWindow);
  const auto type = field_or<std::string>(scaling, "type", "default", where);
  require(nested || type == "default" || scaling.contains("rope_type"), ErrorKind::data,
          "{}: \"type\" of \"rope_scaling\" is \"{}\", which transformers does not read in this family; name it "
          "\"rope_type\"",
          where, type);
}

}  // namespace

void read_positions(const Json& config, const DecoderValues& values, Spec& spec, std::string_view where) {
  const Json scaling = object_or_empty(config, "rope_scaling", where);
  Json rope = object_or_empty(config, "rope_parameters", where);
  const bool nested = rope.contains(kFull) || rope.contains(kWindow);
  require(!nested || values.positions_by_layer, ErrorKind::data,
          "{}: \"rope_parameters\" has an object per kind of layer, but the layers of this family are all alike",
          where);
  if (values.positions_by_layer) require_kinds_of_layers(rope, scaling, nested, where);
  const Json windowed = nested ? object_or_empty(rope, kWindow, where) : Json::object();
  if (nested) rope = object_or_empty(rope, kFull, where);
  for (const auto& [key, value] : rope.items())
    require(!value.is_object(), ErrorKind::data, "{}: \"rope_parameters\" has an object \"{}\", expected only values",
            where, key);
  // As transformers: the old spelling first.
  if (nested) {
    rope.update(scaling);
  } else if (!scaling.empty()) {
    rope = scaling;
  }
  spec.position = Position::rotary;
  spec.rotary_base = theta_of(rope, config, "rope_theta", values.theta, where);
  const auto share =
      field_or<double>(rope, "partial_rotary_factor",
                       field_or<double>(config, "partial_rotary_factor", values.rotary_share, where), where);
  require(share > 0 && share <= 1, ErrorKind::data,
          "{}: \"partial_rotary_factor\" is {}; it must be above 0 and at most 1", where, share);
  require(share == 1 || values.partial, ErrorKind::data,
          "{}: \"partial_rotary_factor\" is {}, but only 1 is supported in this family", where, share);
  spec.rotary_dims = static_cast<int64_t>(share * static_cast<double>(spec.head_dim()));
  require(spec.rotary_dims > 0 && spec.rotary_dims % 2 == 0, ErrorKind::data,
          "{}: {} of {} values of a head are rotated (\"head_dim\" times \"partial_rotary_factor\"); their number must "
          "be even",
          where, spec.rotary_dims, spec.head_dim());
  spec.rotary = read_scaling(rope, config, values, spec, where);
  if (!values.positions_by_layer || spec.window == 0) return;
  require(kind_of(windowed, values, where) == RotaryKind::none, ErrorKind::data,
          "{}: positions of layers with a window are scaled (\"rope_type\"), but only \"default\" is supported there",
          where);
  const bool own = values.window_theta > 0;
  if (!own && !windowed.contains("rope_theta")) {
    const auto theta = field_or<double>(config, "rope_theta", values.theta, where);
    require(theta == values.theta, ErrorKind::data,
            "{}: \"rope_theta\" is {}, which transformers 5 takes for the layers without a window only and 4 for all; "
            "give both in \"rope_parameters\"",
            where, theta);
  }
  const float base = theta_of(windowed, config, own ? "rope_local_base_freq" : "rope_theta",
                              own ? values.window_theta : values.theta, where);
  const bool alike = base == spec.rotary_base && spec.rotary.kind == RotaryKind::none;
  spec.window_rotary_base = alike ? 0 : base;
}

void write_positions(const Spec& spec, const DecoderValues& values, Json& config) {
  Json rope = scaling_json(spec.rotary);
  config["rope_scaling"] = spec.rotary.kind == RotaryKind::none ? Json() : rope;
  config["rope_theta"] = shortest_double(spec.rotary_base);
  rope["rope_theta"] = shortest_double(spec.rotary_base);
  if (spec.rotary_dims != spec.head_dim() || values.rotary_share != 1) {
    const double share = share_of_head(spec.rotary_dims, spec.head_dim());
    rope["partial_rotary_factor"] = config["partial_rotary_factor"] = share;
  }
  if (values.longrope)
    config["original_max_position_embeddings"] =
        spec.rotary.kind == RotaryKind::longrope ? spec.rotary.original_context : spec.context;
  if (!values.positions_by_layer) {
    config["rope_parameters"] = rope;
    return;
  }
  const float base = spec.window_rotary_base > 0 ? spec.window_rotary_base : spec.rotary_base;
  const Json windowed{{"rope_type", "default"}, {"rope_theta", shortest_double(base)}};
  config["rope_parameters"] = {{kFull, rope}, {kWindow, windowed}};
  if (values.window_theta > 0) config["rope_local_base_freq"] = shortest_double(base);
}

}  // namespace trireme
