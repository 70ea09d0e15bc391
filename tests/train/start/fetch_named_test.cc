// Models by name on several ranks: one of each host fetches, and a fetch that takes long is no hang.

#include "train/start/ranks.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "comm/control/liveness.h"
#include "tests/hub/hub_fixture.h"
#include "tests/support/local_ranks.h"

namespace trireme {
namespace {

class FetchNamed : public hub::WithHub {
 protected:
  FetchNamed() {
    setenv("HF_HUB_CACHE", settings_.cache.c_str(), 1);
    setenv("HF_ENDPOINT", settings_.endpoint.c_str(), 1);
    setenv("REQUESTS_CA_BUNDLE", settings_.certificates.c_str(), 1);
    unsetenv("HF_HUB_OFFLINE");
  }
  ~FetchNamed() override {
    for (const char* name : {"HF_HUB_CACHE", "HF_ENDPOINT", "REQUESTS_CA_BUNDLE"}) unsetenv(name);
    setenv("HF_HUB_OFFLINE", "1", 1);
  }
  /// The large file stands still for so long before its first byte.
  void stall(double seconds) {
    hub_.trick_elsewhere([this, seconds](const WebRequest&) -> std::optional<WebReply> {
      WebReply reply{200, {}, weights_};
      reply.stall_seconds = seconds;
      return reply;
    });
  }
  static void fetch_gpt2_on(RankContext& rank) {
    Scalars scalars(rank.world);
    fetch_named({.model = "gpt2", .tokenizer = "", .glue_task = ""}, rank, scalars, {});
  }
};

TEST_F(FetchNamed, OneRankOfEachHostFetchesAndTheOthersWaitWithALine) {
  std::mutex mutex;
  std::string text;
  log::set_listener([&](std::string_view line) {
    const std::lock_guard lock(mutex);
    (text += line) += '\n';
  });
  stall(0.5);
  run_local(4, fetch_gpt2_on, {.hosts = {"h1", "h1", "h2", "h2"}});
  log::set_listener({});
  EXPECT_THAT(text, testing::HasSubstr("[rank 1] waiting until another rank of h1 has fetched gpt2"));
  EXPECT_THAT(text, testing::HasSubstr("[rank 3] waiting until another rank of h2 has fetched gpt2"));
  EXPECT_THAT(text, testing::HasSubstr("] gpt2: waiting for another process on this host that fetches it"))
      << "the hosts share the cache here";
  EXPECT_EQ(gets_elsewhere(), 1u);
}

/// The watch of a job, whose clock runs sixty times as fast: its 120 s for what does not move in the start are two.
TEST_F(FetchNamed, ALongFetchIsNotAHang) {
  constexpr int kFaster = 60;
  stall(5);
  std::array<std::atomic<Heartbeat*>, 2> progress{};
  std::atomic<bool> done = false;
  std::string lost;
  const auto start = Clock::now();
  const auto now = [&] { return start + (Clock::now() - start) * kFaster; };
  std::thread watch([&] {
    Liveness liveness(2, 10, start);
    for (int rank = 0; rank < 2; ++rank) liveness.join(rank, "h1", start);
    while (!done && lost.empty()) {
      for (int rank = 0; rank < 2; ++rank) {
        if (Heartbeat* own = progress[static_cast<size_t>(rank)]) liveness.heard(rank, own->state(), now());
      }
      if (progress[0] && progress[1]) {
        if (const auto loss = liveness.judge(now())) lost = describe(*loss);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  run_local(2, [&](RankContext& rank) {
    progress[static_cast<size_t>(rank.rank())] = rank.heartbeat;
    fetch_gpt2_on(rank);
    done = true;
    rank.world.barrier().wait("the ranks of the test");
    progress[static_cast<size_t>(rank.rank())] = nullptr;
    if (watch.joinable() && rank.rank() == 0) watch.join();
    rank.world.barrier().wait("the ranks of the test");
  });
  EXPECT_EQ(lost, "");
  EXPECT_GE(seconds_since(start), 5);
  EXPECT_EQ(gets_elsewhere(), 1u);
}

}  // namespace
}  // namespace trireme
