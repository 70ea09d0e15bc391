// Errors about another model name the difference, for every field of the Spec.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/snapshot/spec_json.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

/// Another value of the same type, which the field may have.
Json other_value(const std::string& field, const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_float()) return value.get<double>() + 0.5;
  if (value.is_number()) return value.get<int64_t>() + 1;
  if (value.is_array()) return Json::array({1.5});
  for (const char* other : {"relu", "full", "post", "parallel", "rotary", "classifier", "rms", "head", "linear"}) {
    try {
      Json json = spec_to_json(small_spec());
      json[field] = other;
      (void)spec_from_json(json, "here", 4);
      return other;
    } catch (const Error&) {  // of another enum
    }
  }
  return nullptr;
}

TEST(SpecDifferences, NameEveryFieldWithBothValues) {
  const Json json = spec_to_json(small_spec());
  ASSERT_GT(json.size(), 30);
  for (const auto& [field, value] : json.items()) {
    SCOPED_TRACE(field);
    Json changed = json;
    changed[field] = other_value(field, value);
    const auto text = [](const Json& of) {
      return of.is_string()         ? of.get<std::string>()
             : of.is_number_float() ? fmt::format("{}", static_cast<float>(of.get<double>()))
                                    : of.dump();
    };
    const Spec other = spec_from_json(changed, "here", 4);
    const auto differences = spec_differences(small_spec(), other);
    ASSERT_EQ(differences.size(), 1);
    EXPECT_EQ(differences[0].field, field);
    EXPECT_EQ(differences[0].a, text(value));
    EXPECT_EQ(differences[0].b, text(changed[field]));
    EXPECT_EQ(describe_differences(small_spec(), other),
              fmt::format("{} is {}, not {}", field, text(value), text(changed[field])));
  }
  EXPECT_EQ(describe_differences(small_spec(), small_spec()), "");
}

TEST(SpecDifferences, AModelThatDiffersInARareFieldIsRefusedByThatField) {
  const std::string path = source_dir() + "/tests/golden/neox-parallel";
  const ModelFolder folder = open_model(path);
  Spec wanted = folder.spec;
  wanted.rotary_dims = 2 * folder.spec.rotary_dims;
  wanted.norm_epsilon = 1e-3f;
  const ParameterTable table(wanted);
  TrainingState state(table, DType::f32, false);
  EXPECT_ERROR(load_model(folder, wanted, table, state), ErrorKind::config,
               fmt::format("{} holds a different model than the configuration describes: rotary_dims is {}, not {}; "
                           "norm_epsilon is 1e-05, not 0.001; set the options",
                           path, folder.spec.rotary_dims, wanted.rotary_dims));
}

}  // namespace
}  // namespace trireme
