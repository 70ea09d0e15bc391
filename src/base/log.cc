#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

#include "base/error.h"

namespace trireme::log {
namespace {

struct State {
  std::shared_ptr<spdlog::logger> logger;
  std::string prefix;
  int rank = 0;
  State() {
    auto console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    logger = std::make_shared<spdlog::logger>("trireme", std::move(console));
    logger->set_pattern("%^%v%$");
    logger->flush_on(spdlog::level::info);
    // A full log disk or a closed terminal must never stop training.
    logger->set_error_handler([](const std::string&) {});
  }
};

State& state() {  // the process has one standard error stream, so it has one log
  static State instance;
  return instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}

}  // namespace

void set_identity(int rank, int size, std::string_view host) {
  state().rank = rank;
  state().prefix = size > 1 ? fmt::format("[{} {}] ", host, rank) : std::string();
}

void set_level(Level lowest) { state().logger->set_level(to_spdlog(lowest)); }

void add_file(std::string_view path) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(std::string(path));
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    state().logger->sinks().push_back(std::move(sink));
  } catch (const spdlog::spdlog_ex& e) {
    fail(ErrorKind::io, "cannot open log file {}: {}", path, e.what());
  }
}

void write(Level level, std::string_view message) {
  const char* word = level == Level::warning ? "warning: " : level == Level::error ? "error: " : "";
  state().logger->log(to_spdlog(level), "{}{}{}", state().prefix, word, message);
}

void write_once(Level level, std::string_view message) {
  if (state().rank != 0) return;
  const char* word = level == Level::warning ? "warning: " : level == Level::error ? "error: " : "";
  state().logger->log(to_spdlog(level), "{}{}", word, message);
}

}  // namespace trireme::log
