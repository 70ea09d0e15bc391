// `trireme prepare` and `trireme data` as scripts call them: pipes, archives, large input, kills.

#include <gmock/gmock.h>

#include <filesystem>

#include "base/text.h"
#include "tests/runs/program.h"
#include "tests/support/archives.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

/// Waits until a preparation has saved its state, which it first does a second after it began. Once ids have been
/// written it pauses for that long, so that it cannot end before.
bool wait_for_state(Program& program, const fs::path& folder) {
  const bool begun = program.wait_for([&](const std::string&) {
    std::error_code absent;
    for (fs::directory_iterator file(folder, absent), end; file != end; file.increment(absent)) {
      if (file->file_size(absent) >= 1'000'000) return true;
    }
    return false;
  });
  kill(program.pid(), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  kill(program.pid(), SIGCONT);
  return begun && program.wait_for([&](const std::string&) { return fs::exists(folder / "state.json"); });
}

class PrepareRuns : public testing::Test {
 protected:
  PrepareRuns() {
    for (int i = 0; lines_.size() < 400'000; ++i)
      lines_ += fmt::format("{{\"text\": \"the cat number {} sat on the mat, and the dog {} did not\", \"n\": {}}}\n",
                            i, i * 7919 % 1000, i);
    write_text(folder_ / "a.jsonl", lines_);
    const Outcome trained = run(trireme_command(
        {"tokenizer", "train", "--input", folder_ / "a.jsonl", "--vocab-size", "600", "--output", folder_ / "tok"}));
    EXPECT_EQ(trained.code, 0) << trained.output;
  }
  std::vector<std::string> prepare(const std::string& input, const std::string& output,
                                   std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"prepare",        "--input",        input,
                                      "--tokenizer",    folder_ / "tok",  "--output",
                                      folder_ / output, "--val-fraction", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return trireme_command(words);
  }
  std::string train(const std::string& output) const { return read_text(folder_ / (output + "/train.bin")); }

  TemporaryFolder folder_;
  std::string lines_;
};

TEST_F(PrepareRuns, TakesPipesAndArchivesAsItTakesFiles) {
  ASSERT_EQ(run(prepare(folder_ / "a.jsonl", "plain")).code, 0);
  write_text(folder_ / "b.tar.gz", gzip(tar_of({{"x/a.jsonl.zst", zstd(lines_)}, {"notes.md", "-"}})));
  const Outcome archive = run(prepare(folder_ / "b.tar.gz", "archive"));
  ASSERT_EQ(archive.code, 0) << archive.output;
  EXPECT_THAT(archive.output, HasSubstr("skipped 1 of its files, which are neither text nor jsonl"));
  EXPECT_EQ(train("archive"), train("plain"));

  const auto piped = [&](const std::string& output, const std::string& flags) {
    const std::string command =
        fmt::format("cat {0}/a.jsonl | {1} prepare --input - --tokenizer {0}/tok --output {0}/{2} {3}", folder_.path(),
                    trireme_path(), output, flags);
    const Outcome outcome = run({"sh", "-c", command});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  };
  piped("pipe", "--val-fraction 0");
  EXPECT_EQ(train("pipe"), train("plain"));
  piped("pipe-text", "--input-format txt");
  const Outcome fifo = run({"bash", "-c",
                            fmt::format("{1} prepare --input <(cat {0}/a.jsonl) --input-format txt --tokenizer {0}/tok "
                                        "--output {0}/fifo",
                                        folder_.path(), trireme_path())});
  EXPECT_EQ(fifo.code, 0) << fifo.output;
  fs::copy(folder_ / "a.jsonl", folder_ / "a.txt");
  ASSERT_EQ(run(trireme_command({"prepare", "--input", folder_ / "a.txt", "--tokenizer", folder_ / "tok", "--output",
                                 folder_ / "text"}))
                .code,
            0);
  EXPECT_EQ(train("pipe-text"), train("text"));
  EXPECT_EQ(train("fifo"), train("text"));
  EXPECT_FALSE(fs::exists(folder_ / "pipe-text/.prepare"));
}

TEST_F(PrepareRuns, TakesTheFirstDocuments) {
  ASSERT_EQ(run(prepare(folder_ / "a.jsonl", "all")).code, 0);
  const Outcome some = run(prepare(folder_ / "a.jsonl", "some", {"--max-documents", "1000"}));
  ASSERT_EQ(some.code, 0) << some.output;
  EXPECT_THAT(some.output, HasSubstr("1000 documents"));
  const std::string first = train("some");
  EXPECT_EQ(first, train("all").substr(0, first.size()));
}

TEST_F(PrepareRuns, TheValidationPartOfASingleText) {
  write_text(folder_ / "a.txt", lines_);
  const auto text = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"prepare",       "--input",  folder_ / "a.txt", "--tokenizer",
                                      folder_ / "tok", "--output", folder_ / "text"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return train("text");
  };
  const std::string by_default = text({}), half = text({"--train-fraction", "0.5"});
  EXPECT_EQ(text({"--val-fraction", "0.1"}), by_default);
  EXPECT_EQ(text({"--val-fraction", "0.5"}), half);
  EXPECT_TRUE(fs::exists(folder_ / "text/val.bin"));
  EXPECT_GT(text({"--val-fraction", "0"}).size(), by_default.size());
  EXPECT_FALSE(fs::exists(folder_ / "text/val.bin"));
}

TEST_F(PrepareRuns, RefusesFlagsThatCannotApply) {
  write_text(folder_ / "a.txt", lines_);
  const auto refusal = [&](const std::string& input, std::vector<std::string> more) {
    std::vector<std::string> words = {"prepare",       "--input",  folder_ / input, "--tokenizer",
                                      folder_ / "tok", "--output", folder_ / "out"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    return outcome.output;
  };
  EXPECT_THAT(refusal("a.txt", {"--val-fraction", "1.5"}),
              HasSubstr("--val-fraction is 1.5, expected a number from 0"));
  EXPECT_THAT(refusal("a.txt", {"--val-fraction", "0.1", "--train-fraction", "0.9"}),
              HasSubstr("--train-fraction and --val-fraction both set the split"));
  EXPECT_THAT(refusal("a.txt", {"--order", "openwebtext"}), HasSubstr("--order is for several documents, but "));
  EXPECT_THAT(refusal("a.txt", {"--end-of-text", "<nope>"}), HasSubstr("--end-of-text is for several documents"));
  EXPECT_THAT(refusal("a.txt", {"--recipe", "openwebtext"}), HasSubstr("--recipe is for several documents"));
  EXPECT_THAT(refusal("a.txt", {"--json-keys", "body"}), HasSubstr("--json-keys names fields of jsonl, but "));
  EXPECT_THAT(refusal("a.jsonl", {"--max-documents", "-1"}),
              HasSubstr("--max-documents: -1 given, expected a whole number from 0 to "));
  EXPECT_THAT(refusal("a.jsonl", {"--train-fraction", "0.5"}), HasSubstr("--train-fraction is for a single .txt file"));
  EXPECT_THAT(refusal("a.jsonl", {"--recipe", "enron", "--format", "nanogpt"}),
              HasSubstr("--recipe enron makes megatron files; remove --format nanogpt"));
  EXPECT_THAT(refusal("a.jsonl", {"--recipe", "openwebtext", "--format", "megatron"}),
              HasSubstr("--recipe openwebtext makes nanogpt files"));
  EXPECT_THAT(refusal("a.jsonl", {"--recipe", "openwebtext", "--order", "input"}), HasSubstr("remove --order input"));
  EXPECT_THAT(refusal("a.jsonl", {"--format", "megatron", "--end-of-text", "x"}),
              HasSubstr("--end-of-text needs --append-eod"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(PrepareRuns, KnowsTheRecipesLayouts) {
  std::string many;
  while (std::count(many.begin(), many.end(), '\n') < 11'000) many += lines_;
  write_text(folder_ / "many.jsonl", many);
  const auto openwebtext = [&](const std::string& output, std::vector<std::string> more) {
    std::vector<std::string> words = {
        "prepare",     "--recipe",      "openwebtext", "--input",       folder_ / "many.jsonl",
        "--tokenizer", folder_ / "tok", "--output",    folder_ / output};
    words.insert(words.end(), more.begin(), more.end());
    return run(trireme_command(words));
  };
  EXPECT_THAT(openwebtext("sample", {}).output, HasSubstr("(9995 documents)"));
  EXPECT_THAT(read_text(folder_ / "sample/train.bin.json"), HasSubstr("both in the order of the permutation"));
  const Outcome full = openwebtext("full", {"--full"});
  EXPECT_THAT(full.output, Not(HasSubstr("10000 documents")));
  EXPECT_EQ(full.code, 0) << full.output;

  const auto neox = [&](const std::string& name) {
    return run(
        trireme_command({"prepare", "--recipe", name, "--tokenizer", folder_ / "tok", "--output", folder_ / "data"}));
  };
  EXPECT_THAT(neox("enron").output, HasSubstr("data/enron does not exist; put the files of enron there"));
  EXPECT_THAT(neox("enrom").output, HasSubstr("unknown --recipe enrom; known: openwebtext, enron"));
  fs::create_directories(folder_ / "data/enron");
  write_text(folder_ / "data/enron/enron_emails.jsonl.zst", zstd(lines_));
  EXPECT_EQ(neox("enron").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "data/enron/enron_text_document.idx"));
  const std::string once = read_text(folder_ / "data/enron/enron_text_document.bin");
  const Outcome twice = neox("enron");  // its output is in the folder that it reads
  EXPECT_EQ(twice.code, 0) << twice.output;
  EXPECT_THAT(twice.output, Not(HasSubstr("skipped")));
  EXPECT_EQ(read_text(folder_ / "data/enron/enron_text_document.bin"), once);
  fs::create_directories(folder_ / "data/pile_00");
  write_text(folder_ / "data/pile_00/00.jsonl.zst", zstd(lines_));
  EXPECT_EQ(neox("pile_subset").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "data/pile_00/pile_00_text_document.bin"));
}

/// 1 GB of jsonl: memory stays small, and a killed run resumes and writes the same bytes.
TEST_F(PrepareRuns, LargeInputInLittleMemoryAlsoWhenKilled) {
  ASSERT_EQ(run(prepare(folder_ / "a.jsonl", "once")).code, 0);
  const size_t repeats = 1'000'000'000 / lines_.size() + 1;
  std::string members, block = gzip(lines_);
  for (size_t i = 0; i < repeats; ++i) members += block;  // gzip allows members one after the other
  write_text(folder_ / "large.jsonl.gz", members);

  const auto command = prepare(folder_ / "large.jsonl.gz", "large", {"--threads", "2"});
  {
    Program killed(command);
    ASSERT_TRUE(wait_for_state(killed, folder_ / "large/.prepare")) << killed.output();
    const Outcome second = run(command);
    EXPECT_EQ(second.code, 1) << second.output;
    EXPECT_THAT(second.output, HasSubstr("another process prepares data in"));
    kill(killed.pid(), SIGKILL);
    EXPECT_EQ(killed.finish().code, 128 + SIGKILL);
  }
  EXPECT_FALSE(fs::exists(folder_ / "large/train.bin"));

  const Outcome outcome = run(command);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("resuming where an earlier run stopped"));
  const auto documents = static_cast<size_t>(std::count(lines_.begin(), lines_.end(), '\n')) * repeats;
  if (kMemoryCounts) {
    EXPECT_LT(outcome.peak_rss, 100'000'000 + 32 * documents);
  }
  EXPECT_FALSE(fs::exists(folder_ / "large/.prepare"));

  const std::string once = train("once");
  const MappedFile large(folder_ / "large/train.bin");
  ASSERT_EQ(large.bytes().size(), once.size() * repeats);
  size_t different = 0;
  for (size_t i = 0; i < repeats; ++i) different += large.text().substr(i * once.size(), once.size()) != once;
  EXPECT_EQ(different, 0u);
}

/// Where documents are divided, encoded data is flushed to the disk only now and then: a state from since the last
/// reboot is resumed, an older one is not trusted.
TEST_F(PrepareRuns, AfterARestartOfTheMachineItTrustsOnlyWhatWasFlushed) {
  const size_t repeats = 700;
  std::string members, block = zstd(lines_);
  for (size_t i = 0; i < repeats; ++i) members += block;
  write_text(folder_ / "large.jsonl.zst", members);
  const std::vector<std::string> command =
      trireme_command({"prepare", "--input", folder_ / "large.jsonl.zst", "--tokenizer", folder_ / "tok", "--output",
                       folder_ / "large", "--threads", "1", "--val-fraction", "0.01"});
  const std::string state = folder_ / "large/.prepare/state.json";
  std::vector<std::string> results;
  for (const bool restarted : {false, true}) {
    Program stopped(command);
    ASSERT_TRUE(wait_for_state(stopped, folder_ / "large/.prepare")) << stopped.output();
    kill(stopped.pid(), SIGTERM);
    EXPECT_EQ(stopped.finish().code, 75);
    if (restarted) {
      std::string text = read_text(state);
      const size_t id = text.find("\"boot_id\": \"") + 12;
      ASSERT_LT(id, text.size());
      text.replace(id, 4, "none");
      write_text(state, text);
    }
    const Outcome outcome = run(command);
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(outcome.output.find("resuming where") == std::string::npos, restarted) << outcome.output;
    results.push_back(train("large") + read_text(folder_ / "large/val.bin"));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_GT(results[0].size(), 10'000'000u);
}

/// Where documents are counted first, both files grow side by side.
TEST_F(PrepareRuns, KilledWhileBothFilesGrowItResumesToTheSameBytes) {
  std::string large;
  for (int i = 0; i < 500; ++i) large += lines_;
  write_text(folder_ / "large.jsonl", large);
  const auto command = [&](const std::string& output) {
    return trireme_command({"prepare", "--input", folder_ / "large.jsonl", "--tokenizer", folder_ / "tok", "--output",
                            folder_ / output, "--threads", "1", "--val-fraction", "0.3"});
  };
  {
    Program killed(command("killed"));
    ASSERT_TRUE(wait_for_state(killed, folder_ / "killed/.prepare")) << killed.output();
    kill(killed.pid(), SIGKILL);
    EXPECT_EQ(killed.finish().code, 128 + SIGKILL);
  }
  const Outcome second = run(command("killed")), whole = run(command("whole"));
  ASSERT_EQ(second.code, 0) << second.output;
  ASSERT_EQ(whole.code, 0) << whole.output;
  EXPECT_THAT(second.output, HasSubstr("resuming where an earlier run stopped"));
  for (const char* name : {"train.bin", "val.bin", "train.bin.json", "val.bin.json"})
    EXPECT_TRUE(read_text(folder_ / (std::string("killed/") + name)) ==
                read_text(folder_ / (std::string("whole/") + name)))
        << name;
}

TEST_F(PrepareRuns, StoppedByASignalItResumesToo) {
  const size_t repeats = 700;
  std::string members, block = zstd(lines_);
  for (size_t i = 0; i < repeats; ++i) members += block;
  write_text(folder_ / "large.jsonl.zst", members);
  const std::vector<std::string> command =
      trireme_command({"prepare", "--format", "megatron", "--input", folder_ / "large.jsonl.zst", "--tokenizer",
                       folder_ / "tok", "--append-eod", "--output", folder_ / "x", "--threads", "1"});
  Program stopped(command);
  ASSERT_TRUE(wait_for_state(stopped, folder_ / ".x.prepare")) << stopped.output();
  terminate_twice(stopped);
  const Outcome first = stopped.finish();
  EXPECT_EQ(first.code, 75) << first.output;
  EXPECT_THAT(first.output, HasSubstr("stopped before the end; the same command resumes from there"));
  EXPECT_FALSE(fs::exists(folder_ / "x_text_document.bin"));
  const Outcome second = run(command);
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("resuming where"));
  ASSERT_EQ(run(prepare(folder_ / "a.jsonl", "once")).code, 0);
  const std::string once = train("once");
  const MappedFile large(folder_ / "x_text_document.bin");
  ASSERT_EQ(large.bytes().size(), once.size() * repeats);
  EXPECT_EQ(large.text().substr(once.size() * (repeats / 2), once.size()), once);
}

}  // namespace
}  // namespace trireme
