#include "cluster/health/bash_host.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/write_signals.h"
#include "cluster/health/match.h"
#include "cluster/health/nhc_settings.h"

namespace trireme::health {
namespace {

constexpr int kFromTrireme = 198, kToTrireme = 199;  // above the descriptors that scripts use

/// The word that begins a message, and the number of words that follow; -1: the first of them is their number.
struct Form {
  std::string_view name;
  int words;
};
constexpr Form kForms[] = {{"log", 1},     {"fail", 2},   {"match", 2},  {"check", -1},  {"unknown", 1},
                           {"site", 1},    {"called", 1}, {"cpus", 0},   {"trusted", 1}, {"refused", 2},
                           {"loading", 1}, {"ready", 0},  {"syntax", 1}, {"done", 2}};

int number_of(const std::string& text, int absent) {
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos) return absent;
  return std::stoi(text);
}

/// The first line of what a shell wrote since the file was emptied.
std::string first_line(int fd) {
  std::array<char, 2000> buffer;
  const ssize_t got = pread(fd, buffer.data(), buffer.size(), 0);
  const std::string text(buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text.substr(0, text.find('\n'));
}

/// "bash: line 1: x: command not found" without "bash: line 1: ".
std::string without_place(const std::string& text) {
  const size_t line = text.find("line ");
  const size_t colon = line == std::string::npos ? line : text.find(": ", line);
  if (colon == std::string::npos || line > 40) return text;
  return text.substr(colon + 2);
}

/// A result for a line of the configuration, or for a site script (0).
Outcome of_line(int number, std::string why) {
  return number > 0 ? unusable(std::move(why)) : not_checked(std::move(why));
}

}  // namespace

BashHost::BashHost(const Machine& machine, Callbacks callbacks) : machine_(machine), callbacks_(std::move(callbacks)) {}

BashHost::~BashHost() {
  for (const int fd : {to_, from_, out_, err_}) {
    if (fd >= 0) close(fd);
  }
}

void BashHost::set(const std::string& name, const std::string& value) {
  variables_.emplace_back(name, value);
  if (pid_ != 0) say({"set", name, value});
}

void BashHost::start(std::vector<LineResult>& results) {
  std::array<int, 2> there{}, back{};  // sockets: writing to a shell that has exited raises no signal
  out_ = out_ < 0 ? memfd_create("out", MFD_CLOEXEC) : out_;
  err_ = err_ < 0 ? memfd_create("err", MFD_CLOEXEC) : err_;
  const bool made = out_ >= 0 && err_ >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, there.data()) == 0 &&
                    pipe2(back.data(), O_CLOEXEC) == 0;
  require(made, ErrorKind::io, "cannot create pipes for bash: {}", std::strerror(errno));
  std::vector<std::string> words = {"bash", "--noprofile", "--norc", "-c", nhc_environment_script(), "nhc"};
  for (const KnownCheck& known : known_checks()) {
    if (known.make != nullptr) words.emplace_back(known.name);
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  require(pid_ >= 0, ErrorKind::io, "cannot start bash: {}", std::strerror(errno));
  if (pid_ == 0) {
    setpgid(0, 0);  // processes that it starts on purpose outlive the checks; the shell itself ends with this process
    fcntl(out_, F_SETFL, O_APPEND);
    fcntl(err_, F_SETFL, O_APPEND);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(out_, 1);
    dup2(err_, 2);
    dup2(there[0], kFromTrireme);
    dup2(back[1], kToTrireme);
    restore_write_signals();
    execv("/bin/bash", arguments.data());
    _exit(127);
  }
  close(there[0]);
  close(back[1]);
  to_ = there[1];
  from_ = back[0];
  ended_ = false;
  text_.clear();
  while (receive(results, 0)) {
  }
  for (const auto& [name, value] : variables_) say({"set", name, value});
}

void BashHost::say(const std::vector<std::string>& words) {
  std::string text;
  for (std::string word : words) {
    std::erase(word, '\0');  // of a command's output; it ends a word
    text.append(word).push_back('\0');
  }
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t put = send(to_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (put < 0 && errno != EINTR) return;  // it has exited, which is noticed when its answer is read
    if (put > 0) sent += static_cast<size_t>(put);
  }
}

std::string BashHost::next() {
  for (;;) {
    const size_t end = text_.find('\0');
    if (end != std::string::npos) {
      std::string word = text_.substr(0, end);
      text_.erase(0, end + 1);
      return word;
    }
    if (ended_) return "";
    pollfd polled{from_, POLLIN, 0};
    const int ready = poll(&polled, 1, 100);
    // The pipe alone does not show it: background processes of the shell hold it open.
    int status = 0;
    const bool gone = ready == 0 && waitpid(pid_, &status, WNOHANG) == pid_;
    std::array<char, 4096> buffer;
    const ssize_t got = ready > 0 ? read(from_, buffer.data(), buffer.size()) : -1;
    if (got > 0) {
      text_.append(buffer.data(), static_cast<size_t>(got));
    } else if (gone || got == 0) {
      if (!gone) waitpid(pid_, &status, 0);
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      ended_ = true;
      pid_ = 0;
      close(to_);
      close(from_);
      to_ = from_ = -1;
    }
  }
}

/// Handles a message. False: it was the last of a line, or the shell exited.
bool BashHost::receive(std::vector<LineResult>& results, int number) {
  const std::string name = next();
  if (ended_ && name.empty()) return false;
  const auto form = std::ranges::find(kForms, name, &Form::name);
  require(form != std::end(kForms), ErrorKind::data,
          "a site script wrote to descriptor {}, which is reserved; use another one", kToTrireme);
  const int count = form->words >= 0 ? form->words : number_of(next(), 0);
  std::vector<std::string> words = {name};
  for (int i = 0; i < count; ++i) words.push_back(next());
  const std::string where = number > 0 ? fmt::format("line {}: ", number) : "";
  if (name == "log") {
    remarks_ += (remarks_.empty() ? "" : "; ") + words[1];
  } else if (name == "fail") {
    const int code = std::clamp(number_of(words[1], 1), 1, 255);
    results.push_back({last_check_, {Outcome::Kind::fail, words[2], code}});
    last_check_.clear();
    explained_ = true;
  } else if (name == "called") {
    if (std::ranges::find(called_, words[1]) == called_.end()) called_.push_back(words[1]);
  } else if (name == "unknown") {
    const std::string check = words[1].substr(0, words[1].find(' '));
    results.push_back({words[1], of_line(number, where + callbacks_.why_unknown(check))});
  } else if (name == "refused") {
    results.push_back({words[1], of_line(number, fmt::format("{}{}: not read: {}", where, words[1], words[2]))});
    explained_ = true;
  } else if (name == "syntax") {
    results.push_back({"", of_line(number, fmt::format("{}bash cannot parse it: {}", where, words[1]))});
  } else if (name == "loading") {
    loading_ = words[1];
  } else if (name == "ready") {
    loading_.clear();
    return false;
  } else if (name == "done") {
    code_ = number_of(words[1], 1);
    setenv("PATH", words[2].c_str(), 1);
    return false;
  } else {
    answer(words, results);
  }
  return true;
}

void BashHost::answer(const std::vector<std::string>& asked, std::vector<LineResult>& results) {
  if (asked[0] == "match") {
    try {
      say({Match(asked[2])(asked[1]) ? "0" : "1", ""});
    } catch (const Error& e) {
      say({"2", e.what()});
    }
  } else if (asked[0] == "site") {
    say({is_of_the_site(asked[1]) ? "1" : "0", ""});
  } else if (asked[0] == "trusted") {
    const std::string reason = why_not_trusted(asked[1]);
    say({reason.empty() ? "0" : "1", reason});
  } else if (asked[0] == "cpus") {
    const CpuCount count = count_cpus(machine_);
    say({"0", fmt::format("{} {} {}", count.sockets, count.cores, count.threads)});
  } else {  // check
    const std::vector<std::string> words(asked.begin() + 1, asked.end());
    const Outcome outcome = callbacks_.check(words);
    const std::string text = fmt::format("{}", fmt::join(words, " "));
    if (outcome.kind == Outcome::Kind::fail) last_check_ = text;  // its `die` follows
    passed_ = passed_ || outcome.kind == Outcome::Kind::pass;
    if (outcome.kind == Outcome::Kind::skipped || outcome.kind == Outcome::Kind::not_checked) {
      results.push_back({text, outcome});
    }
    if (outcome.kind == Outcome::Kind::pass && !outcome.text.empty()) {
      remarks_ += (remarks_.empty() ? "" : "; ") + outcome.text;
    }
    say({outcome.kind == Outcome::Kind::fail ? "fail" : "pass", outcome.text, outcome.output});
  }
}

std::vector<LineResult> BashHost::run(const std::string& line, int number) {
  std::vector<LineResult> results;
  remarks_.clear();
  last_check_.clear();
  called_.clear();
  passed_ = false;
  code_ = 0;
  if (pid_ == 0) {
    start(results);
    if (started_) results.clear();  // reported when the first shell was started
    started_ = true;
  }
  explained_ = false;
  if (ended_) {
    const std::string file = loading_.empty() ? "bash did not start" : loading_ + " made bash exit";
    results.push_back({line, of_line(number, fmt::format("line {}: {} (code {})", number, file, code_))});
    ended_ = false;
    return results;
  }
  const bool emptied = ftruncate(out_, 0) == 0 && ftruncate(err_, 0) == 0;
  require(emptied, ErrorKind::io, "cannot clear bash's output: {}", std::strerror(errno));
  const size_t before = results.size();
  say({"run", line});
  while (receive(results, number)) {
  }
  for (size_t i = before; i < results.size(); ++i) {
    if (results[i].check.empty()) results[i].check = line;
  }
  if (code_ != 0 && !explained_) {
    results.push_back(failure(line));
  } else if (results.size() == before || passed_) {
    results.push_back({line, passed(remarks_)});
    results.back().outcome.called = called_;
  }
  return results;
}

LineResult BashHost::failure(const std::string& line) const {
  const std::string err = without_place(first_line(err_)), said = err.empty() ? first_line(out_) : err;
  const std::string how = code_ > 128 && ended_ ? fmt::format("was killed by signal {}", code_ - 128)
                                                : fmt::format("ended with code {}", code_);
  return {line, {Outcome::Kind::fail, fmt::format("`{}` {}{}{}", line, how, said.empty() ? "" : ": ", said), code_}};
}

}  // namespace trireme::health
