// `trireme sample` at its edge: text of every decoder, ids without a token, the model's own settings, GPT-NeoX's files.

#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_text.h"
#include "base/rng.h"
#include "checkpoint/huggingface/huggingface.h"
#include "tests/runs/training_fixture.h"
#include "tests/support/paths.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kIds = 24;

/// A word-level tokenizer over some of the model's ids; its vocabulary ends below that of the model and has a hole.
std::string tokenizer_of(const std::string& decoder, const std::string& pre_tokenizer = "null") {
  Json vocabulary;
  const std::vector<std::string> tokens = {"▁the", "▁cat",   "▁sat",   "s",      "##s", "dog</w>", "do", "not",  ".",
                                           "n't",  "<0xE2>", "<0x82>", "<0xAC>", "ðŁ",  "ĺĢ",      "▁",  "<unk>"};
  for (size_t i = 0; i < tokens.size(); ++i) vocabulary[tokens[i]] = i < 16 ? i : i + 2;
  return R"({"version": "1.0", "added_tokens": [{"id": 18, "content": "<unk>", "special": true}], "pre_tokenizer": )" +
         pre_tokenizer + R"(, "decoder": )" + decoder +
         R"(, "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": )" + dump_json(vocabulary) + "}}";
}

const std::string kMetaspace =
    R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})";

class SampleSettings : public ::testing::Test {
 protected:
  /// A Hugging Face folder of a random model, whose texts have all kinds of tokens.
  void SetUp() override {
    Spec spec;
    spec.vocabulary = spec.vocabulary_rows = kIds;
    spec.context = 32;
    spec.layers = 1;
    spec.heads = 2;
    spec.width = 16;
    spec.inner_width = 32;
    const ParameterTable table(spec);
    TrainingState state(table, DType::f32, false);
    uint64_t key = 7;
    for (const Parameter& p : table.all()) {
      std::vector<float> values(static_cast<size_t>(p.stored_shape.count()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(0.5 * normal_at(mix_key(key, 1), i));
      state.write_master(p, values);
      ++key;
    }
    export_huggingface(path("model"), spec, table, state, tokenizer_of(kMetaspace, kMetaspace), DType::f32);
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  Outcome sample(std::vector<std::string> flags, const std::string& model = "model") const {
    flags.insert(flags.begin(), {"sample", "--threads", "1"});
    if (!model.empty()) flags.insert(flags.end(), {"--model", path(model)});
    return run(trireme_command(flags));
  }
  static std::vector<Json> lines(const std::string& output) {
    std::vector<Json> out;
    std::istringstream in(output);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("{")) out.push_back(parse_json(line, "sample"));
    }
    return out;
  }
  Json config() const { return read_json(path("model/config.json")); }
  void set_config(const Json& changes) const {
    Json changed = config();
    changed.update(changes);
    write_text(path("model/config.json"), dump_json(changed));
  }
  void set_generation(const Json& settings) const {
    write_text(path("model/generation_config.json"), dump_json(settings));
  }
  /// The greedy continuation of "the", whose tokens are words.
  std::vector<std::string> greedy_words(int count) const {
    write_text(path("model/tokenizer.json"), words_of_ids());
    const Outcome outcome = sample(
        {"--prompt", "w0", "--greedy", "--no-stop-at-end", "--jsonl", "--max-new-tokens", std::to_string(count)});
    std::istringstream in(lines(outcome.output).at(0).at("text").get<std::string>());
    return {std::istream_iterator<std::string>(in), std::istream_iterator<std::string>()};
  }
  /// Token wN has id N.
  static std::string words_of_ids() {
    Json vocabulary;
    for (int64_t id = 0; id < kIds; ++id) vocabulary[fmt::format("w{}", id)] = id;
    return R"({"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": {"type": "WordLevel", "unk_token": "w0", "vocab": )" +
           dump_json(vocabulary) + "}}";
  }

  TemporaryFolder folder_;
};

TEST_F(SampleSettings, TextOfEveryDecoderIsThatOfAllIdsTogether) {
  for (const char* decoder : {
           "null",
           R"({"type": "ByteLevel"})",
           R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})",
           R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"})",
           R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})",
           R"({"type": "WordPiece"})",
           R"({"type": "BPEDecoder"})",
           R"({"type": "CTC"})",
           R"({"type": "Strip", "content": "s", "start": 1, "stop": 1})",
           R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
              {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})",
       }) {
    SCOPED_TRACE(decoder);
    const std::string json = tokenizer_of(decoder, kMetaspace);
    write_text(path("model/tokenizer.json"), json);
    const auto tokenizer = tokenizer_from_json(json, "t.json");
    for (const char* seed : {"1", "2", "3"}) {
      const std::vector<std::string> flags = {"--prompt", "the cat", "--temperature",    "3",
                                              "--seed",   seed,      "--max-new-tokens", "12"};
      const Outcome text = sample(flags);
      ASSERT_EQ(text.code, 0) << text.output;
      std::vector<std::string> json_flags = flags;
      json_flags.emplace_back("--jsonl");
      const std::string added = lines(sample(json_flags).output).at(0).at("text");
      // Ids of the new text: the draws are the same for a tokenizer that names each id.
      Json names = parse_json(json, "t.json");
      names["decoder"] = nullptr;
      write_text(path("model/tokenizer.json"), dump_json(names));
      const std::string spelled = lines(sample(json_flags).output).at(0).at("text");
      write_text(path("model/tokenizer.json"), json);
      std::vector<TokenId> ids = tokenizer->encode("the cat").ids;
      const std::string before = tokenizer->decode(ids);
      std::istringstream in(spelled);
      for (std::string token; in >> token;) ids.push_back(*tokenizer->token_to_id(token));
      const std::string all = tokenizer->decode(ids);
      const auto same =
          static_cast<size_t>(std::mismatch(all.begin(), all.end(), before.begin(), before.end()).first - all.begin());
      EXPECT_EQ(dump_json(Json(all.substr(same))), dump_json(Json(added)));
      EXPECT_THAT(text.output, HasSubstr("the cat" + all.substr(same)));
    }
  }
}

TEST_F(SampleSettings, IdsWithoutATokenAreNeverDrawn) {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--greedy"},
                                                {"--temperature", "9"},
                                                {"--temperature", "9", "--top-k", "23"},
                                                {"--temperature", "9", "--top-p", "0.999"},
                                                {"--temperature", "0"}}) {
    std::vector<std::string> all = {"--prompt",         "the", "--num-samples", "5",
                                    "--max-new-tokens", "30",  "--output",      path("out.jsonl")};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = sample(all);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(lines(read_text(path("out.jsonl"))).size(), 5u);
  }
}

TEST_F(SampleSettings, WhatWasWrittenStaysWhenASampleIsStopped) {
  write_text(path("old.jsonl"), "old\n");
  const Outcome outcome = run({"timeout", "--foreground", "-s", "TERM", "3", trireme_path(), "sample", "--threads", "1",
                               "--model", path("model"), "--prompt", "the", "--num-samples", "1000000",
                               "--max-new-tokens", "3", "--output", path("old.jsonl")});
  EXPECT_THAT(outcome.output, HasSubstr("the finished samples are in " + path("old.jsonl")));
  EXPECT_THAT(outcome.output, HasSubstr("stopped by a signal"));
  const std::string written = read_text(path("old.jsonl"));
  EXPECT_THAT(written, Not(HasSubstr("old")));
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(written, '\n')), lines(written).size());
  EXPECT_GT(lines(written).size(), 0u);
}

TEST_F(SampleSettings, TwoSignalsInOneInstantAreOneRequest) {
  Program program(
      trireme_command({"sample", "--threads", "1", "--model", path("model"), "--prompt", "the", "--num-samples",
                       "1000000", "--max-new-tokens", "3", "--output", path("out.jsonl")}));
  const std::string partial = path("out.jsonl.partial");
  ASSERT_TRUE(program.wait_for([&](const std::string&) {
    std::error_code absent;
    return std::filesystem::file_size(partial, absent) > 0 && !absent;
  }));
  terminate_twice(program);
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 75) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("stopped by a signal"));
  EXPECT_FALSE(std::filesystem::exists(partial));
  EXPECT_GT(lines(read_text(path("out.jsonl"))).size(), 0u);
}

TEST_F(SampleSettings, TextsEndAtTheTokensThatTheModelsFolderNames) {
  const std::vector<std::string> words = greedy_words(12);
  const auto id = [&](size_t i) { return std::stoi(words.at(i).substr(1)); };
  const auto length = [&](const std::vector<std::string>& flags = {}) {
    std::vector<std::string> all = {"--prompt", "w0", "--greedy", "--jsonl", "--max-new-tokens", "12"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = sample(all);
    return lines(outcome.output).at(0).at("length").get<int64_t>();
  };
  const auto first = [&](std::initializer_list<int> ends) {
    for (size_t i = 0; i < words.size(); ++i) {
      if (std::ranges::find(ends, id(i)) != ends.end()) return static_cast<int64_t>(i);
    }
    return int64_t{12};
  };
  std::filesystem::remove(path("model/generation_config.json"));
  set_config({{"eos_token_id", id(3)}});
  EXPECT_EQ(length(), first({id(3)}));
  set_config({{"eos_token_id", {id(3), id(2)}}});
  EXPECT_EQ(length(), first({id(3), id(2)}));
  EXPECT_EQ(length({"--no-stop-at-end"}), 12);
  set_generation({{"eos_token_id", id(1)}});
  EXPECT_EQ(length(), first({id(1)}));
  set_generation({{"eos_token_id", {99, id(4)}}});
  EXPECT_EQ(length(), first({id(4)}));
  set_generation({{"temperature", 0.5}});  // config.json's applies if the file lacks it
  EXPECT_EQ(length(), first({id(3), id(2)}));
  set_generation({{"top_h", 0.4}, {"use_cache", true}, {"_from_model_config", true}, {"transformers_version", "5.0"}});
  EXPECT_THAT(sample({"--prompt", "w0"}).output,
              HasSubstr("settings of the model that are not supported and have no effect here: top_h 0.4\n"));
  set_generation({{"eos_token_id", "</s>"}});
  EXPECT_THAT(
      sample({"--prompt", "w0"}).output,
      HasSubstr("generation_config.json: \"eos_token_id\" is \"</s>\", expected a token's id or a list of ids"));
}

TEST_F(SampleSettings, SettingsOfTheModelAreDefaultsThatFlagsOverride) {
  set_generation({{"do_sample", true},
                  {"temperature", 0.7},
                  {"top_p", 0.9},
                  {"top_k", 5},
                  {"max_new_tokens", 4},
                  {"repetition_penalty", 1.1},
                  {"num_beams", 4},
                  {"no_repeat_ngram_size", 0}});
  const Outcome outcome = sample({"--prompt", "the", "--jsonl", "--no-stop-at-end"});
  EXPECT_THAT(outcome.output, HasSubstr("using the model's settings: temperature 0.7, top-k 5, top-p 0.9, "
                                        "repetition-penalty 1.1, max-new-tokens 4; flags override them"));
  EXPECT_THAT(outcome.output, HasSubstr("have no effect here: num_beams 4\n"));
  EXPECT_EQ(lines(outcome.output).at(0).at("length"), 4);
  const Outcome flags =
      sample({"--prompt", "the", "--jsonl", "--no-stop-at-end", "--max-new-tokens", "7", "--top-k", "0"});
  EXPECT_EQ(lines(flags.output).at(0).at("length"), 7);
  EXPECT_THAT(flags.output,
              HasSubstr("using the model's settings: temperature 0.7, top-p 0.9, repetition-penalty 1.1; flags"));
  set_generation({{"do_sample", false}, {"temperature", 0.7}});
  EXPECT_THAT(sample({"--prompt", "the"}).output, HasSubstr("using the model's settings: greedy; flags"));
  EXPECT_THAT(sample({"--prompt", "the", "--temperature", "1"}).output, Not(HasSubstr("using the model's settings")));
  set_generation({{"max_length", 9}});
  EXPECT_EQ(lines(sample({"--prompt", "the cat", "--jsonl", "--no-stop-at-end"}).output).at(0).at("length"), 7);
  set_generation({{"top_p", 1.5}});
  const Outcome wrong = sample({"--prompt", "the"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.output, HasSubstr("generation_config.json: \"top_p\" is 1.5, expected a number from"));
}

TEST_F(SampleSettings, SettingsOfTheModelSurviveImportTrainingAndExport) {
  const Json generation = {{"bos_token_id", 1}, {"eos_token_id", {2, 5}}, {"pad_token_id", 3},
                           {"do_sample", true}, {"temperature", 0.6},     {"transformers_version", "4.40.0"}};
  set_generation(generation);
  set_config({{"bos_token_id", 1}, {"eos_token_id", {2, 5}}, {"pad_token_id", 3}});
  const std::map<std::string, std::string> beside = {
      {"tokenizer_config.json", "{ \"tokenizer_class\": \"LlamaTokenizer\",\n\"add_bos_token\": true}"},
      {"special_tokens_map.json", "{\"eos_token\":\"<unk>\"}\n"},
      {"chat_template.jinja", "{% for m in messages %}{{ m.content }}\n\u00e9{% endfor %}"},
      {"additional_chat_templates/tool_use.jinja", "{{ tools }}\n"},
      {"additional_chat_templates/rag.jinja", "{{ documents }}"}};
  std::filesystem::create_directory(path("model/additional_chat_templates"));
  write_text(path("model/additional_chat_templates/notes.txt"), "not a template");
  for (const auto& [name, text] : beside) write_text(path("model/" + name), text);
  write_text(path("text.jsonl"), "{\"text\": \"the cat sat the cat sat the cat sat the cat sat\"}\n");
  const auto done = [](const std::vector<std::string>& words) {
    const Outcome outcome = run(trireme_command(words));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
  };
  done({"prepare", "--input", path("text.jsonl"), "--tokenizer", path("model"), "--end-of-text", "<unk>", "--output",
        path("data"), "--val-fraction", "0"});
  const std::vector<std::string> train = {
      "train",     "--model.init",     path("model"), "--data.dir",       path("data"), "--data.validation",
      "",          "--batch.global",   "1",           "--batch.sequence", "4",          "--run.dir",
      path("run"), "--launch.threads", "1",           "--run.steps"};
  std::vector<std::string> first = train, second = train;
  first.emplace_back("2");
  second.emplace_back("3");
  done(first);
  done(second);  // resumed
  done({"export", "--model", path("run"), "--output", path("out")});
  done({"export", "--model", path("model"), "--output", path("copy")});
  for (const char* folder : {"out", "copy"}) {
    EXPECT_EQ(read_json(path(folder) + "/generation_config.json"), generation) << folder;
    const Json written = read_json(path(folder) + "/config.json");
    EXPECT_EQ(written.at("eos_token_id"), (Json{2, 5})) << folder;
    EXPECT_EQ(written.at("bos_token_id"), 1) << folder;
    EXPECT_EQ(written.at("pad_token_id"), 3) << folder;
    for (const auto& [name, text] : beside) EXPECT_EQ(read_text(path(folder) + "/" + name), text) << folder;
    EXPECT_FALSE(std::filesystem::exists(path(folder) + "/additional_chat_templates/notes.txt"));
  }
  EXPECT_THAT(sample({"--prompt", "the"}, "run").output,
              HasSubstr("using the model's settings: temperature 0.6, texts end at 2, 5"));
}

TEST_F(SampleSettings, GptNeoxsTextGenerationFilesRun) {
  write_text(path("a.yml"), "{\"load\": \"" + path("model") + "\", \"num-layers\": 1, \"train-iters\": 10}\n");
  write_text(path("gen.yml"),
             "{\"text-gen-type\": \"unconditional\", \"maximum_tokens\": 5, \"temperature\": 1.0, \"top_p\": 0.0, "
             "\"top_k\": 0, \"recompute\": false, \"num-samples\": 3, \"sample-output-file\": \"" +
                 path("samples.txt") + "\"}\n");
  set_config({{"bos_token_id", 0}});
  const Outcome all = sample({"a.yml", "gen", "-d", folder_.path(), "--no-stop-at-end"}, "");
  ASSERT_EQ(all.code, 0) << all.output;
  const auto written = lines(read_text(path("samples.txt")));
  ASSERT_EQ(written.size(), 3u);
  for (const Json& record : written) {
    EXPECT_EQ(record.at("context"), "");
    EXPECT_EQ(record.at("length"), 5);
  }
  EXPECT_NE(written[0].at("text"), written[1].at("text"));

  write_text(path("prompts.txt"), "  the cat \n\nsat\n");
  write_text(path("file.yml"), "text-gen-type: input-file\nsample-input-file: " + path("prompts.txt") +
                                   "\ntemperature: 0.0\nmaximum-tokens: 4\n");
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(sample({path("a.yml"), path("file.yml"), "--no-stop-at-end"}, "").code, 0);
    const auto answers = lines(read_text(path("prompts.txt.output.jsonl")));
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(answers[0].at("context"), "the cat");
    const Outcome greedy =
        sample({"--prompt", "the cat", "--greedy", "--max-new-tokens", "4", "--jsonl", "--no-stop-at-end"});
    EXPECT_EQ(answers[0].at("text"), lines(greedy.output).at(0).at("text"));
  }

  write_text(path("talk.yml"), "text_gen_type: interactive\nprompt_end: \"###\"\nmaximum_tokens: 2\n");
  const Outcome typed = run({"sh", "-c",
                             "printf 'the\\ncat###\\nsat\\n###\\n' | " + trireme_path() + " sample --threads 1 " +
                                 path("a.yml") + " " + path("talk.yml") + " --jsonl"});
  const auto answers = lines(typed.output);
  ASSERT_EQ(answers.size(), 2u) << typed.output;
  EXPECT_EQ(answers[0].at("context"), "the\ncat");
  EXPECT_EQ(answers[1].at("context"), "sat\n");
  // Flags win.
  const Outcome flags = sample(
      {path("a.yml"), path("gen.yml"), "--prompt", "the", "--max-new-tokens", "2", "--no-stop-at-end", "--jsonl"}, "");
  EXPECT_EQ(lines(flags.output).at(0).at("length"), 2) << flags.output;
}

TEST_F(SampleSettings, GptNeoxsFilesSayWhatIsWrong) {
  write_text(path("a.yml"), "load: " + path("model") + "\n");
  const auto refused = [&](const std::string& text, const std::string& message) {
    write_text(path("gen.yml"), text);
    const Outcome outcome = sample({path("a.yml"), path("gen.yml")}, "");
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  };
  refused("text-gen-type: precompute\n", "expected unconditional, input-file or interactive");
  refused("text-gen-type: input-file\n", "text-gen-type is input-file, but sample-input-file is missing");
  refused("temprature: 1\n", "temprature");
  refused("top-p: 1.5\n", "expected a number from 0 to 1");
  refused("top-k: -1\n", "expected a whole number of at least 0");
  refused("load: x\n", "\"load\" is also set in " + path("a.yml") + ":1, but each key may be set in only one file");
  refused("return_logits: true\n", "writing logits is not supported; remove it");
  write_text(path("only.yml"), "temperature: 1.0\n");
  EXPECT_THAT(sample({path("only.yml")}, "").output,
              HasSubstr("--model is required: the files have neither `load` nor `save`"));
  EXPECT_THAT(sample({"-d", "x"}).output,
              HasSubstr("-d x is the folder of the configuration files, but no file is given"));
}

TEST_F(SampleSettings, ATokenizerMayBeNamed) {
  std::filesystem::remove(path("model/tokenizer.json"));
  EXPECT_THAT(sample({"--prompt", "the"}).output, HasSubstr("or use --tokenizer FILE"));
  write_text(path("x-vocab.json"), R"({"t": 0, "h": 1, "e": 2, "th": 3, "the": 4})");
  write_text(path("x-merges.txt"), "#version: 0.2\nt h\nth e\n");
  std::filesystem::rename(path("x-merges.txt"), path("other.txt"));
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--tokenizer", path("x-vocab.json"), "--merges", path("other.txt")}}) {
    std::vector<std::string> all = {"--prompt", "the", "--jsonl", "--max-new-tokens", "3"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = sample(all);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(lines(outcome.output).size(), 1u);
  }
  std::filesystem::rename(path("other.txt"), path("x-merges.txt"));
  EXPECT_EQ(sample({"--prompt", "the", "--tokenizer", path("x-vocab.json")}).code, 0);
  for (const char* action : {"encode", "decode", "show"}) {
    write_text(path("in"), std::string(action) == "decode" ? "[4]\n" : "the\n");
    std::vector<std::string> words = {"tokenizer",          action,     "--tokenizer",
                                      path("x-vocab.json"), "--merges", path("x-merges.txt")};
    if (std::string(action) != "show") words.push_back(path("in"));
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(std::string(action) == "encode"   ? "[4]"
                                          : std::string(action) == "decode" ? "the"
                                                                            : "5 ids"));
  }
}

}  // namespace
}  // namespace trireme
