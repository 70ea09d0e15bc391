#include "cli/run/status.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/web_address.h"
#include "report/live/metrics_server.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr auto kTurn = std::chrono::milliseconds(200);
constexpr int kTurnsPerLook = 10;

/// Changes when the file grows or is replaced.
struct FileState {
  fs::file_time_type time;
  uintmax_t bytes = 0;

  static FileState of(const fs::path& file) {
    std::error_code ignored;
    FileState state{fs::last_write_time(file, ignored), fs::file_size(file, ignored)};
    return state;
  }
  bool operator==(const FileState&) const = default;
};

}  // namespace

int serve_page(const std::string& run, const std::string& address, const std::string& token) {
  const std::optional<ListenAddress> place = parse_listen_address(address);
  require(place.has_value(), ErrorKind::usage,
          "--page is \"{}\", expected a port like 8080, or ADDRESS:PORT like 0.0.0.0:8080", address);
  require(
      place->is_loopback() || !token.empty(), ErrorKind::usage,
      "--page {} can be reached from other hosts; name a file with a token that readers have to send by --token, or "
      "set --page {} for this host only",
      address, place->port);
  const fs::path file = fs::path(run) / "metrics.jsonl";
  FileState shown = FileState::of(file);
  const auto board = std::make_shared<RunBoard>(fs::weakly_canonical(run).filename().string(), "", 1, 0);
  board->set_earlier(read_run_log(file.string()));
  const std::atomic<bool>& ends = stop::watch();
  const MetricsServer server(*place, token.empty() ? std::string() : read_token(token, "--token"), board);
  fmt::print("{} at {}; Ctrl-C ends this command\n", run, server.url());
  if (std::fflush(stdout) != 0) return 0;  // the reader is closed
  bool readable = true;
  for (int turn = 1; !ends; ++turn) {
    std::this_thread::sleep_for(kTurn);
    if (turn % kTurnsPerLook != 0 || FileState::of(file) == shown) continue;
    shown = FileState::of(file);
    try {  // a file that is being replaced, or is gone, leaves what was shown
      board->set_earlier(read_run_log(file.string()));
      readable = true;
    } catch (const Error& e) {
      if (readable) log::warning("{}; the page still shows what it had", e.what());
      readable = false;
    }
  }
  return 0;
}

}  // namespace trireme
