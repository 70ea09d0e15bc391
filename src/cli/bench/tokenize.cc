#include "cli/bench/benchmarks.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/peer_process.h"
#include "base/private_folder.h"
#include "base/text.h"
#include "base/time.h"
#include "bench/tokenize.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/flags.h"
#include "cli/threads.h"
#include "cli/version.h"
#include "data/prepare/byte_source.h"
#include "data/prepare/training_text.h"
#include "text/training/bpe_trainer.h"

namespace trireme {
namespace {

constexpr size_t kPartBytes = size_t{1} << 17;  // so a text of a few megabytes is divided evenly among many cores
constexpr size_t kPassBytes =
    size_t{1} << 26;  // a small text is repeated, because a pass of milliseconds is too short to time
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr double kOpenWebTextTokens = 9.04e9;

struct TokenizeBench {
  std::string tokenizer, input, json, python = ".venv/bin/python", peer_scripts = "bench/peers";
  TokenizerFlags load;
  std::vector<std::string> peers;
  int threads = 0, repeats = 5;
  bool train = false, decode = false;
  size_t vocabulary_size = 32000;
};

/// Passes of one program; the first one fills its caches and is reported separately.
struct Series {
  std::string name;
  int threads = 1;
  std::vector<double> seconds;
  uint64_t tokens = 0;

  double median() const {
    std::vector<double> sorted(seconds.begin() + (seconds.size() > 1), seconds.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

std::string read_input(const std::string& path) {
  const auto source = open_source(path);
  std::string text;
  std::vector<char> buffer(kReadBytes);
  while (const size_t n = source->read(buffer.data(), buffer.size())) text.append(buffer.data(), n);
  require(!text.empty(), ErrorKind::data, "{} is empty", path);
  return text;
}

/// Ours and the peers for each number of threads, one pass each in turn, so that other load on the machine affects all
/// of them. Ours comes before its peers.
std::vector<Series> measure(const TokenizeBench& flags, const Tokenizer& tokenizer, const std::string& text,
                            const std::vector<int>& thread_counts) {
  const std::vector<std::string_view> parts = cut_text(tokenizer, text, kPartBytes);
  const PrivateFolder folder("tokenize");
  const std::string tokenizer_file = folder.file("tokenizer.json"), text_file = folder.file("text.txt");
  write_text(tokenizer_file, tokenizer.json());
  write_text(text_file, flags.peers.empty() ? std::string_view() : text);
  std::vector<Series> all;
  std::vector<std::unique_ptr<PeerProcess>> peers;  // of each series; null for ours
  for (const int threads : thread_counts) {
    all.push_back({"trireme", threads, {}, 0});
    peers.push_back(nullptr);
    for (const std::string& peer : flags.peers) {
      all.push_back({peer, threads, {}, 0});
      peers.push_back(std::make_unique<PeerProcess>(
          std::vector<std::string>{flags.python, flags.peer_scripts + "/encode_text.py", peer, tokenizer_file,
                                   text_file, std::to_string(threads)}));
    }
  }
  for (int pass = 0; pass <= flags.repeats; ++pass) {
    const size_t rounds = pass == 0 ? 1 : (kPassBytes + text.size() - 1) / text.size();
    for (size_t i = 0; i < all.size(); ++i) {
      if (peers[i]) {
        const PeerProcess::Result result = peers[i]->measure();
        all[i].seconds.push_back(result.seconds);
        all[i].tokens = result.tokens;
      } else {
        const EncodeTiming timing = time_encode(tokenizer, parts, all[i].threads, rounds);
        all[i].seconds.push_back(timing.seconds);
        all[i].tokens = timing.tokens;
      }
    }
  }
  return all;
}

Json report(const std::vector<Series>& all, size_t bytes) {
  Json rows = Json::array();
  const auto rate = [bytes](double seconds) { return static_cast<double>(bytes) / seconds / 1e6; };
  const Series* ours = nullptr;
  for (const Series& series : all) {
    std::string compared;
    if (series.name != "trireme") {
      compared = fmt::format("  trireme is {:.1f}x", series.median() / ours->median());
    } else {
      if (ours) compared = fmt::format("  {:.2f}x of {} threads", ours->median() / series.median(), ours->threads);
      ours = &series;
    }
    const auto [fastest, slowest] = std::minmax_element(series.seconds.begin(), series.seconds.end());
    fmt::print("{:<9} {:>2} threads  {:8.2f} MB/s  (first pass {:.2f}, slowest {:.2f}, fastest {:.2f})  {} tokens{}\n",
               series.name, series.threads, rate(series.median()), rate(series.seconds[0]), rate(*slowest),
               rate(*fastest), series.tokens, compared);
    rows.push_back({{"name", series.name},
                    {"threads", series.threads},
                    {"mb_per_s", rate(series.median())},
                    {"mb_per_s_first_pass", rate(series.seconds[0])},
                    {"mb_per_s_slowest", rate(*slowest)},
                    {"mb_per_s_fastest", rate(*fastest)},
                    {"tokens", series.tokens}});
  }
  return rows;
}

Json bench_encode(const TokenizeBench& flags) {
  const auto start = Clock::now();
  const auto tokenizer = load_tokenizer(flags.tokenizer, load_options(flags.load));
  const double load_seconds = seconds_since(start);
  const std::string text = read_input(flags.input);
  fmt::print("{} ({}), tokenizer {} loaded in {:.2f} s\n", flags.input, human_bytes(text.size()), flags.tokenizer,
             load_seconds);
  std::vector<int> thread_counts{1};
  if (flags.threads > 0) thread_counts = {flags.threads};
  if (flags.threads == 0 && default_threads() > 1) thread_counts.push_back(default_threads());
  const std::vector<Series> all = measure(flags, *tokenizer, text, thread_counts);
  Json rows = report(all, text.size());
  const Series& widest = all[all.size() - 1 - flags.peers.size()];  // ours on the most threads
  const double openwebtext_seconds = kOpenWebTextTokens * widest.median() / static_cast<double>(widest.tokens);
  fmt::print("OpenWebText ({:.2e} tokens) at this rate: {}\n", kOpenWebTextTokens, human_seconds(openwebtext_seconds));
  return {{"tokenizer", flags.tokenizer}, {"input", flags.input},       {"bytes", text.size()},
          {"load_seconds", load_seconds}, {"results", std::move(rows)}, {"openwebtext_seconds", openwebtext_seconds},
          {"commit", commit_text()}};
}

/// The text's ids back to text, on one thread.
Json bench_decode(const TokenizeBench& flags) {
  const auto tokenizer = load_tokenizer(flags.tokenizer, load_options(flags.load));
  const std::string text = read_input(flags.input);
  std::vector<std::vector<TokenId>> ids;
  Series series{"trireme", 1, {}, 0};
  for (const std::string_view part : cut_text(*tokenizer, text, kPartBytes)) {
    tokenizer->encode_plain(part, ids.emplace_back());
    series.tokens += ids.back().size();
  }
  uint64_t bytes = 0;
  for (int pass = 0; pass <= flags.repeats; ++pass) {
    const DecodeTiming timing =
        time_decode(*tokenizer, ids, pass == 0 ? 1 : (kPassBytes + text.size() - 1) / text.size());
    series.seconds.push_back(timing.seconds);
    bytes = timing.bytes;
  }
  fmt::print("{} ({}), tokenizer {}: its {} tokens decoded to {}\n", flags.input, human_bytes(text.size()),
             flags.tokenizer, series.tokens, human_bytes(bytes));
  Json rows = report({series}, bytes);
  return {{"tokenizer", flags.tokenizer},
          {"input", flags.input},
          {"bytes", bytes},
          {"results", std::move(rows)},
          {"commit", commit_text()}};
}

/// Whether the peer's vocabulary, an object of tokens and ids, is this one.
bool same_vocabulary(const BpeDescription& ours, const std::string& path) {
  const Json theirs = read_json(path);
  return theirs.size() == ours.vocabulary.size() &&
         std::all_of(ours.vocabulary.begin(), ours.vocabulary.end(), [&](const auto& entry) {
           const auto found = theirs.find(entry.first);
           return found != theirs.end() && *found == entry.second;
         });
}

/// Training with ours and the peer in turn, both from a file that was read before.
Json bench_train(const TokenizeBench& flags) {
  const std::string bytes = read_input(flags.input);
  TrainingTextOptions text;
  text.inputs = {flags.input};
  text.threads = flags.threads > 0 ? flags.threads : default_threads();
  BpeTraining training;
  training.vocabulary_size = flags.vocabulary_size;
  std::vector<Series> all{{"trireme", text.threads, {}, 0}};
  const PrivateFolder folder("tokenize");
  const std::string text_file = folder.file("text.txt"), their_vocabulary = folder.file("vocabulary.json");
  write_text(text_file, flags.peers.empty() ? std::string_view() : bytes);
  write_text(their_vocabulary, "{}");
  std::unique_ptr<PeerProcess> peer;
  if (!flags.peers.empty()) {
    all.push_back({flags.peers[0], text.threads, {}, 0});
    peer = std::make_unique<PeerProcess>(std::vector<std::string>{flags.python, flags.peer_scripts + "/train_bpe.py",
                                                                  std::to_string(flags.vocabulary_size), text_file,
                                                                  std::to_string(text.threads), their_vocabulary});
  }
  BpeDescription trained;
  for (int pass = 0; pass <= flags.repeats; ++pass) {
    const auto start = Clock::now();
    trained = train_bpe(count_pieces(text), training);
    all[0].seconds.push_back(seconds_since(start));
    all[0].tokens = trained.vocabulary.size();
    if (!peer) continue;
    const PeerProcess::Result result = peer->measure();
    all[1].seconds.push_back(result.seconds);
    all[1].tokens = result.tokens;
  }
  Json result = {{"input", flags.input}, {"bytes", bytes.size()}, {"commit", commit_text()}};
  for (const Series& series : all) {
    const auto [fastest, slowest] = std::minmax_element(series.seconds.begin(), series.seconds.end());
    const double median = series.median();
    fmt::print("{:<9} {:>2} threads  {:8.3f} s  (fastest {:.3f}, slowest {:.3f})  {} tokens{}\n", series.name,
               series.threads, median, *fastest, *slowest, series.tokens,
               &series == &all[0] ? std::string() : fmt::format("  trireme is {:.1f}x", median / all[0].median()));
    result["results"].push_back({{"name", series.name},
                                 {"threads", series.threads},
                                 {"seconds", median},
                                 {"fastest", *fastest},
                                 {"slowest", *slowest},
                                 {"tokens", series.tokens}});
  }
  if (peer) {
    const bool same = same_vocabulary(trained, their_vocabulary);
    fmt::print("the vocabularies are {}\n", same ? "the same, id for id" : "different");
    result["same_vocabulary"] = same;
  }
  return result;
}

}  // namespace

int bench_tokenize_command(CommandLine line) {
  TokenizeBench flags;
  Flags app(std::move(line), "trireme bench tokenize",
            "Measures encoding a text, training a vocabulary or decoding, also with other libraries in the same run.");
  app.add("--tokenizer", flags.tokenizer, "tokenizer, as for `trireme tokenizer encode`");
  add_tokenizer_flags(app, flags.load);
  app.add("--input", flags.input, "text, also .gz and .zst; for --train also .jsonl").required();
  app.add("--threads", flags.threads, "threads (0: measure one thread and all threads)")
      .in_range(0, 1024)
      .show_default();
  app.add("--peers", flags.peers, "tiktoken, hf (Hugging Face tokenizers), quicktok, or several separated by commas")
      .separated_by(',')
      .one_of({"tiktoken", "hf", "quicktok"});
  app.add("--python", flags.python, "Python interpreter with the peers installed").show_default();
  app.add("--peer-scripts", flags.peer_scripts, "folder of the peers' scripts").show_default();
  app.add("--repeats", flags.repeats, "timed passes after the first one; the median counts").positive().show_default();
  app.add_switch("--train", flags.train, "train a vocabulary instead of encoding");
  app.add_switch("--decode", flags.decode, "decode the text's ids instead, on one thread; rates count decoded bytes");
  app.add("--vocab-size", flags.vocabulary_size, "size of the vocabulary").show_default();
  app.add("--json", flags.json, "also write the result to this file").output_file();
  if (const auto code = app.parse()) return *code;
  require(flags.train || !flags.tokenizer.empty(), ErrorKind::usage, "--tokenizer is required, or --train");
  require(!flags.decode || !flags.train, ErrorKind::usage, "--decode and --train were both given; use one");
  require(!flags.decode || (flags.peers.empty() && flags.threads <= 1), ErrorKind::usage,
          "--decode measures only trireme, on one thread; remove --peers and --threads");
  require(!flags.train || flags.peers.empty() || flags.peers == std::vector<std::string>{"hf"}, ErrorKind::usage,
          "--train supports only one peer: --peers hf");
  const Json result = flags.train ? bench_train(flags) : flags.decode ? bench_decode(flags) : bench_encode(flags);
  if (!flags.json.empty()) write_text(flags.json, dump_json(result, 1) + "\n");
  return 0;
}

}  // namespace trireme
