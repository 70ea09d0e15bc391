#include "train/glue/model.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

std::string why(const Json& config, const std::string& task, bool head_is_new = false) {
  return why_untrained(config, head_is_new, glue_task(task));
}
Json classes(const std::vector<std::string>& names) {
  Json config;
  for (size_t i = 0; i < names.size(); ++i) config["id2label"][std::to_string(i)] = names[i];
  return config;
}

TEST(HeadHistory, TheRecordedTaskMustBeTheTask) {
  for (const char* name : {"mnli", "MNLI", "glue:mnli", "glue-mnli", "mnli-mm"}) {
    EXPECT_EQ(why({{"finetuning_task", name}}, "mnli"), "") << name;
    EXPECT_EQ(why({{"finetuning_task", name}}, "ax"), "") << name;
    EXPECT_EQ(why({{"finetuning_task", name}}, "rte"), "it was fine-tuned on mnli") << name;
  }
  EXPECT_EQ(why({{"finetuning_task", "SST-2"}}, "sst2"), "");
  EXPECT_EQ(why({{"finetuning_task", nullptr}}, "rte"), "");
}

TEST(HeadHistory, TheDiagnosticSetIsForHeadsOfMnlisClasses) {
  EXPECT_EQ(why(classes({"CONTRADICTION", "NEUTRAL", "ENTAILMENT"}), "ax"), "");
  EXPECT_THAT(why(classes({"LABEL_0", "LABEL_1", "LABEL_2"}), "ax"),
              testing::HasSubstr("has neither finetuning_task mnli"));
  EXPECT_THAT(why(classes({"entailment", "not_entailment"}), "ax"),
              testing::HasSubstr("has neither finetuning_task mnli"));
  EXPECT_THAT(why(Json::object(), "ax"), testing::HasSubstr("has neither finetuning_task mnli"));
  EXPECT_EQ(why(Json::object(), "mnli"), "");  // nothing speaks against it
}

TEST(HeadHistory, ANewHeadIsUntrained) {
  EXPECT_THAT(why({{"finetuning_task", "mnli"}}, "ax", true), testing::HasSubstr("it has no classifier"));
  GlueTask own;
  own.name = "None";
  EXPECT_THAT(why_untrained(Json::object(), true, own), testing::HasSubstr("it has no classifier"));
  EXPECT_EQ(why_untrained({{"finetuning_task", "mnli"}}, false, own), "");
}

}  // namespace
}  // namespace trireme
