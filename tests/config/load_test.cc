#include "config/load.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

class Load : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    write_text(folder_ / name, content);
    return folder_ / name;
  }
  static LoadedConfig flags(const Words& words) { return load_config({}, words); }

  TemporaryFolder folder_;
};

TEST_F(Load, GivesTheDefaultsForNothing) {
  const LoadedConfig loaded = load_config({}, {});
  EXPECT_EQ(loaded.config.optim.learning_rate, 6e-4);
  EXPECT_TRUE(loaded.origins.empty());
  EXPECT_EQ(loaded.dialect, "native");
  EXPECT_EQ(loaded.where("optim.clip"), "optim.clip (default)");
}

TEST_F(Load, LetsLaterFilesAndThenFlagsWin) {
  const std::string a = write("a.yaml", "optim:\n  clip: 1\n  beta1: 0.5\n  beta2: 0.6\n");
  const std::string b = write("b.yaml", "optim.clip: 2\noptim.beta1: 0.7\n");
  const LoadedConfig ab = load_config({a, b}, {"--optim.clip", "3"});
  EXPECT_EQ(ab.config.optim.clip, 3);
  EXPECT_EQ(ab.config.optim.beta1, 0.7);
  EXPECT_EQ(ab.config.optim.beta2, 0.6);
  EXPECT_EQ(ab.where("optim.clip"), "optim.clip (flag --optim.clip)");
  EXPECT_EQ(ab.where("optim.beta1"), "optim.beta1 (" + b + ":2)");
  EXPECT_EQ(ab.where("optim.beta2"), "optim.beta2 (" + a + ":4)");
  const LoadedConfig ba = load_config({b, a}, {});
  EXPECT_EQ(ba.config.optim.clip, 1);
  EXPECT_EQ(ba.config.optim.beta1, 0.5);
}

TEST_F(Load, ReadsFlagsInEveryForm) {
  const Config config = flags({"--optim.learning_rate=3e-4", "--optim.min-learning-rate", "1e-5", "--data.verify",
                               "--log.jsonl", "false", "--log.tensorboard=false", "--run.dir=", "--run.dir", "x=y"})
                            .config;
  EXPECT_EQ(config.optim.learning_rate, 3e-4);
  EXPECT_EQ(config.optim.min_learning_rate, 1e-5);
  EXPECT_TRUE(config.data.verify);
  EXPECT_FALSE(config.log.jsonl);
  EXPECT_FALSE(config.log.tensorboard);
  EXPECT_EQ(config.run.dir, "x=y");
}

TEST_F(Load, LetsTheLastOfEqualFlagsWin) { EXPECT_EQ(flags({"--run.steps=1", "--run.steps=2"}).config.run.steps, 2); }

TEST_F(Load, TakesADefaultOnlyWhereNothingElseSetsTheOption) {
  const Words standard = {"--default", "precision.dtype=bf16"};
  const LoadedConfig unset = flags(standard);
  EXPECT_EQ(unset.config.precision.dtype, DType::bf16);
  EXPECT_FALSE(unset.given("precision.dtype"));
  EXPECT_EQ(unset.where("precision.dtype"), "precision.dtype (flag --default)");
  EXPECT_EQ(flags({"--precision.dtype", "f32", "--default=precision.dtype=bf16"}).config.precision.dtype, DType::f32);
  const std::string native = write("a.yaml", "precision: {dtype: f32}\n");
  EXPECT_EQ(load_config({native}, standard).config.precision.dtype, DType::f32);
  const std::string foreign = write("a.py", "n_layer = 2\ndtype = 'float32'\n"), other = write("b.py", "n_layer = 2\n");
  EXPECT_EQ(load_config({foreign}, standard).config.precision.dtype, DType::f32);
  EXPECT_EQ(load_config({other}, standard).config.precision.dtype, DType::bf16);
  EXPECT_EQ(split_words({"--default", "precision.dtype=bf16", "a.yaml"}).files, Words{"a.yaml"});
}

TEST_F(Load, RefusesADefaultOfNothing) {
  EXPECT_ERROR(flags({"--default"}), ErrorKind::usage, "--default needs NAME=VALUE");
  EXPECT_ERROR(flags({"--default", "precision.dtype"}), ErrorKind::usage,
               "--default precision.dtype: expected NAME=VALUE");
  EXPECT_ERROR(flags({"--default", "precision.dtyp=bf16"}), ErrorKind::config,
               "flag --default: unknown option \"precision.dtyp\"; did you mean \"precision.dtype\"?");
  EXPECT_ERROR(flags({"--default", "run.steps=x"}), ErrorKind::config, "flag --default: run.steps is \"x\", expected");
}

TEST_F(Load, TakesTextThatLooksLikeANumber) {
  EXPECT_EQ(flags({"--run.dir", "0123"}).config.run.dir, "0123");
  EXPECT_EQ(load_config({write("a.yaml", "run: {dir: 1e3}")}, {}).config.run.dir, "1e3");
}

TEST_F(Load, IgnoresAGroupWithoutOptions) {
  EXPECT_NO_THROW(load_config({write("a.yaml", "optim:\n#  clip: 1\n")}, {}));
}

TEST_F(Load, NamesFileLineAndNearestKeyOfAnUnknownKey) {
  const std::string a = write("a.yaml", "optim:\n  clip: 1\n  learning-rat: 3\n");
  EXPECT_ERROR(load_config({a}, {}), ErrorKind::config,
               a + ":3: unknown option \"optim.learning-rat\"; did you mean \"optim.learning-rate\"?");
  EXPECT_ERROR(flags({"--optim.klip", "3"}), ErrorKind::config,
               "flag --optim.klip: unknown option \"optim.klip\"; did you mean \"optim.clip\"?");
  EXPECT_ERROR(
      flags({"--flux-capacitor", "3"}), ErrorKind::config,
      "unknown option \"flux-capacitor\", and none has a similar name; `trireme config options` lists all options");
}

TEST_F(Load, NamesTheDialectThatHasAnUnknownKey) {
  EXPECT_ERROR(flags({"--batch_size=3"}), ErrorKind::config, "it is a key of dialect nanogpt; add --dialect nanogpt");
}

TEST_F(Load, NamesFileLineAndExpectedValueOfAWrongValue) {
  const std::string a = write("a.yaml", "optim:\n  clip: high\n");
  EXPECT_ERROR(load_config({a}, {}), ErrorKind::config,
               a + ":2: optim.clip is \"high\", expected a number from 0 to 1000000000");
  EXPECT_ERROR(flags({"--run.steps", "1.5"}), ErrorKind::config, "--run.steps is 1.5, expected a whole number");
  EXPECT_ERROR(flags({"--optim.clip", "nan"}), ErrorKind::config, "--optim.clip is nan, which is not a finite number");
  EXPECT_ERROR(load_config({write("b.yaml", "optim: {clip: .inf}")}, {}), ErrorKind::config,
               "b.yaml:1: optim.clip is .inf, which is not a finite number");
  EXPECT_ERROR(load_config({write("c.yaml", "optim: {clip: [1]}")}, {}), ErrorKind::config, "optim.clip is a list");
  EXPECT_ERROR(load_config({write("d.yaml", "run: {dir: }")}, {}), ErrorKind::config,
               "run.dir is nothing, expected text");
  EXPECT_ERROR(load_config({write("e.yaml", "optim: 3")}, {}), ErrorKind::config,
               "e.yaml:1: \"optim\" is a group of options");
}

TEST_F(Load, ShortensLongValuesInMessages) {
  try {
    flags({"--run.steps", std::string(10000, 'x')});
    FAIL();
  } catch (const Error& e) {
    EXPECT_LT(std::string(e.what()).size(), 200u);
  }
}

TEST_F(Load, RefusesWordsThatAreNotFlags) {
  EXPECT_ERROR(flags({"--run.steps"}), ErrorKind::usage, "--run.steps needs a value");
  EXPECT_ERROR(flags({"--run.steps", "--run.seed", "3"}), ErrorKind::usage, "--run.steps needs a value");
  EXPECT_ERROR(
      flags({"run.steps=3"}), ErrorKind::usage,
      "\"run.steps=3\" is neither a file nor a flag; flags are written --key value or --key=value; did you mean "
      "--run.steps=3?");
  EXPECT_ERROR(flags({"run.stpes=3"}), ErrorKind::usage, "did you mean --run.steps=3?");
  EXPECT_ERROR(flags({"--run.dir", "\xff"}), ErrorKind::usage, "the value of run.dir is not UTF-8 text");
}

TEST_F(Load, RefusesAnUnknownDialect) {
  EXPECT_ERROR(load_config({}, {}, "nanogtp"), ErrorKind::usage,
               "unknown dialect \"nanogtp\"; known: native, accelerate, intel-nanogpt, nanogpt");
}

TEST_F(Load, RefusesFilesOfTwoDialects) {
  const std::string a = write("a.py", "n_layer = 2\n"), b = write("b.yaml", "trainer_config: {max_iters: 3}\n");
  EXPECT_ERROR(load_config({a, b}, {}), ErrorKind::config, "a.py is in dialect nanogpt, and");
}

TEST(Presets, Load) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/configs")) {
    if (file.is_directory()) continue;  // of other programs
    EXPECT_TRUE(read_text(file.path()).starts_with("# ")) << file.path() << " begins with a line that says what it is";
    EXPECT_NO_THROW(load_config({file.path()}, {"--model.init=scratch"})) << file.path();
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST(SplitWords, DistinguishesFilesFromFlagsAndTheirValues) {
  const ConfigWords words =
      split_words({"a.yaml", "--run.steps", "5", "b.yaml", "--data.verify", "c.yaml", "--log.jsonl", "false",
                   "--dialect", "nanogpt", "--optim.clip=3", "d.yaml", "x.y=3", "--bias", "False"});
  EXPECT_EQ(words.files, (Words{"a.yaml", "b.yaml", "c.yaml", "d.yaml"}));
  EXPECT_EQ(words.flags, (Words{"--run.steps", "5", "--data.verify", "--log.jsonl", "false", "--optim.clip=3", "x.y=3",
                                "--bias", "False"}));
  EXPECT_EQ(words.dialect, "nanogpt");
  EXPECT_EQ(split_words({"--dialect=intel-nanogpt"}).dialect, "intel-nanogpt");
  EXPECT_ERROR(split_words({"-q", "2"}), ErrorKind::usage,
               "unknown flag -q; flags are written --key value or --key=value");
  EXPECT_ERROR(split_words({"-n", "2"}), ErrorKind::config,
               "-n 2 is not supported; instead: `mpirun -n N trireme train ...`");
  EXPECT_ERROR(split_words({"--dialect"}), ErrorKind::usage, "--dialect needs a name");
}

TEST(SplitWords, FindsFilesInTheFolderAndWithoutTheirEnding) {
  const TemporaryFolder folder;
  write_text(folder / "125M.yml", "{}");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"125M", "-d", folder.path()}, {"--conf_dir=" + folder.path(), "125M.yml"}})
    EXPECT_EQ(split_words(words).files, std::vector<std::string>{folder / "125M.yml"});
  EXPECT_EQ(split_words({folder / "125M"}).files, std::vector<std::string>{folder / "125M.yml"});
  EXPECT_TRUE(split_words({"a.yml", "--verbose"}).verbose);
  EXPECT_ERROR(split_words({"-d", "data"}), ErrorKind::usage,
               "-d data is the folder of the configuration files, but no file is given; for the folder of the data use "
               "--data.dir");
}

}  // namespace
}  // namespace trireme
