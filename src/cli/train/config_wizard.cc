// trireme config wizard: the questions of `accelerate config` with its defaults; the answers as its YAML.

#include "cli/command.h"

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/flags.h"
#include "cli/launch_file.h"

namespace trireme {
namespace {

using Answers = std::map<std::string, std::string>;

bool is_multi(const Answers& answers) { return answers.at("machine-type") != "No distributed training"; }
bool is_multi_gpu(const Answers& answers) { return answers.at("machine-type") == "multi-GPU"; }
bool is_single(const Answers& answers) { return !is_multi(answers); }
bool always(const Answers&) { return true; }
bool several_machines(const Answers& answers) { return is_multi(answers) && answers.at("num-machines") != "1"; }
bool other_networks(const Answers& answers) { return several_machines(answers) && answers.at("same-network") == "no"; }

enum class Kind { choice, yes_no, count, port, text };

struct Question {
  const char* flag;
  const char* text;
  const char* fallback;
  Kind kind;
  bool (*is_asked)(const Answers&);
  std::vector<std::string> choices = {};
  /// Answers of `accelerate config` that are not supported here, and why.
  std::vector<std::string> refused = {};
  const char* why = "";
  const char* when_yes = "";  ///< note for a yes that changes nothing
  /// Choices in accelerate's order, in which a number (from 0) is an answer where there is no terminal.
  std::vector<std::string> numbered = {};
};

const std::vector<Question>& questions() {
  static const std::vector<Question> all = {
      {"compute-environment",
       "In which compute environment are you running?",
       "This machine",
       Kind::choice,
       always,
       {"This machine"},
       {"AWS SageMaker"},
       "ranks start only on hosts that `trireme launch` reaches",
       "",
       {"This machine", "AWS SageMaker"}},
      {"machine-type",
       "Which type of machine are you using?",
       "No distributed training",
       Kind::choice,
       always,
       {"No distributed training", "multi-CPU", "multi-GPU"},
       {"multi-XPU", "multi-NPU", "TPU"},
       "training computes on CPUs and NVIDIA's GPUs",
       "",
       {"No distributed training", "multi-CPU", "multi-XPU", "multi-GPU", "multi-NPU", "TPU"}},
      {"num-machines", "How many different machines will you use?", "1", Kind::count, is_multi},
      {"machine-rank", "What is the rank of this machine? (MPI numbers the machines; nothing depends on it)", "0",
       Kind::count, several_machines},
      {"main-process-ip", "What is the IP address of the machine that will host the main process? (MPI finds it)", "",
       Kind::text, several_machines},
      {"main-process-port", "What port must be free on every machine? (empty: any)", "", Kind::port, several_machines},
      {"same-network", "Are all the machines on the same local network?", "yes", Kind::yes_no, several_machines},
      {"rdzv-backend", "What rendezvous backend will you use? (MPI is the one used)", "static", Kind::text,
       other_networks},
      {"debug",
       "Should distributed operations be checked while running for errors?",
       "no",
       Kind::yes_no,
       is_multi,
       {},
       {},
       "",
       "operations between ranks are always checked"},
      {"hostfile", "Where is the hostfile?", "~/hostfile", Kind::text, several_machines},
      {"cpu", "Do you want to run your training on CPU only?", "no", Kind::yes_no, is_single},
      {"ipex",
       "Do you want to use Intel PyTorch Extension (IPEX)?",
       "no",
       Kind::yes_no,
       always,
       {},
       {},
       "",
       "torch is not used; Trireme's own kernels use the instructions of the CPU"},
      {"dynamo",
       "Do you wish to optimize your script with torch dynamo?",
       "no",
       Kind::yes_no,
       always,
       {},
       {"yes"},
       "torch is not used"},
      {"deepspeed",
       "Do you want to use DeepSpeed?",
       "no",
       Kind::yes_no,
       is_single,
       {},
       {"yes"},
       "DeepSpeed's engine is not supported; set batch.* and optim.* in the training configuration"},
      {"num-processes", "How many processes, one per GPU or CPU, should be used for distributed training?", "1",
       Kind::count, is_multi},
      {"mixed-precision",
       "Do you wish to use mixed precision?",
       "no",
       Kind::choice,
       always,
       {"no", "bf16", "fp16"},
       {"fp8"},
       "training computes in bf16, f32 and, on GPUs, f16",
       "",
       {"no", "fp16", "bf16", "fp8"}},
  };
  return all;
}

/// The answer in its stored spelling. Throws Error::usage with the possible answers.
std::string accept(const Question& question, const std::string& given) {
  const std::string word = lower_case(given);
  const auto is_same = [&](const std::string& choice) { return lower_case(choice) == word; };
  std::string kept = given;
  if (given.size() == 1 && given[0] >= '0' && static_cast<size_t>(given[0] - '0') < question.numbered.size())
    return accept(question, question.numbered[static_cast<size_t>(given[0] - '0')]);
  if (question.kind == Kind::yes_no) {
    kept = word.starts_with('y') ? "yes" : "no";
    require(word == "yes" || word == "y" || word == "no" || word == "n", ErrorKind::usage,
            "--{} \"{}\": expected yes or no", question.flag, given);
  }
  if (std::ranges::any_of(question.refused,
                          [&](const std::string& choice) { return lower_case(choice) == lower_case(kept); })) {
    fail(ErrorKind::usage, "--{} \"{}\" is not supported: {}", question.flag, given, question.why);
  }
  if (question.kind == Kind::choice) {
    const auto found = std::ranges::find_if(question.choices, is_same);
    require(found != question.choices.end(), ErrorKind::usage, "--{} \"{}\": expected {}", question.flag, given,
            fmt::join(question.choices, " or "));
    kept = *found;
  }
  if (question.kind == Kind::text) {
    require(given.find_first_of("'\"#\n:{}[]") == std::string::npos, ErrorKind::usage,
            "--{} \"{}\": quotes, colons and brackets are not allowed", question.flag, given);
  }
  if (question.kind == Kind::port && !given.empty()) {
    const bool digits = given.size() < 6 && given.find_first_not_of("0123456789") == std::string::npos;
    require(digits && std::stoi(given) >= 1 && std::stoi(given) <= 65535, ErrorKind::usage,
            "--{} \"{}\": expected a port from 1 to 65535", question.flag, given);
  }
  if (question.kind == Kind::count) {
    const bool digits =
        !given.empty() && given.size() < 7 && given.find_first_not_of("0123456789") == std::string::npos;
    const bool may_be_zero = std::string_view(question.fallback) == "0";
    require(digits && (may_be_zero || given.find_first_not_of('0') != std::string::npos), ErrorKind::usage,
            "--{} \"{}\": expected a whole number from {}", question.flag, given, may_be_zero ? 0 : 1);
    kept = std::to_string(std::stoi(given));
  }
  return kept;
}

/// The answer for an empty line. At least one process per machine, so that they can be distributed.
std::string fallback_of(const Question& question, const Answers& answers) {
  const bool processes = std::string_view(question.flag) == "num-processes";
  return processes && answers.contains("num-machines") ? answers.at("num-machines") : question.fallback;
}

/// Throws Error::usage if an answer contradicts earlier ones.
void check_with(const Question& question, const std::string& answer, const Answers& answers) {
  const std::string_view flag = question.flag;
  if (flag == "mixed-precision") {
    const bool cpus = !is_multi_gpu(answers) && (is_multi(answers) || answers.at("cpu") == "yes");
    require(answer != "fp16" || !cpus, ErrorKind::usage,
            "--mixed-precision fp16 needs GPUs; use bf16 or no, or --machine-type multi-GPU");
  }
  if (!answers.contains("num-machines")) return;
  const int machines = std::stoi(answers.at("num-machines"));
  if (flag == "num-processes") {
    require(ranks_of_launch_file(machines, std::stoi(answer)) % machines == 0, ErrorKind::usage,
            "--num-processes {} cannot be distributed evenly over --num-machines {}; use a multiple", answer, machines);
  }
  if (flag == "machine-rank") {
    require(std::stoi(answer) < machines, ErrorKind::usage, "--machine-rank {}: {} have ranks 0 to {}", answer,
            count_text(machines, "machine"), machines - 1);
  }
}

std::string prompt_of(const Question& question, const std::string& fallback) {
  const std::string choices = question.choices.empty() ? "" : fmt::format(" ({})", fmt::join(question.choices, ", "));
  return fmt::format("{}{} [{}]: ", question.text, choices, fallback);
}

/// The questions of `accelerate config` in the order of one of its versions; "": one that is not asked here.
struct Questionnaire {
  const char* version;
  std::vector<const char*> flags;
};
const std::vector<Questionnaire>& questionnaires() {
  static const std::vector<Questionnaire> all = {
      {"0.21",
       {"compute-environment", "machine-type", "num-machines", "machine-rank", "main-process-ip", "main-process-port",
        "same-network", "rdzv-backend", "cpu", "ipex", "dynamo", "deepspeed", "num-processes", "mixed-precision"}},
      {"0.22 and later",
       {"compute-environment", "machine-type", "num-machines", "machine-rank", "main-process-ip", "main-process-port",
        "same-network", "rdzv-backend", "debug", "cpu", "ipex", "dynamo", "deepspeed", "num-processes",
        "mixed-precision"}},
      {"1.0 and later, without mpirun",
       {"compute-environment", "machine-type", "num-machines", "machine-rank", "main-process-ip", "main-process-port",
        "same-network", "rdzv-backend", "debug", "cpu", "", "dynamo", "deepspeed", "num-processes", "mixed-precision"}},
      {"1.0 and later, with mpirun",
       {"compute-environment", "machine-type", "num-machines", "machine-rank", "main-process-ip", "main-process-port",
        "same-network", "rdzv-backend", "debug", "cpu", "", "hostfile", "", "dynamo", "deepspeed", "num-processes",
        "mixed-precision"}}};
  return all;
}

/// The answer in a line of a transcript: what follows the question; nullopt: the question alone, whose answer is the
/// next line.
std::optional<std::string> answer_in(std::string line) {
  if (line.ends_with('\r')) line.pop_back();
  const size_t bracket = line.rfind("]:"), mark = line.rfind('?');
  const size_t after = bracket != std::string::npos ? bracket + 2 : mark != std::string::npos ? mark + 1 : 0;
  const size_t begin = line.find_first_not_of(" :", after);
  if (begin == std::string::npos) {
    if (after > 0 && bracket == std::string::npos) return {};
    return "";
  }
  const size_t end = line.find_last_not_of(' ');
  return line.substr(begin, end + 1 - begin);
}

/// All lines as the answers to these questions; nullopt: they do not fit. `asked`: those that these lines answer.
std::optional<Answers> answers_of(const std::vector<const Question*>& asked, const std::vector<std::string>& lines,
                                  const std::map<std::string, std::optional<std::string>>& flags) {
  Answers answers;
  size_t next = 0;
  try {
    for (const Question* question : asked) {
      if (question == nullptr) {  // of accelerate alone
        ++next;
        continue;
      }
      if (!question->is_asked(answers)) continue;
      std::string answer = fallback_of(*question, answers);
      if (const auto& flag = flags.at(question->flag)) {
        answer = accept(*question, *flag);
      } else {
        if (next >= lines.size()) return {};
        if (!lines[next].empty()) answer = accept(*question, lines[next]);
        ++next;
      }
      check_with(*question, answer, answers);
      answers[question->flag] = answer;
    }
  } catch (const Error&) {
    return {};
  }
  while (next < lines.size() && lines[next].empty()) ++next;
  return next == lines.size() ? std::optional(answers) : std::nullopt;
}

/// Whether the input answers the questions as they are asked here.
bool fits_here(const std::string& input, const std::map<std::string, std::optional<std::string>>& flags) {
  std::vector<std::string> lines;
  std::istringstream text(input);
  for (std::string line; std::getline(text, line);)
    lines.push_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
  std::vector<const Question*> asked;
  for (const Question& question : questions()) asked.push_back(&question);
  return answers_of(asked, lines, flags).has_value();
}

/// The answers of a transcript of `accelerate config`, of whichever version; nullopt: it is none of these.
std::optional<Answers> answers_of_accelerate(const std::string& input,
                                             const std::map<std::string, std::optional<std::string>>& flags) {
  std::vector<std::string> lines;
  std::istringstream text(input);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("----")) line.erase(0, line.find_first_not_of('-'));
    if (line.empty() && !lines.empty() && lines.back().empty() && text.peek() == EOF) break;
    if (std::optional<std::string> answer = answer_in(line)) lines.push_back(std::move(*answer));
  }
  for (const Questionnaire& one : questionnaires()) {
    std::vector<const Question*> asked;
    for (const std::string_view flag : one.flags) {
      const auto found = std::ranges::find_if(questions(), [&](const Question& known) { return known.flag == flag; });
      asked.push_back(found == questions().end() ? nullptr : &*found);
    }
    std::optional<Answers> answers = answers_of(asked, lines, flags);
    if (!answers) continue;
    log::info("these are the answers for `accelerate config` {}", one.version);
    for (const Question& question : questions()) {  // those that it does not ask
      if (answers->contains(question.flag) || !question.is_asked(*answers)) continue;
      const auto& flag = flags.at(question.flag);
      (*answers)[question.flag] = flag ? accept(question, *flag) : fallback_of(question, *answers);
      if (!flag) log::info("{} {} (--{})", question.text, answers->at(question.flag), question.flag);
    }
    return answers;
  }
  return {};
}

/// Asks until the answer is valid; an empty line means the default.
std::string ask(const Question& question, const Answers& answers, std::istream& input) {
  const std::string fallback = fallback_of(question, answers);
  for (;;) {
    std::fputs(prompt_of(question, fallback).c_str(), stderr);
    std::string line;
    if (!std::getline(input, line)) {
      std::fputs("\n", stderr);
      fail(ErrorKind::usage,
           "the input ended before \"{}\" was answered; nothing was written. Answer it with --{}, or add --defaults to "
           "use defaults for the rest",
           question.text, question.flag);
    }
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) return fallback;
    try {
      std::string answer = accept(question, line);
      check_with(question, answer, answers);
      return answer;
    } catch (const Error& e) {
      fmt::print(stderr, "{}\n", e.what());
    }
  }
}

std::string yaml_of(const Answers& answers) {
  const auto answer = [&](const char* flag) {
    const auto found = answers.find(flag);
    return found == answers.end() ? std::string() : found->second;
  };
  const auto or_null = [](const std::string& text) { return text.empty() ? std::string("null") : text; };
  const bool multi = is_multi(answers), several = several_machines(answers);
  std::string text =
      "# Written by `trireme config wizard`; `accelerate` reads it too.\n"
      "# trireme launch --config-file FILE -- train config.yaml\n"
      "compute_environment: LOCAL_MACHINE\n";
  text += fmt::format("distributed_type: {}\n", is_multi_gpu(answers) ? "MULTI_GPU" : multi ? "MULTI_CPU" : "NO");
  text += fmt::format("machine_rank: {}\n", several ? answer("machine-rank") : "0");
  text += fmt::format("main_process_ip: {}\n", or_null(answer("main-process-ip")));
  text += fmt::format("main_process_port: {}\n", or_null(answer("main-process-port")));
  text += "main_training_function: main\n";
  text += fmt::format("mixed_precision: '{}'\n", answer("mixed-precision"));
  const int machines = multi ? std::stoi(answer("num-machines")) : 1;
  text += fmt::format("num_machines: {}\n", machines);
  text += fmt::format("num_processes: {}\n",
                      multi ? ranks_of_launch_file(machines, std::stoi(answer("num-processes"))) : 1);
  text +=
      fmt::format("rdzv_backend: {}\n", or_null(answer("rdzv-backend").empty() ? "static" : answer("rdzv-backend")));
  text += fmt::format("same_network: {}\n", answer("same-network") == "no" ? "false" : "true");
  const bool cpus = !is_multi_gpu(answers) && (multi || answer("cpu") == "yes");
  text += fmt::format("use_cpu: {}\n", cpus ? "true" : "false");
  if (answer("debug") == "yes") text += "debug: true\n";
  if (answer("ipex") == "yes") text += "ipex_config:\n  ipex: true\n";
  if (several) text += fmt::format("mpirun_config:\n  mpirun_hostfile: '{}'\n", answer("hostfile"));
  return text;
}

/// The answer from a flag, the default or a question.
std::string answer_of(const Question& question, const std::optional<std::string>& flag, bool defaults,
                      const Answers& answers, std::istream& input) {
  if (!flag) return defaults ? fallback_of(question, answers) : ask(question, answers, input);
  std::string answer = accept(question, *flag);
  check_with(question, answer, answers);
  return answer;
}

/// Throws Error::io if the file could not be written after all questions.
void require_place_for(const std::string& output) {
  const std::filesystem::path path(output), folder = path.has_parent_path() ? path.parent_path() : ".";
  require(std::filesystem::is_directory(folder), ErrorKind::io, "--output {}: the folder {} does not exist", output,
          folder.string());
  require(!std::filesystem::is_directory(path), ErrorKind::io, "--output {} is a folder; give the name of a file",
          output);
}

}  // namespace

int config_wizard(CommandLine line) {
  Flags app(std::move(line), "trireme config wizard",
            "Asks how ranks are started, as `accelerate config` does, and writes one YAML file.");
  app.set_footer(
      "Every answer can also be given as a flag; the other questions are asked, again after an invalid answer; an "
      "empty line means the default.");
  std::string output = "cluster.yaml";
  bool defaults = false;
  std::map<std::string, std::optional<std::string>> given;
  for (const Question& question : questions()) {
    app.add(fmt::format("--{}", question.flag), given[question.flag], prompt_of(question, question.fallback));
  }
  app.add("-o,--output", output, "file to write, - for standard output").show_default();
  app.add_switch("--defaults", defaults, "ask nothing: questions without a flag get their default answers");
  if (const auto code = app.parse()) return *code;

  if (output != "-") require_place_for(output);
  for (const Question& question : questions()) {  // a wrong flag is reported before anything is asked
    if (const auto& flag = given.at(question.flag)) accept(question, *flag);
  }
  Answers answers;
  std::istringstream piped;  // what is typed elsewhere is known as a whole, and may be accelerate's
  std::optional<Answers> known;
  const bool typed = defaults || isatty(STDIN_FILENO) == 1;
  if (!typed) {
    const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
    if (!fits_here(input, given)) known = answers_of_accelerate(input, given);
    piped.str(input);
  }
  std::istream& input = typed ? std::cin : static_cast<std::istream&>(piped);
  for (const Question& question : questions()) {
    const auto& flag = given.at(question.flag);
    if (!question.is_asked(answers)) {
      require(!flag, ErrorKind::usage, "--{} contradicts the other answers", question.flag);
      continue;
    }
    const std::string answer = known ? known->at(question.flag) : answer_of(question, flag, defaults, answers, input);
    answers[question.flag] = answer;
    if (answer == "yes" && *question.when_yes != '\0') {
      log::info("--{} yes changes nothing: {}", question.flag, question.when_yes);
    }
  }
  if (answers.contains("num-processes")) {
    const int machines = std::stoi(answers.at("num-machines")), processes = std::stoi(answers.at("num-processes"));
    if (processes < machines)
      log::info("{} for {}: taken as processes per machine, so num_processes is {}", count_text(processes, "process"),
                count_text(machines, "machine"), ranks_of_launch_file(machines, processes));
  }
  const std::string text = yaml_of(answers);
  if (output == "-") {
    fmt::print("{}", text);
    return 0;
  }
  write_text(output, text);
  log::info("wrote {}; use it with `trireme launch --config-file {} -- train config.yaml`", output, output);
  return 0;
}

}  // namespace trireme
