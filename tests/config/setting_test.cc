#include "config/setting.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

TEST(ResolvePlain, DistinguishesTypes) {
  EXPECT_EQ(resolve_plain("True"), Value(true));
  EXPECT_EQ(resolve_plain("false"), Value(false));
  EXPECT_EQ(resolve_plain("-12"), Value(int64_t{-12}));
  EXPECT_EQ(resolve_plain("+12"), Value(int64_t{12}));
  EXPECT_EQ(resolve_plain("3e-4"), Value(3e-4));
  EXPECT_EQ(resolve_plain("1."), Value(1.0));
  EXPECT_EQ(resolve_plain("9223372036854775808"), Value(9223372036854775808.0));
  for (const char* text : {"yes", "no", "12a", "0x10", "", "-", "1e", "a.b", "--3"}) {
    EXPECT_EQ(resolve_plain(text), Value(std::string(text)));
  }
}

TEST(ResolvePlain, KeepsNumbersThatAreNotFiniteApartFromText) {
  for (const char* text : {".inf", "-.inf", "inf", "1e999"}) {
    ASSERT_TRUE(std::holds_alternative<double>(resolve_plain(text))) << text;
    EXPECT_TRUE(std::isinf(std::get<double>(resolve_plain(text)))) << text;
  }
  for (const char* text : {".nan", "nan", "NaN"}) {
    ASSERT_TRUE(std::holds_alternative<double>(resolve_plain(text))) << text;
    EXPECT_TRUE(std::isnan(std::get<double>(resolve_plain(text)))) << text;
  }
}

TEST(ResolvePyyaml, ReadsWhatYaml11Has) {
  for (const char* word : {"yes", "Yes", "YES", "on", "On", "ON"}) EXPECT_EQ(resolve_pyyaml(word), Value(true)) << word;
  for (const char* word : {"no", "No", "NO", "off", "Off", "OFF"})
    EXPECT_EQ(resolve_pyyaml(word), Value(false)) << word;
  // as yaml.safe_load of PyYAML 6 reads them
  const std::pair<const char*, int64_t> numbers[] = {{"1_000", 1000}, {"-1_0", -10},   {"+1_0", 10},   {"0x1F", 31},
                                                     {"0b101", 5},    {"017", 15},     {"0_17", 15},   {"1:30", 90},
                                                     {"-1:30", -90},  {"1:1:1", 3661}, {"1_0__0", 100}};
  for (const auto& [text, number] : numbers) EXPECT_EQ(resolve_pyyaml(text), Value(number)) << text;
  EXPECT_EQ(resolve_pyyaml("1_000.5"), Value(1000.5));
  for (const char* text : {"", "y", "n", "yEs", "12", "1e3", "_1", "1_a", "08", "0xg", "1:60", "1:", ":1", "a:b", "1.5",
                           "-", "0x", "0b", "0b2"})
    EXPECT_EQ(resolve_pyyaml(text), std::nullopt) << text;
}

TEST(NearestName, FindsSlips) {
  const std::vector<std::string> names{"optim.learning-rate", "optim.clip", "log.every", "checkpoint.every"};
  EXPECT_EQ(nearest_name("optim.learning-rat", names), "optim.learning-rate");
  EXPECT_EQ(nearest_name("optim.learnign_rate", names), "optim.learning-rate");
  EXPECT_EQ(nearest_name("learning_rate", names), "optim.learning-rate");
  EXPECT_EQ(nearest_name("adam.clip", names), "optim.clip");
  EXPECT_EQ(nearest_name("chekpoint.every", names), "checkpoint.every");
  EXPECT_EQ(nearest_name("lerning_rate", names), "optim.learning-rate");
  EXPECT_EQ(nearest_name("lerning_rte", names), "") << "a group and two letters are missing";
}

TEST(NearestName, NamesNoOtherMeaning) {
  const std::vector<std::string> names{"eval_interval",
                                       "log_interval",
                                       "min_lr",
                                       "top_k",
                                       "beta1",
                                       "save",
                                       "load",
                                       "encode",
                                       "bias",
                                       "log.every",
                                       "checkpoint.every",
                                       "optim.clip",
                                       "run.seed",
                                       "run.dir",
                                       "data.dir",
                                       "train_data_paths",
                                       "include",
                                       "no_save_optim",
                                       "hidden_dropout",
                                       "data.train",
                                       "mesh.data",
                                       "model.position",
                                       "checkpoint.local",
                                       "optim.shard"};
  for (const char* key : {"save-interval", "test_interval",
                          "max_lr",        "top_p",
                          "beta3",         "beta2",
                          "decode",        "gas",
                          "every",         "save.every",
                          "dir",           "exclude",
                          "no_load_optim", "attention_dropout",
                          "bf16",          "mode",
                          "trainer",       "valid_data_paths",
                          "dta",           "parition",
                          "lcal",          "shard-d",
                          "model.dta"})
    EXPECT_EQ(nearest_name(key, names), "") << key;
  EXPECT_EQ(nearest_name("eval_intervall", names), "eval_interval");
  EXPECT_EQ(nearest_name("evalinterval", names), "eval_interval");
  EXPECT_EQ(nearest_name("hiden_droput", names), "hidden_dropout");
  EXPECT_EQ(nearest_name("seed", names), "run.seed") << "only its group is missing";
  constexpr Synonym kSynonyms[] = {{"save_interval", "checkpoint.every"}};
  EXPECT_EQ(nearest_name("save-interval", names, kSynonyms), "checkpoint.every");
  EXPECT_EQ(nearest_name("eval-intervl", names, kSynonyms), "eval_interval");
}

TEST(NearestName, SaysNothingWhenNothingIsNear) {
  const std::vector<std::string> names{"optim.learning-rate", "optim.clip"};
  EXPECT_EQ(nearest_name("flux-capacitor", names), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'a'), names), "");
}

}  // namespace
}  // namespace trireme
