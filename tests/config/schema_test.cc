#include "config/schema.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

Setting setting(const std::string& key, Value value) {
  const std::string text = to_text(value);
  return {key, std::move(value), text, {"a.yaml", 3, 0}, ""};
}

const Option& option(const std::string& name) {
  const Option* found = schema().find(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

TEST(Schema, NamesEveryOptionOnceWithHelpAndDefault) {
  std::set<std::string> names;
  for (const Option& o : schema().options()) {
    EXPECT_TRUE(names.insert(o.name).second) << o.name;
    EXPECT_FALSE(o.help.empty()) << o.name;
    EXPECT_EQ(o.name, canonical(o.name));
    EXPECT_EQ(get(Config{}, o), o.default_value) << o.name;
  }
  EXPECT_GT(names.size(), 50u);
}

TEST(Schema, AcceptsEveryDefaultAsAValue) {
  for (const Option& o : schema().options()) {
    EXPECT_EQ(convert(o, setting(o.name, o.default_value)), o.default_value) << o.name;
  }
}

TEST(Schema, SetsOnlyTheFieldThatIsMeant) {
  for (const Option& changed : schema().options()) {
    Config config;
    Value value = changed.default_value;
    if (auto* b = std::get_if<bool>(&value)) *b = !*b;
    if (auto* i = std::get_if<int64_t>(&value)) *i += 1;
    if (auto* d = std::get_if<double>(&value)) *d += 0.5;
    if (auto* s = std::get_if<std::string>(&value)) *s = changed.choices.empty() ? *s + "x" : changed.choices.back();
    set(config, changed, value);
    for (const Option& o : schema().options()) {
      EXPECT_EQ(get(config, o), o.index == changed.index ? value : o.default_value) << changed.name << " " << o.name;
    }
  }
}

TEST(Schema, FindsNamesInEitherSpelling) {
  EXPECT_EQ(schema().find("optim.learning_rate"), schema().find("optim.learning-rate"));
  EXPECT_NE(schema().find("optim.learning_rate"), nullptr);
  EXPECT_EQ(schema().find("learning-rate"), nullptr);
  EXPECT_TRUE(schema().is_group("optim"));
  EXPECT_FALSE(schema().is_group("optim.clip"));
}

TEST(Convert, TakesWholeNumbersAsNumbersAndAnyScalarAsText) {
  EXPECT_EQ(convert(option("optim.clip"), setting("optim.clip", int64_t{2})), Value(2.0));
  EXPECT_EQ(convert(option("run.dir"), setting("run.dir", int64_t{7})), Value(std::string("7")));
}

TEST(Convert, RefusesWrongTypes) {
  EXPECT_ERROR(convert(option("run.steps"), setting("run.steps", 1.5)), ErrorKind::config,
               "a.yaml:3: run.steps is 1.5, expected a whole number from 0 to 1099511627776");
  EXPECT_ERROR(convert(option("run.steps"), setting("run.steps", true)), ErrorKind::config, "run.steps is true");
  EXPECT_ERROR(convert(option("optim.clip"), setting("optim.clip", "1.0")), ErrorKind::config,
               "optim.clip is \"1.0\", expected a number from 0 to 1000000000");
  EXPECT_ERROR(convert(option("data.verify"), setting("data.verify", "yes")), ErrorKind::config,
               "data.verify is \"yes\", expected true or false");
  EXPECT_ERROR(convert(option("data.verify"), setting("data.verify", int64_t{1})), ErrorKind::config,
               "data.verify is 1, expected true or false");
  Setting list = setting("run.dir", std::monostate{});
  list.problem = "a list";
  EXPECT_ERROR(convert(option("run.dir"), list), ErrorKind::config, "run.dir is a list, expected text");
}

TEST(Convert, RefusesTextThatTheSystemWouldCut) {
  for (const char* name : {"run.dir", "checkpoint.resume", "data.dir", "log.metrics-file"})
    EXPECT_ERROR(convert(option(name), setting(name, std::string("run\0a", 5))), ErrorKind::config,
                 "which contains a NUL character; expected text without one");
}

TEST(Convert, TakesOtherSpellingsOfAChoice) {
  const auto recompute = [](Value value) {
    return convert(option("model.recompute"), setting("model.recompute", std::move(value)));
  };
  EXPECT_EQ(recompute(true), Value(std::string("full")));
  EXPECT_EQ(recompute(false), Value(std::string("none")));
  EXPECT_EQ(recompute("attention"), Value(std::string("attention")));
  EXPECT_ERROR(recompute("some"), ErrorKind::config,
               "a.yaml:3: model.recompute is \"some\", expected one of none, attention, full");
}

TEST(Convert, RefusesValuesOutOfRange) {
  EXPECT_ERROR(convert(option("log.every"), setting("log.every", int64_t{0})), ErrorKind::config,
               "log.every is 0, expected a whole number from 1 to");
  EXPECT_ERROR(convert(option("model.dropout"), setting("model.dropout", 1.0)), ErrorKind::config,
               "model.dropout is 1, expected a number from 0 to 0.999");
  EXPECT_ERROR(convert(option("precision.dtype"), setting("precision.dtype", "fp16")), ErrorKind::config,
               "precision.dtype is \"fp16\", expected one of f32, bf16");
}

TEST(Convert, RefusesNumbersThatAreNotFinite) {
  for (const double value : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_ERROR(convert(option("optim.clip"), setting("optim.clip", value)), ErrorKind::config,
                 "which is not a finite number");
  }
}

}  // namespace
}  // namespace trireme
