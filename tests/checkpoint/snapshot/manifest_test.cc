#include "checkpoint/snapshot/manifest.h"

#include "checkpoint/snapshot/spec_json.h"
#include "tests/checkpoint/small_run.h"
#include "tests/checkpoint/snapshot/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/layouts.h"

namespace trireme {
namespace {

std::string planned_text(int tensor = 1, int pipeline = 1, int data = 2, bool states = true) {
  const ParameterTable whole(small_spec());
  const auto slices = plan_slices(whole, layouts_of(small_spec(), tensor, pipeline, data), states);
  return write_manifest(plan_manifest(whole, slices, facts_of(small_spec(), 7), states));
}

/// Parsing the changed manifest fails with this text.
void expect_refused(const std::function<void(Json&)>& change, const std::string& message) {
  EXPECT_ERROR(parse_manifest(changed_manifest(planned_text(), change), "M"), ErrorKind::data, message);
}

/// As a program of version 1 would have written it.
void make_version_1(Json& json) {
  json["version"] = 1;
  json["moments"] = true;
  for (Json& p : json["parameters"]) p.erase("states");
  for (Json& s : json["slices"]) {
    const std::string part = s["part"];
    if (part != "weight") s["part"] = part.substr(part.find('.') + 1);
    s["first_row"] = s["first"][0];
    s["rows"] = s["count"][0];
    s["hash"] = s["hashes"][0];
    for (const char* name : {"first", "count", "rows_per_hash", "hashes"}) s.erase(name);
  }
}

TEST(Manifest, WrittenDataIsReadAgain) {
  for (const bool states : {true, false}) {
    for (const auto& [tensor, pipeline, data] : {std::array{1, 1, 1}, {1, 1, 3}, {2, 1, 1}, {2, 2, 2}, {1, 2, 1}}) {
      const std::string text = planned_text(tensor, pipeline, data, states);
      const Manifest manifest = parse_manifest(text, "M");
      EXPECT_EQ(write_manifest(manifest), text);
      EXPECT_EQ(manifest.shards.size(), static_cast<size_t>(tensor * pipeline * data));
      EXPECT_EQ(manifest.facts.progress, facts_of(small_spec(), 7).progress);
    }
  }
}

TEST(Manifest, NamesTheOptimizerStatesOfEveryParameter) {
  const Json json = parse_json(planned_text(), "M");
  EXPECT_EQ(json["version"], 4);
  for (const Json& p : json["parameters"]) EXPECT_EQ(p["states"], (Json{"adam.m", "adam.v"})) << p["name"];
  const Json weights = parse_json(planned_text(1, 1, 1, false), "M");
  for (const Json& p : weights["parameters"]) EXPECT_EQ(p["states"], Json::array()) << p["name"];
}

TEST(Manifest, OnlyModelsWithStatesOrGatesHaveTheirFields) {
  Spec spec = small_spec();
  for (const char* field : {"attention_gate", "delta_key_heads", "delta_taps", "adapters"})
    EXPECT_FALSE(spec_to_json(spec).contains(field)) << field;
  spec.attention_gate = true;
  EXPECT_TRUE(spec_to_json(spec).contains("delta_key_heads"));
  EXPECT_FALSE(spec_to_json(spec).contains("adapters"));
  spec.delta_key_heads = 2, spec.delta_value_heads = 4, spec.delta_key_size = 3, spec.delta_value_size = 5;
  spec.delta_taps = 4, spec.attention_layers = "DF";
  spec.adapters = "delta.in.mixed in 0: rank 2, scale 1";
  EXPECT_EQ(spec_from_json(spec_to_json(spec), "M", 4), spec);
}

TEST(Manifest, AnUnknownFieldIsRefusedByName) {
  const auto expect = [](const std::function<Json&(Json&)>& object, const std::string& what) {
    expect_refused(
        [&](Json& json) { object(json)["momentum"] = 1; },
        "M: " + what +
            " has a field \"momentum\" that this program does not know; a newer version may have written it");
  };
  expect([](Json& json) -> Json& { return json; }, "the manifest");
  expect([](Json& json) -> Json& { return json["progress"]; }, "progress");
  expect([](Json& json) -> Json& { return json["progress"]["losses"]; }, "losses");
  expect([](Json& json) -> Json& { return json["model"]; }, "the model");
  expect([](Json& json) -> Json& { return json["data_files"][0]; }, "a data file");
  expect([](Json& json) -> Json& { return json["parameters"][3]; }, "a parameter");
  expect([](Json& json) -> Json& { return json["shards"][1]; }, "a shard");
  expect([](Json& json) -> Json& { return json["slices"][2]; }, "a slice");
}

TEST(Manifest, KeepsTheLossScaleOfARunInF16) {
  EXPECT_EQ(planned_text().find("loss_scale"), std::string::npos) << "others have none";
  const Json scale{{"scale", 1024.0}, {"window", 7}, {"clean", 3}, {"hysteresis", 2}, {"in_a_row", 0}};
  const auto with_scale = [&](const std::function<void(Json&)>& change) {
    return changed_manifest(planned_text(), [&](Json& json) {
      json["progress"]["loss_scale"] = scale;
      json["progress"]["overflows"] = 5;
      change(json["progress"]["loss_scale"]);
    });
  };
  const std::string text = with_scale([](Json&) {});
  const Manifest manifest = parse_manifest(text, "M");
  EXPECT_EQ(manifest.facts.progress.overflows, 5);
  EXPECT_EQ(manifest.facts.progress.loss_scale,
            (LossScale{.scale = 1024, .window = 7, .clean = 3, .hysteresis = 2, .in_a_row = 0}));
  EXPECT_EQ(write_manifest(manifest), text);
  EXPECT_ERROR(parse_manifest(with_scale([](Json& json) { json["scale"] = 0.0; }), "M"), ErrorKind::data,
               "M: loss_scale has scale 0 and window 7, expected numbers above 0");
  EXPECT_ERROR(parse_manifest(with_scale([](Json& json) { json.erase("clean"); }), "M"), ErrorKind::data,
               "M: \"clean\" is missing");
  EXPECT_ERROR(parse_manifest(with_scale([](Json& json) { json["more"] = 1; }), "M"), ErrorKind::data,
               "M: loss_scale has a field \"more\"");
}

TEST(Manifest, AWrongOptimizerStateIsRefusedByName) {
  expect_refused([](Json& json) { json["parameters"][0]["states"].push_back("muon.m"); },
                 "embedding.token.weight.muon.m is missing");
  for (const char* name : {"weight", "", "muon m", "muon/m"})
    expect_refused([name](Json& json) { json["parameters"][0]["states"].push_back(name); },
                   fmt::format("\"{}\" cannot be an optimizer state of embedding.token.weight", name));
  expect_refused([](Json& json) { json["parameters"][0]["states"].push_back("adam.v"); },
                 "embedding.token.weight has an optimizer state twice");
  expect_refused([](Json& json) { json["slices"].back()["part"] = "outer.m"; }, "unknown part \"outer.m\" of");
}

TEST(Manifest, AnAbsentFieldMeansItsDefaultOnlyWhereTheVersionDidNotHaveIt) {
  for (const char* name : {"progress", "model", "config", "tokenizer_hash", "data_files", "parameters", "slices"})
    expect_refused([&](Json& json) { json.erase(name); }, std::string("M: \"") + name + "\" is missing");
  expect_refused([](Json& json) { json["model"].erase("rotary_base"); }, "M: \"rotary_base\" is missing");
  expect_refused([](Json& json) { json["progress"].erase("losses"); }, "M: \"losses\" is missing");
  expect_refused([](Json& json) { json["parameters"][0].erase("states"); }, "M: \"states\" is missing");
  const std::string first = changed_manifest(planned_text(), [](Json& json) {
    make_version_1(json);
    json["progress"].erase("losses");
  });
  EXPECT_EQ(parse_manifest(first, "M").facts.progress.losses, LossTrend());
  expect_refused(
      [](Json& json) {
        make_version_1(json);
        json["progress"].erase("skipped");
      },
      "M: \"skipped\" is missing");
}

TEST(Manifest, Version1IsReadAndWrittenAsTheNewest) {
  const std::string text = planned_text();
  EXPECT_FALSE(write_manifest(parse_manifest(changed_manifest(text, make_version_1), "M")).empty());
  const Manifest then = parse_manifest(changed_manifest(text, make_version_1), "M"), now = parse_manifest(text, "M");
  ASSERT_EQ(then.slices.size(), now.slices.size());
  for (size_t i = 0; i < now.slices.size(); ++i) {
    EXPECT_EQ(then.slices[i].box, now.slices[i].box);
    EXPECT_EQ(then.slices[i].part, now.slices[i].part);
    EXPECT_EQ(then.slices[i].hashes, now.slices[i].hashes);
  }
  for (size_t i = 0; i < now.parameters.size(); ++i) EXPECT_EQ(then.parameters[i].states, now.parameters[i].states);
  const std::string again = write_manifest(then);
  EXPECT_EQ(write_manifest(parse_manifest(again, "again")), again);
  EXPECT_EQ(parse_json(again, "again")["version"], 4);
}

TEST(Manifest, Version3HasNoFieldsOfNewerDecoders) {
  const auto without = [](int version) {
    return changed_manifest(planned_text(), [=](Json& json) {
      json["version"] = version;
      bool newer = false;
      Json model;
      for (const auto& [name, value] : json["model"].items()) {
        newer = newer || name == "key_heads";
        if (!newer) model[name] = value;
      }
      ASSERT_LT(model.size(), json["model"].size());
      json["model"] = model;
    });
  };
  EXPECT_EQ(parse_manifest(without(3), "M").facts.spec, small_spec());
  EXPECT_ERROR(parse_manifest(without(4), "M"), ErrorKind::data, "M: \"key_heads\" is missing");
}

TEST(Manifest, ListsAndNamesOfTheSpecComeBack) {
  Spec spec = small_spec();
  spec.position = Position::rotary, spec.rotary_dims = 4;
  spec.attention_layers = std::string(static_cast<size_t>(spec.layers), 'f');
  spec.rotary = {.kind = RotaryKind::longrope, .factor = 4, .attention_factor = 1.25f, .original_context = 2};
  spec.rotary.short_factors = {1, 1.5f}, spec.rotary.long_factors = {2, 0.1f};
  EXPECT_EQ(spec_from_json(spec_to_json(spec), "M", 4), spec);
  Json wrong = spec_to_json(spec);
  wrong["rotary_long_factors"] = {1, "x"};
  EXPECT_ERROR(spec_from_json(wrong, "M", 4), ErrorKind::data,
               "M: \"rotary_long_factors\" has string, expected numbers");
}

TEST(Manifest, TheHashOfVersion2IsKeptApart) {
  const auto hash = [](Json& json) { json["parameter_hash"] = "00000000000000aa"; };
  const Manifest now = parse_manifest(changed_manifest(planned_text(), hash), "M");
  EXPECT_EQ(now.facts.parameter_hash, "00000000000000aa");
  EXPECT_EQ(now.facts.layout_hash, "");
  const Manifest then = parse_manifest(changed_manifest(planned_text(),
                                                        [&](Json& json) {
                                                          hash(json);
                                                          json["version"] = 2;
                                                        }),
                                       "M");
  EXPECT_EQ(then.facts.parameter_hash, "") << "it depends on the layout: nothing is compared with it";
  EXPECT_EQ(then.facts.layout_hash, "00000000000000aa");
  EXPECT_TRUE(parse_json(write_manifest(then), "again")["parameter_hash"].is_null());
}

TEST(Manifest, OtherVersionsAreRefused) {
  for (const int version : {0, 5})
    expect_refused([&](Json& json) { json["version"] = version; },
                   fmt::format("M: format version {}, but this program reads only 1 to 4", version));
  expect_refused([](Json& json) { json["version"] = 1; }, "\"moments\" is missing");
}

TEST(Manifest, SlicesThatDoNotMakeUpTheTensorsAreNamed) {
  const auto slice_of = [](Json& json, const char* parameter) -> Json& {
    for (Json& s : json["slices"]) {
      if (s["parameter"] == parameter) return s;
    }
    throw std::logic_error("no such slice");
  };
  const char* norm = "norm.weight";
  expect_refused([&](Json& json) { slice_of(json, norm)["count"] = {7}; },
                 "slice of norm.weight, [7] elements from [0], does not match its bytes 3720 to 3752 in "
                 "rank-00000-of-00002.safetensors");
  expect_refused([&](Json& json) { slice_of(json, norm)["first"] = {1}; },
                 "slice of norm.weight, [8] elements from [1], does not match its bytes 3720 to 3752 in "
                 "rank-00000-of-00002.safetensors");
  expect_refused(
      [&](Json& json) {
        slice_of(json, norm)["first"] = {0, 0};
      },
      "slice of norm.weight, [8] elements from [0, 0], does not match its bytes 3720 to 3752 in "
      "rank-00000-of-00002.safetensors");
  expect_refused([&](Json& json) { slice_of(json, norm)["count"] = {0}; },
                 "slice of norm.weight holds 0, expected a number of at least 1");
  expect_refused([&](Json& json) { slice_of(json, norm)["first"] = Json::array(); },
                 "slice of norm.weight has 0 dims, expected 1 to 4");
  expect_refused([&](Json& json) { slice_of(json, norm)["rows_per_hash"] = 3; },
                 "slice [0:8] of norm.weight has 1 hashes of 3 rows each, which do not match its 8 rows");
  for (const int64_t rows : {int64_t{0}, int64_t{9}, INT64_MAX})
    expect_refused([&](Json& json) { slice_of(json, norm)["rows_per_hash"] = rows; },
                   fmt::format("has 1 hashes of {} rows each", rows));
  expect_refused([&](Json& json) { slice_of(json, norm)["first"] = {INT64_MAX}; },
                 "does not match its bytes 3720 to 3752 in rank-00000-of-00002.safetensors");
  expect_refused([&](Json& json) { json["slices"].push_back(slice_of(json, norm)); },
                 "rows of norm.weight are missing or duplicated at row 8");
  expect_refused(
      [&](Json& json) {
        for (Json& p : json["parameters"]) {
          if (p["name"] == norm) p["states"] = {"adam.m"};
        }
      },
      "unknown part \"adam.v\" of norm.weight");
  const auto drop = [&](const std::string& text, const std::function<bool(const Json&)>& which) {
    return changed_manifest(text, [&](Json& json) {
      Json kept = Json::array();
      for (const Json& s : json["slices"]) {
        if (!which(s)) kept.push_back(s);
      }
      json["slices"] = kept;
    });
  };
  EXPECT_ERROR(parse_manifest(drop(planned_text(), [&](const Json& s) { return s["parameter"] == norm; }), "M"),
               ErrorKind::data, "M: norm.weight is missing");
  const std::string cut = planned_text(2, 1, 1);
  EXPECT_ERROR(
      parse_manifest(
          drop(cut, [](const Json& s) { return s["parameter"] == "block.0.mlp.out.weight" && s["first"][1] != 0; }),
          "M"),
      ErrorKind::data, "block.0.mlp.out.weight ends at column 12 of 24");
  EXPECT_ERROR(
      parse_manifest(
          drop(cut, [](const Json& s) { return s["parameter"] == "block.0.mlp.out.weight" && s["first"][1] == 0; }),
          "M"),
      ErrorKind::data, "columns of block.0.mlp.out.weight are missing or duplicated at column 0");
}

}  // namespace
}  // namespace trireme
