// trireme check: small pieces of the user's own run, each in a process of its own, and what must be equal between them.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/private_folder.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cluster/launch/starter.h"
#include "cluster/subprocess.h"

namespace trireme {
namespace {

constexpr const char* kPiece = "TRIREME_CHECK_PIECE";  ///< of the environment of a piece
constexpr int64_t kSteps = 3;
constexpr double kEqual = 1e-5;         ///< of losses in f32, relative
constexpr double kFirstSeconds = 90;    ///< for the first run of all layers
constexpr double kSeconds = 600;        ///< for every other one
constexpr int64_t kConversations = 16;  ///< that the check of packing takes, about

enum class CheckState : uint8_t { ok, failed, unchecked, shown };

constexpr const char* word_of(CheckState state) {
  constexpr const char* kWords[] = {"ok", "failed", "not checked", "shown"};
  return kWords[static_cast<size_t>(state)];
}

struct CheckResult {
  CheckState state = CheckState::unchecked;
  std::string text;
};

/// What a piece of the run wrote.
struct Piece {
  std::string failure{};  ///< empty: it reached its end
  bool slow = false;      ///< it was ended after its time
  Json start{};           ///< its start record: facts and configuration
  std::vector<double> losses{};
  std::optional<double> evaluation{};  ///< the first, before any step
  std::string weights{};               ///< hash of the last snapshot
};

enum class PieceFormats : uint8_t { f32, configured };

struct PieceLayout {
  int64_t ranks = 1, micro = 0;  ///< micro: rows of a micro-batch
  PieceFormats formats = PieceFormats::f32;
};

/// The last error of a program's output, else its last line.
std::string last_error(const ProcessResult& result) {
  std::istringstream lines(result.err + "\n" + result.out);
  std::string last, error;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error: ") != std::string::npos) error = line.substr(line.find("error: ") + 7);
    if (!line.empty()) last = line;
  }
  return error.empty() ? fmt::format("{}: {}", describe_end(result), last) : error;
}

class Check {
 public:
  Check(std::vector<std::string> command, int64_t ranks) : command_(std::move(command)), ranks_(ranks) {
    if (is_chat()) remove_validation();
  }

  int run() {
    fmt::print("checking       {}, in pieces of {} steps of {} rows\n", shell_join(command_), kSteps, rows());
    if (!first_piece()) return finish();
    report("start", start());
    report("accumulation", compare("accumulation", {.ranks = 1, .micro = 1},
                                   fmt::format("{} micro-batches of 1 row and 1 of {}", rows(), rows())));
    report("ranks", ranks());
    report("as configured", as_configured());
    report("resume", resume());
    report("packing", packing());
    report("samples", samples());
    return finish();
  }

 private:
  int64_t rows() const { return std::max<int64_t>(4, 2 * ranks_); }
  bool is_chat() const { return command_[0] != "train"; }
  const Json& configuration() const { return first_.start.at("configuration"); }
  std::string fact(const std::string& name) const { return first_.start.at("facts").value(name, ""); }

  /// The pieces choose their own.
  void remove_validation() {
    for (const std::string flag :
         {"--validation", "--data.validation", "--validation-share", "--chat.validation-share"}) {
      for (auto word = command_.begin(); word != command_.end();) {
        const bool alone = *word == flag;
        if (!alone && !word->starts_with(flag + "=")) {
          ++word;
          continue;
        }
        word = command_.erase(word, std::min(word + (alone ? 2 : 1), command_.end()));
      }
    }
  }

  void report(const char* name, const CheckResult& result) {
    results_.emplace_back(name, result.state);
    fmt::print("{:<15}{:<13}{}\n", name, word_of(result.state), result.text);
    std::fflush(stdout);
  }

  std::vector<std::string> program(int64_t ranks) const {
    if (ranks == 1) return {program_path()};
    const launch::Starter starter = launch::find_starter({});
    return {starter.path, "-n", std::to_string(ranks), program_path()};
  }

  /// Runs the command with these options behind the user's own; the last value of an option counts.
  Piece piece(const std::string& folder, const PieceLayout& layout, std::vector<std::string> more, double seconds) {
    const std::string run_dir = work_.file(folder);
    std::vector<std::string> words = program(layout.ranks);
    words.insert(words.end(), command_.begin(), command_.end());
    const auto set = [&](const std::string& option, const auto& value) {
      words.push_back(fmt::format("--{}={}", option, value));
    };
    set("run.dir", run_dir);
    set("run.steps", kSteps);
    set("optim.decay-steps", kSteps);
    set("batch.global", rows());
    set("batch.micro", layout.micro);
    for (const char* option :
         {"batch.per-rank", "batch.accumulation", "mesh.data", "checkpoint.every", "evaluation.every", "log.profile"})
      set(option, 0);
    for (const char* option : {"mesh.tensor", "mesh.pipeline", "mesh.chunks", "log.every"}) set(option, 1);
    for (const char* option : {"mesh.stages", "checkpoint.local", "checkpoint.also", "run.fallback", "log.metrics",
                               "log.metrics-file", "log.mlflow"})
      set(option, "");
    for (const char* option : {"mesh.sequence", "evaluation.only", "log.tensorboard"}) set(option, false);
    set("log.jsonl", true);
    set("optim.shard", "none");
    set("checkpoint.resume", "auto");
    if (layout.formats == PieceFormats::f32) {
      set("precision.dtype", "f32");
      set("comm.wire", "f32");
    }
    if (is_chat()) {
      set("chat.validation-share", 0);
    } else {
      set("data.validation", "");
      set("data.test", "");
      set("evaluation.batches", 1);
    }
    words.insert(words.end(), depth_.begin(), depth_.end());
    words.insert(words.end(), more.begin(), more.end());
    ProcessRequest request;
    request.arguments = std::move(words);
    request.timeout = std::chrono::duration<double>(seconds);
    request.variables = {{kPiece, "1"},
                         {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                         {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                         {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                         {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"}};
    const ProcessResult result = run_process(request);
    Piece piece;
    piece.slow = result.timed_out;
    if (result.timed_out || result.exit_code != 0) piece.failure = last_error(result);
    read_records(run_dir, piece);
    return piece;
  }

  static void read_records(const std::string& run_dir, Piece& piece) {
    const std::string path = run_dir + "/metrics.jsonl";
    if (!std::filesystem::exists(path)) return;
    std::istringstream lines(read_text(path));
    for (std::string line; std::getline(lines, line);) {
      Json record = parse_json(line, path);
      const std::string kind = record.value("record", "");
      if (kind == "step") piece.losses.push_back(record.at("loss"));
      if (kind == "checkpoint") piece.weights = record.value("parameters", "");
      if (kind == "evaluation" && !piece.evaluation && record.contains("validation_loss"))
        piece.evaluation = record.at("validation_loss");
      if (kind == "start") piece.start = std::move(record);
    }
  }

  /// With all layers if that fits and is quick enough, else a new model has two. False: nothing can be compared.
  bool first_piece() {
    first_ = piece("first", {.ranks = 1, .micro = rows()}, {}, kFirstSeconds);
    const bool too_large = first_.slow || first_.failure.find("this run needs ") != std::string::npos;
    if (too_large && !has_weights()) {
      depth_ = {"--model.layers=2"};
      const std::string why =
          first_.slow ? fmt::format("{} steps took over {} s", kSteps, kFirstSeconds) : first_.failure;
      report("layers", {CheckState::shown, "2 of the model's, because with all " + why});
      first_ = piece("shallow", {.ranks = 1, .micro = rows()}, {}, kSeconds);
    }
    if (first_.failure.empty() && first_.losses.size() == kSteps) return true;
    const std::string why = first_.slow ? fmt::format(
                                              "{} steps of a loaded model took over {} s; check it where they do "
                                              "not, or with a smaller model of its family",
                                              kSteps, kFirstSeconds)
                                        : first_.failure;
    report("start", {CheckState::unchecked, why});
    return false;
  }

  bool has_weights() const {
    if (is_chat()) return true;
    if (first_.start.is_null()) {  // it did not come so far
      const auto named = [](const std::string& word) { return word.starts_with("--model.init"); };
      return std::ranges::any_of(command_, named);
    }
    const std::string init = configuration().at("model").value("init", "");
    return !init.empty() && init != "scratch";
  }

  /// The loss before the first update.
  CheckResult start() const {
    const double loss = first_.losses[0];
    if (command_[0] == "dpo") {
      return {CheckState::shown, fmt::format("loss {:.4f}; without a margin between the answers it is ln 2 = {:.4f}",
                                             loss, std::log(2.0))};
    }
    std::smatch found;
    const std::string model = fact("model");
    if (!std::regex_search(model, found, std::regex("vocabulary ([0-9]+)")))
      return {CheckState::shown, fmt::format("loss {:.4f}", loss)};
    const double guess = std::log(std::stod(found[1]));
    const std::string text = fmt::format("loss {:.4f}; a guess has ln {} = {:.4f}", loss, found[1].str(), guess);
    if (has_weights()) {
      if (loss < 1.05 * guess) return {CheckState::ok, text};
      return {CheckState::failed, text +
                                      ": the weights know nothing of these tokens: have the data another tokenizer or "
                                      "template than the model?"};
    }
    if (std::abs(loss - guess) <= 0.1 * guess) return {CheckState::ok, text};
    return {CheckState::failed,
            text + ": a new model should be within 10 % of it: look at model.init-scheme and the scales"};
  }

  /// The largest difference of two lists of losses, relative where they are above 1.
  static double difference(const std::vector<double>& a, const std::vector<double>& b) {
    double largest = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      largest = std::max(largest, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(a[i])));
    return largest;
  }

  CheckResult judged(double difference, const std::string& what) const {
    const std::string text = fmt::format("{}: losses of {} steps differ by at most {:.1e}", what, kSteps, difference);
    if (difference <= kEqual) return {CheckState::ok, text};
    return {CheckState::failed, fmt::format("{}; at most {:.0e} is expected of f32", text, kEqual)};
  }

  CheckResult compare(const std::string& name, const PieceLayout& layout, const std::string& what) {
    const Piece other = piece(name, layout, {}, kSeconds);
    if (!other.failure.empty()) return {CheckState::unchecked, other.failure};
    return judged(difference(first_.losses, other.losses), what);
  }

  CheckResult ranks() {
    if (ranks_ == 1) return {CheckState::unchecked, "--ranks 1 asks for one"};
    try {
      (void)program(ranks_);
    } catch (const Error& error) {
      has_starter_ = false;
      return {CheckState::unchecked, error.what()};
    }
    return compare("ranks", {.ranks = ranks_, .micro = rows() / ranks_}, fmt::format("{} ranks and 1", ranks_));
  }

  /// With the number formats of the configuration, which round: shown, not judged.
  CheckResult as_configured() {
    const int64_t ranks = has_starter_ ? ranks_ : 1;
    const Piece own = piece(
        "configured", {.ranks = ranks, .micro = rows() / ranks, .formats = PieceFormats::configured}, {}, kSeconds);
    if (!own.failure.empty()) return {CheckState::unchecked, own.failure};
    const Json& used = own.start.at("configuration");
    return {CheckState::shown,
            fmt::format("weights in {}, gradients sent in {}: losses on {} differ from those in f32 by at most {:.1e}",
                        used.at("precision").value("dtype", ""), used.at("comm").value("wire", ""),
                        count_text(ranks, "rank"), difference(first_.losses, own.losses))};
  }

  CheckResult resume() {
    const PieceLayout layout{.ranks = 1, .micro = rows()};
    const Piece stopped = piece("resumed", layout, {fmt::format("--run.steps={}", kSteps - 1)}, kSeconds);
    if (!stopped.failure.empty()) return {CheckState::unchecked, stopped.failure};
    const Piece resumed = piece("resumed", layout, {}, kSeconds);
    if (!resumed.failure.empty()) return {CheckState::unchecked, resumed.failure};
    const std::string text = fmt::format("ended after step {}, resumed to step {}: weights {}, without a stop {}",
                                         kSteps - 1, kSteps, resumed.weights, first_.weights);
    return {resumed.weights == first_.weights && !first_.weights.empty() ? CheckState::ok : CheckState::failed, text};
  }

  /// The same conversations, each in a row of its own and several in one: what one says must not change another's loss.
  CheckResult packing() {
    if (!is_chat())
      return {CheckState::shown,
              "a row is a window of the text: documents in it see each other, as in GPT-2's and nanoGPT's training"};
    std::smatch found;
    const std::string data = fact("data");
    if (!std::regex_search(data, found, std::regex(": ([0-9]+) (conversation|pair)")) || std::stoll(found[1]) < 2)
      return {CheckState::unchecked, "there are not two conversations to put into one row"};
    const double share = std::min(0.5, static_cast<double>(kConversations) / std::stod(found[1]));
    std::vector<double> losses;
    for (const char* packed : {"false", "true"}) {
      const Piece one = piece(
          fmt::format("packing-{}", packed), {.ranks = 1, .micro = 1},
          {fmt::format("--chat.validation-share={}", share), fmt::format("--chat.packing={}", packed), "--run.steps=1"},
          kSeconds);
      if (!one.failure.empty()) return {CheckState::unchecked, one.failure};
      if (!one.evaluation) return {CheckState::unchecked, "too few conversations to keep some for validation"};
      losses.push_back(*one.evaluation);
    }
    const double by = difference({losses[0]}, {losses[1]});
    const std::string text = fmt::format("{:.3g} % of the conversations: loss {:.6f} one by one, {:.6f} packed",
                                         100 * share, losses[0], losses[1]);
    return {by <= kEqual ? CheckState::ok : CheckState::failed, text};
  }

  /// What the loss counts, as text.
  CheckResult samples() const {
    std::vector<std::string> words = {program_path()};
    const Json& c = configuration();
    if (is_chat()) {
      const Json& chat = c.at("chat");
      words.insert(words.end(), {"tokenizer", "chat", "--rows=3", "--skip-bad-rows", "--tokenizer",
                                 c.at("model").at("init"), "--loss-on", chat.at("loss-on")});
      const auto add = [&](const char* flag, const std::string& value) {
        if (!value.empty()) words.insert(words.end(), {flag, value});
      };
      add("--chat-template", chat.value("template", ""));
      for (const auto& [flag, option] : {std::pair{"--column", "columns"}, {"--role", "roles"}}) {
        std::istringstream named(chat.value(option, ""));
        for (std::string one; std::getline(named, one, ',');) add(flag, std::string(trim_blanks(one)));
      }
      words.push_back(c.at("data").at("train"));
    } else {
      const std::string file = c.at("data").value("dir", "") + "/train.bin";
      if (!std::filesystem::exists(file))
        return {CheckState::unchecked, "`trireme data inspect` shows the text of an indexed data set"};
      words.insert(words.end(), {"data", "inspect", file});
    }
    ProcessRequest request;
    request.arguments = std::move(words);
    const ProcessResult shown = run_process(request);
    if (shown.exit_code != 0) return {CheckState::unchecked, last_error(shown)};
    return {CheckState::shown, is_chat() ? counted_text(shown.out)
                                         : "every token is predicted; the first ones are " + text_line(shown.out)};
  }

  /// The quoted text of `data inspect`.
  static std::string text_line(const std::string& output) {
    std::smatch found;
    return std::regex_search(output, found, std::regex("\n *(\".*\")\n")) ? found[1].str() : output;
  }

  /// The rows of `tokenizer chat`, one a line, what counts in brackets.
  static std::string counted_text(const std::string& output) {
    constexpr size_t kMost = 300;
    std::string text = "the loss counts what is in [[ ]]";
    std::istringstream lines(output);
    const std::regex token("^ *[0-9]+ +[0-9]+ ([* ]) \"(.*)\"$");
    std::string row;
    bool counted = false;
    const auto end_row = [&] {
      if (counted) row += "]]";
      if (!row.empty()) text += "\n  " + (row.size() > kMost ? row.substr(0, kMost) + " ..." : row);
      row.clear();
      counted = false;
    };
    for (std::string line; std::getline(lines, line);) {
      std::smatch found;
      if (line.starts_with("ids (")) end_row();
      if (!std::regex_match(line, found, token)) continue;
      const bool now = found[1] == "*";
      if (now != counted) row += now ? "[[" : "]]";
      counted = now;
      row += found[2];
    }
    end_row();
    return printable(text, size_t{8} << 10);
  }

  int finish() const {
    const auto names = [&](CheckState state) {
      std::string text;
      for (const auto& [name, result] : results_)
        if (result == state) text += (text.empty() ? "" : ", ") + name;
      return text;
    };
    const std::string failed = names(CheckState::failed), unchecked = names(CheckState::unchecked);
    fmt::print("{:<15}{}\n", "verdict",
               !failed.empty()      ? "failed: " + failed
               : !unchecked.empty() ? "not checked: " + unchecked
                                    : fmt::format("ok: {} checks", results_.size()));
    return !failed.empty() ? 1 : unchecked.empty() ? 0 : 2;
  }

  std::vector<std::string> command_, depth_;
  int64_t ranks_;
  bool has_starter_ = true;
  PrivateFolder work_{"check"};
  Piece first_;
  std::vector<std::pair<std::string, CheckState>> results_;
};

}  // namespace

int run_check(CommandLine line) {
  Flags app(
      std::move(line), "trireme check",
      "Runs a few steps of your own configuration and data on this host, in different ways, and compares what must "
      "be equal. Writes nothing but a temporary folder, which it removes. Takes about two minutes.");
  ConfigWords words;
  std::vector<std::string> command;
  int64_t ranks = 2;
  app.set_usage(
      "trireme check CONFIG.yaml... [--option value ...]      the words of `trireme train`\n"
      "trireme check -- sft --model MODEL --data DATA ...     those of sft or dpo");
  app.add_configuration(words, OptionsInHelp::none);
  app.add("--ranks", ranks, "ranks that are compared with one; 1: none").in_range(1, 64).show_default();
  app.takes_command(command);
  app.set_footer(
      "start          the first loss: of a new model near ln V, of a trained one below it\n"
      "accumulation   micro-batches of one row and of all rows have the same losses\n"
      "ranks          several ranks and one have the same losses (in f32, also between ranks)\n"
      "as configured  how far the configured number formats are from f32: shown, not judged\n"
      "resume         a run that ended and resumed has the weights of one that did not, bit by bit\n"
      "packing        conversations that share a row do not see each other\n"
      "samples        what the loss counts, as text\n"
      "A new model that does not fit here, or is too slow, is checked with two of its layers, and that is said.\n"
      "Exit code: 0 all is well; 1 a check failed; 2 one could not be made.");
  if (const auto code = app.parse()) return *code;
  require(environment_variable(kPiece) == nullptr, ErrorKind::usage, "check was started by check");
  if (command.empty()) {
    require(!words.files.empty() || !words.flags.empty(), ErrorKind::usage,
            "check needs a configuration file, options, or a command after `--`; `trireme check --help` explains them");
    (void)load_config(words.files, words.flags, words.dialect);  // what is wrong there is an error, not a result
    command = {"train"};
    command.insert(command.end(), words.files.begin(), words.files.end());
    if (words.dialect) command.insert(command.end(), {"--dialect", *words.dialect});
    command.insert(command.end(), words.flags.begin(), words.flags.end());
  } else {
    require(words.files.empty() && words.flags.empty(), ErrorKind::usage,
            "check takes options of the run behind `--`, with the command, or no command");
    constexpr std::string_view kTasks[] = {"train", "sft", "dpo"};
    require(std::ranges::find(kTasks, command[0]) != std::end(kTasks), ErrorKind::usage,
            "check cannot check `{}`; train, sft and dpo can be checked", command[0]);
  }
  return Check(std::move(command), ranks).run();
}

}  // namespace trireme
