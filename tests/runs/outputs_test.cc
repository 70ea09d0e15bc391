// Every option that names an output file, with each kind of thing that its name may stand for.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Outputs : public TrainingFixture {
 protected:
  struct Option {
    std::string name;
    std::vector<std::string> words;  ///< before the name of the output
    std::string content;             ///< a part of it
  };

  std::vector<Option> options() {
    EXPECT_EQ(run(trireme_command(train("run", {"--run.steps", "3"}))).code, 0);
    return {
        {"config wizard", {"config", "wizard", "--defaults", "--output"}, "num_machines"},
        {"cluster init",
         {"cluster", "init", "--provider", "hosts", "--nodes", "2", "--hosts", "h1,h2", "--output"},
         "provider"},
        {"slurm", {"slurm", "--nodes", "1", "--write", kOut, "--", "train", path("config.yaml")}, "#SBATCH"},
        {"plan --json",
         {"plan", path("config.yaml"), "--node", "a100-40gb-ethernet", "--ranks-per-node", "2", "--json"},
         "{"},
        {"plan --trace",
         {"plan", path("config.yaml"), "--node", "a100-40gb-ethernet", "--ranks-per-node", "2", "--simulate",
          "--trace"},
         "traceEvents"},
        {"report", {"report", path("run"), "--output"}, "<html"},
        {"log.metrics-file", train("run", {"--run.steps", "3", "--log.metrics-file"}), "trireme_"},
        {"bench generate",
         {"bench", "generate", "--preset", "opt-8m", "--prompt", "4", "--tokens", "4", "--threads", "1", "--json"},
         "{"},
    };
  }

  /// Runs the command with this name of its output; the shell gives it `more`, such as a redirection.
  static Outcome write(const Option& option, const std::string& output, const std::string& more = "") {
    std::vector<std::string> words = option.words;
    if (const auto place = std::ranges::find(words, kOut); place != words.end())
      *place = output;
    else
      words.push_back(output);
    std::string line;
    for (const std::string& word : trireme_command(words)) line += "'" + word + "' ";
    Outcome outcome = run({"sh", "-c", line + more});
    EXPECT_EQ(outcome.code, 0) << option.name << " " << output << "\n" << outcome.output;
    return outcome;
  }

  static constexpr const char* kOut = "OUT";
};

TEST_F(Outputs, OfEveryOptionFollowLinksAndWriteIntoWhatIsNoFile) {
  fs::create_directory(path("there"));
  for (const Option& option : options()) {
    SCOPED_TRACE(option.name);
    // A link's target, which may be missing yet, is written; the link stays.
    for (const char* target : {"there/old", "there/new"}) {
      fs::remove(path("link"));
      fs::remove(path(target));
      if (std::string_view(target).ends_with("old") && option.name != "cluster init") write_text(path(target), "old");
      fs::create_symlink(target, path("link"));
      write(option, path("link"));
      EXPECT_TRUE(fs::is_symlink(path("link")));
      EXPECT_THAT(read_text(path(target)), HasSubstr(option.content));
    }
    // A device stays one, also behind a link.
    fs::remove(path("link"));
    fs::create_symlink("/dev/null", path("link"));
    write(option, path("link"));
    EXPECT_TRUE(fs::is_symlink(path("link")));
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
    // A pipe's reader gets the bytes.
    fs::remove(path("pipe"));
    ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    std::string got;
    if (option.name != "log.metrics-file") {  // which writes again and again, each time as a whole
      std::thread reader([&] { got = run({"cat", path("pipe")}).output; });
      write(option, path("pipe"));
      reader.join();
      EXPECT_TRUE(fs::is_fifo(path("pipe")));
      EXPECT_THAT(got, HasSubstr(option.content));
    }
    // Standard output: a file that the shell has opened, which goes on after it, and a pipe.
    write(option, "/dev/stdout", "> '" + path("printed") + "'; echo end >> '" + path("printed") + "'");
    EXPECT_THAT(read_text(path("printed")), HasSubstr(option.content));
    write(option, "/dev/stdout", "| cat > '" + path("printed") + "'");
    EXPECT_THAT(read_text(path("printed")), HasSubstr(option.content));
  }
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  for (const auto& item : fs::directory_iterator(path("there")))
    EXPECT_THAT(item.path().filename().string(), ::testing::AnyOf("old", "new")) << "nothing temporary is left";
}

TEST_F(Outputs, AMetricsFileThatIsAPipeKeepsNoStepWaiting) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const Outcome outcome = run(trireme_command(train("run", {"--run.steps", "5", "--log.metrics-file", path("pipe")})));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("is a pipe that no program reads"));
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
}

TEST_F(Outputs, AReaderThatEndsEarlyEndsTheCommandAsItWouldAnother) {
  const std::string line = "'" + trireme_path() + "' config options | head -n 1 >/dev/null; echo ${PIPESTATUS[0]}";
  const Outcome outcome = run({"bash", "-c", line});
  EXPECT_THAT(outcome.output, HasSubstr("141"));
  EXPECT_EQ(outcome.output.find("error"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace trireme
