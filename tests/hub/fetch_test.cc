#include "hub/fetch.h"

#include <sys/mount.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "base/time.h"
#include "hub/api.h"
#include "tests/hub/hub_fixture.h"

namespace trireme::hub {
namespace {

namespace fs = std::filesystem;
using Fetching = WithHub;

TEST_F(Fetching, BringsWhatAModelNeedsInTheLayoutOfHuggingFace) {
  const Snapshot snapshot = fetch_gpt2();
  EXPECT_EQ(snapshot.commit, FakeHub::kCommit);
  EXPECT_EQ(snapshot.folder, settings_.cache + "/models--gpt2/snapshots/" + FakeHub::kCommit);
  EXPECT_EQ(read_text(snapshot.folder + "/config.json"), kConfig);
  EXPECT_EQ(read_text(snapshot.folder + "/model.safetensors"), weights_);
  EXPECT_EQ(fs::read_symlink(snapshot.folder + "/config.json"), "../../blobs/" + hub_hash(kConfig, false));
  EXPECT_EQ(fs::read_symlink(snapshot.folder + "/model.safetensors"), "../../blobs/" + hub_hash(weights_, true));
  EXPECT_EQ(read_text(settings_.cache + "/models--gpt2/refs/main"), FakeHub::kCommit);
  EXPECT_TRUE(fs::exists(settings_.cache + "/.locks/models--gpt2/" + hub_hash(weights_, true) + ".lock"));
  EXPECT_FALSE(fs::exists(snapshot.folder + "/pytorch_model.bin"));  // safetensors are preferred
  EXPECT_FALSE(fs::exists(snapshot.folder + "/README.md"));
  const auto found = find_snapshot(settings_, gpt2_, "main", ModelSelection());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->folder, snapshot.folder);
}

TEST_F(Fetching, AsksForNothingThatIsThere) {
  fetch_gpt2();
  const size_t before = gets_elsewhere();
  fetch_gpt2();
  EXPECT_EQ(gets_elsewhere(), before);
  EXPECT_EQ(hub_.hub().requests().back().path, "/api/models/gpt2/revision/main");
}

TEST_F(Fetching, MakesFoldersOfFilesInFolders) {
  hub_.add("datasets/nyu-mll/glue", "mrpc/deep/er.parquet", "rows", true);
  const Snapshot snapshot = fetch(settings_, {Kind::dataset, "nyu-mll/glue"}, "main", GlobSelection({"mrpc/*"}), [] {});
  EXPECT_EQ(snapshot.files, Files{"mrpc/deep/er.parquet"});
  EXPECT_EQ(fs::read_symlink(snapshot.folder + "/mrpc/deep/er.parquet"), "../../../../blobs/" + hub_hash("rows", true));
  EXPECT_EQ(read_text(snapshot.folder + "/mrpc/deep/er.parquet"), "rows");
}

TEST_F(Fetching, TakesThePartsThatAnIndexNames) {
  const std::string index =
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})";
  hub_.add("models/big", "config.json", "{}");
  hub_.add("models/big", "model.safetensors.index.json", index);
  hub_.add("models/big", "model-00001-of-00002.safetensors", "one", true);
  hub_.add("models/big", "model-00002-of-00002.safetensors", "two", true);
  hub_.add("models/big", "other.safetensors", "three", true);
  const Repository big{Kind::model, "big"};
  const Snapshot snapshot = fetch(settings_, big, "main", ModelSelection(), [] {});
  EXPECT_EQ(read_text(snapshot.folder + "/model-00002-of-00002.safetensors"), "two");
  EXPECT_FALSE(fs::exists(snapshot.folder + "/other.safetensors"));
  ASSERT_TRUE(find_snapshot(settings_, big, "main", ModelSelection()));
  fs::remove(snapshot.folder + "/model-00002-of-00002.safetensors");
  EXPECT_FALSE(find_snapshot(settings_, big, "main", ModelSelection()));  // a part is missing
}

TEST_F(Fetching, ContinuesAfterALostConnection) {
  std::atomic<int> breaks = 0;
  hub_.trick_elsewhere([&](const WebRequest& request) -> std::optional<WebReply> {
    if (breaks >= 7) return std::nullopt;  // more often than the number of attempts: each one makes progress
    ++breaks;
    const std::string range = request.header("range");
    const size_t from = range.empty() ? 0 : std::stoul(range.substr(6));
    WebReply reply{200, {}, weights_.substr(from)};
    reply.break_after = 20'000;
    if (from > 0) {
      reply.status = 206;
      reply.headers = {{"Content-Range", fmt::format("bytes {}-{}/{}", from, weights_.size() - 1, weights_.size())}};
    }
    return reply;
  });
  EXPECT_EQ(read_text(fetch_gpt2().folder + "/model.safetensors"), weights_);
  const auto requests = hub_.elsewhere().requests();
  ASSERT_EQ(requests.size(), 8u);
  for (size_t i = 1; i < requests.size(); ++i) {
    const std::string range = requests[i].header("range");
    ASSERT_TRUE(range.starts_with("bytes=")) << range;
    EXPECT_GT(std::stoul(range.substr(6)), 0u);
  }
}

TEST_F(Fetching, ContinuesTheFileOfAnEarlierProcess) {
  fs::create_directories(settings_.cache + "/models--gpt2/blobs");
  write_text(blob(weights_, true) + ".incomplete", weights_.substr(0, 100'000));
  EXPECT_EQ(read_text(fetch_gpt2().folder + "/model.safetensors"), weights_);
  EXPECT_EQ(hub_.elsewhere().requests().at(0).header("range"), "bytes=100000-");
  EXPECT_FALSE(fs::exists(blob(weights_, true) + ".incomplete"));
}

TEST_F(Fetching, StartsAgainIfTheLeftoverIsWrong) {
  fs::create_directories(settings_.cache + "/models--gpt2/blobs");
  for (const std::string& left :
       {std::string(100'000, 'x'), std::string(weights_.size(), 'x'), std::string(400'000, 'x')}) {
    fs::remove(blob(weights_, true));
    fs::remove_all(settings_.cache + "/models--gpt2/snapshots");
    write_text(blob(weights_, true) + ".incomplete", left);
    EXPECT_EQ(read_text(fetch_gpt2().folder + "/model.safetensors"), weights_) << left.size();
  }
}

TEST_F(Fetching, FetchesWholeFilesFromAServerWithoutRanges) {
  fs::create_directories(settings_.cache + "/models--gpt2/blobs");
  write_text(blob(weights_, true) + ".incomplete", weights_.substr(0, 100'000));
  hub_.trick_elsewhere([&](const WebRequest&) { return WebReply{200, {}, weights_}; });
  EXPECT_EQ(read_text(fetch_gpt2().folder + "/model.safetensors"), weights_);
}

TEST_F(Fetching, RefusesContentsOfAnotherHash) {
  std::string other = weights_;
  other[1000] ^= 1;
  hub_.trick_elsewhere([&](const WebRequest&) { return WebReply{200, {}, other}; });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data,
               fmt::format("the contents have the hash {}, but the hub announced {}; fetched twice, both discarded",
                           hub_hash(other, true), hub_hash(weights_, true)));
  EXPECT_FALSE(fs::exists(blob(weights_, true) + ".incomplete"));
  expect_unpublished();
}

TEST_F(Fetching, RefusesSmallContentsOfAnotherHashToo) {
  hub_.trick([&](const WebRequest& request) -> std::optional<WebReply> {
    if (request.method != "GET" || !request.path.ends_with("config.json")) return std::nullopt;
    return WebReply{200, {}, std::string(std::string_view(kConfig).size(), '?')};
  });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data, "the hub announced " + hub_hash(kConfig, false));
  expect_unpublished();
}

TEST_F(Fetching, RefusesAnotherSize) {
  hub_.trick_elsewhere([&](const WebRequest&) { return WebReply{200, {}, weights_ + "more"}; });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data,
               fmt::format("{} bytes, expected {} as announced by the hub", weights_.size() + 4, weights_.size()));
  hub_.trick_elsewhere([&](const WebRequest&) { return WebReply{200, {}, "less"}; });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data,
               fmt::format("4 bytes, expected {} as announced by the hub", weights_.size()));
  expect_unpublished();
}

TEST_F(Fetching, RefusesARangeThatWasNotAskedFor) {
  fs::create_directories(settings_.cache + "/models--gpt2/blobs");
  write_text(blob(weights_, true) + ".incomplete", weights_.substr(0, 100'000));
  hub_.trick_elsewhere([&](const WebRequest&) {
    return WebReply{206,
                    {{"Content-Range", fmt::format("bytes 5-{}/{}", weights_.size() - 1, weights_.size())}},
                    weights_.substr(5)};
  });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data, "was asked for bytes from 100000 on but answers \"bytes 5-");
  expect_unpublished();
}

TEST_F(Fetching, ComesBackWhenARateIsLimited) {
  std::atomic<int> refusals = 0;
  hub_.trick([&](const WebRequest&) -> std::optional<WebReply> {
    if (refusals++ >= 3) return std::nullopt;
    return WebReply{429, {{"Retry-After", "0.2"}}, ""};
  });
  const auto start = Clock::now();
  fetch_gpt2();
  EXPECT_GE(seconds_since(start), 0.6);
  hub_.trick([](const WebRequest&) { return WebReply{429, {{"Retry-After", "86400"}}, ""}; });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::io, "status 429, and it asks to retry after 86400 s");
  hub_.trick([](const WebRequest&) { return WebReply{503, {}, ""}; });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::io, "status 503 (5 attempts)");
}

TEST_F(Fetching, GivesUpOnAServerThatStalls) {
  settings_.stalled_seconds = 1;
  std::atomic<int> calls = 0;
  hub_.trick_elsewhere([&](const WebRequest&) -> std::optional<WebReply> {
    if (calls++ > 0) return std::nullopt;
    WebReply reply{200, {}, weights_};
    reply.stall_seconds = 3;
    return reply;
  });
  EXPECT_EQ(read_text(fetch_gpt2().folder + "/model.safetensors"), weights_);
  EXPECT_EQ(calls, 2);
}

TEST_F(Fetching, NeverTakesTheTokenToAnotherHost) {
  settings_.token = "hf_secret";
  fetch_gpt2();
  for (const WebRequest& request : hub_.hub().requests())
    EXPECT_EQ(request.header("authorization"), "Bearer hf_secret");
  ASSERT_FALSE(hub_.elsewhere().requests().empty());
  for (const WebRequest& request : hub_.elsewhere().requests()) EXPECT_EQ(request.header("authorization"), "");
}

TEST_F(Fetching, FollowsARenamedModelOnTheSameHost) {
  hub_.trick([&](const WebRequest& request) -> std::optional<WebReply> {
    const size_t at = request.path.find("old-gpt2");
    if (at == std::string::npos) return std::nullopt;
    return WebReply{307, {{"Location", std::string(request.path).replace(at, 8, "gpt2")}}, ""};
  });
  const Snapshot snapshot = fetch(settings_, {Kind::model, "old-gpt2"}, "main", ModelSelection(), [] {});
  EXPECT_EQ(read_text(snapshot.folder + "/config.json"), kConfig);
}

TEST_F(Fetching, NeverConnectsUnencrypted) {
  hub_.trick([](const WebRequest&) { return WebReply{302, {{"Location", "http://cdn.example/x"}}, ""}; });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data,
               "redirects to http://cdn.example/x, which is neither https nor on this host");
  hub_.trick([](const WebRequest& request) { return WebReply{302, {{"Location", request.path}}, ""}; });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data, "redirects more than 10 times");
}

TEST_F(Fetching, AsksForATokenOrForConditions) {
  hub_.trick([](const WebRequest&) {
    return WebReply{401, {{"X-Error-Message", "Invalid username or password."}}, ""};
  });
  EXPECT_ERROR(
      fetch_gpt2(), ErrorKind::io,
      "the model gpt2 is missing on the hub, or users without a token (HF_TOKEN) cannot read it (401: Invalid");
  settings_.token = "hf_secret";
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::io,
               "the hub does not accept the token (401), or the token gives no access to gpt2");
  hub_.trick([](const WebRequest&) { return WebReply{403, {{"X-Error-Code", "GatedRepo"}}, ""}; });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::io,
               "accept the conditions of the model at " + settings_.endpoint + "/gpt2 as the token's owner");
  settings_.token.clear();
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::io, "and give a token (HF_TOKEN)");
  EXPECT_THROW(fetch_gpt2(), NotThere);
}

TEST_F(Fetching, SaysWhichRevisionOrFileIsMissing) {
  EXPECT_ERROR(fetch(settings_, gpt2_, "v9", ModelSelection(), [] {}), ErrorKind::io, "/gpt2 has no revision v9 (404)");
  EXPECT_ERROR(fetch(settings_, gpt2_, "main", GlobSelection({"*.gguf"}), [] {}), ErrorKind::io,
               "the model gpt2 on the hub has no file that matches *.gguf; it has README.md, config.json, ");
  hub_.add("models/empty", "README.md", "");
  EXPECT_ERROR(fetch(settings_, {Kind::model, "empty"}, "main", ModelSelection(), [] {}), ErrorKind::io,
               "the model empty on the hub has no config.json and weights (model.safetensors or pytorch_model.bin); it "
               "has README.md");
}

TEST_F(Fetching, RecognisesPagesThatAreNotOfAHub) {
  hub_.trick([](const WebRequest&) {
    return WebReply{200, {{"Content-Type", "text/html"}}, "<html>Please log in</html>"};
  });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data,
               "answers with a web page (text/html) instead of its list of files: it is not a Hugging Face hub");
  hub_.trick([](const WebRequest& request) -> std::optional<WebReply> {
    if (request.path.starts_with("/api/")) return std::nullopt;
    return WebReply{200, {{"Content-Type", "text/html"}, {"ETag", "\"1\""}}, "<html>Please log in</html>"};
  });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data, "answers with a web page (text/html) without a commit");
  hub_.trick([](const WebRequest& request) -> std::optional<WebReply> {
    if (request.path.starts_with("/api/")) return std::nullopt;
    return WebReply{200, {{"ETag", "\"md5\""}, {"X-Repo-Commit", FakeHub::kCommit}}, "x"};
  });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data, "has the tag \"md5\", which is not a SHA-256 or Git SHA-1");
}

TEST_F(Fetching, StaysInsideTheCacheWithAnyListOfTheHub) {
  hub_.add("models/evil", "config.json", "{}");
  hub_.add("models/evil", "../../../evil", "x");
  EXPECT_ERROR(fetch(settings_, {Kind::model, "evil"}, "main", GlobSelection({"*"}), [] {}), ErrorKind::data,
               "lists the file \"../../../evil\", whose path would leave the cache");
  hub_.trick([](const WebRequest&) {
    return WebReply{200, {{"Content-Type", "application/json"}}, R"({"sha": "../../x", "siblings": []})"};
  });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data, "names the commit \"../../x\"");
  hub_.trick([](const WebRequest&) { return WebReply{200, {{"Content-Type", "application/json"}}, "[1"}; });
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::data, "/api/models/gpt2/revision/main");
}

TEST_F(Fetching, TrustsNoUnknownCertificate) {
  settings_.certificates.clear();
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::io, "is not trusted: SSL certificate problem");
}

TEST_F(Fetching, ReportsAServerThatDoesNotAnswer) {
  {
    const HttpsServer gone([](const WebRequest&) { return WebReply{}; });
    settings_.endpoint = gone.url();
  }
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::io, "cannot fetch " + settings_.endpoint + "/api/models/gpt2/revision/main: ");
  settings_.offline = true;
  EXPECT_ERROR(fetch_gpt2(), ErrorKind::config, "HF_HUB_OFFLINE is set");
}

TEST_F(Fetching, GoesThroughAProxy) {
  HttpsServer proxy([](const WebRequest&) { return WebReply{502, {}, ""}; }, HttpsServer::Security::none);
  for (const char* name : {"no_proxy", "NO_PROXY"}) unsetenv(name);
  setenv("https_proxy", fmt::format("http://127.0.0.1:{}", proxy.port()).c_str(), 1);
  const Snapshot snapshot = fetch_gpt2();
  unsetenv("https_proxy");
  EXPECT_EQ(read_text(snapshot.folder + "/model.safetensors"), weights_);
  ASSERT_EQ(proxy.requests().size(), 2u);
  for (const WebRequest& request : proxy.requests()) EXPECT_EQ(request.method, "CONNECT");
}

TEST_F(Fetching, OfTwoProcessesOneFetchesAndTheOtherWaits) {
  hub_.trick_elsewhere([&](const WebRequest&) -> std::optional<WebReply> {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return std::nullopt;
  });
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;  // each opens the lock file separately, as processes do
  std::atomic<int> good = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { good += read_text(fetch_gpt2().folder + "/model.safetensors") == weights_ ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(good, 4);
  EXPECT_EQ(gets_elsewhere(), 1u);
  size_t waits = 0;
  for (size_t at = 0;
       (at = said.find("gpt2: waiting for another process on this host that fetches it", at)) != said.npos; ++at)
    ++waits;
  EXPECT_EQ(waits, 3u) << said;
}

TEST_F(Fetching, CanBeEnded) {
  hub_.trick([](const WebRequest&) { return WebReply{503, {{"Retry-After", "60"}}, ""}; });
  const auto start = Clock::now();
  EXPECT_ERROR(fetch(settings_, gpt2_, "main", ModelSelection(),
                     [&] { require(seconds_since(start) < 0.3, ErrorKind::stopped, "stopped while fetching"); }),
               ErrorKind::stopped, "stopped while fetching");
  EXPECT_LT(seconds_since(start), 30);
}

/// A small file system, if the test may mount one.
TEST_F(Fetching, SaysThatTheDiskIsTooSmallBeforeAndWhileItFills) {
  const std::string disk = folder_ / "disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=17m") != 0) GTEST_SKIP() << "a small disk cannot be mounted here";
  settings_.cache = disk + "/hub";
  const std::string large(2'000'000, 'w');
  hub_.add("models/large", "config.json", "{}");
  hub_.add("models/large", "model.safetensors", large, true);
  const Repository repository{Kind::model, "large"};
  const auto fetch_large = [&] { return fetch(settings_, repository, "main", ModelSelection(), [] {}); };
  EXPECT_ERROR(fetch_large(), ErrorKind::io, "large needs 18.8 MB more in ");
  EXPECT_EQ(gets_elsewhere(), 0u);
  // Another program fills it between the check and the end.
  fs::remove_all(settings_.cache);
  const std::string filler = disk + "/filler";
  hub_.add("models/small", "config.json", "{}");
  hub_.add("models/small", "model.safetensors", std::string(500'000, 's'), true);
  hub_.trick_elsewhere([&](const WebRequest&) -> std::optional<WebReply> {
    std::FILE* file = std::fopen(filler.c_str(), "w");
    const std::string block(65536, 'f');
    while (std::fwrite(block.data(), 1, block.size(), file) == block.size() && std::fflush(file) == 0) continue;
    std::fclose(file);
    return std::nullopt;
  });
  const auto fetch_small = [&] { return fetch(settings_, {Kind::model, "small"}, "main", ModelSelection(), [] {}); };
  EXPECT_ERROR(fetch_small(), ErrorKind::io, "No space left on device; the same command resumes from these bytes");
  fs::remove(filler);
  hub_.trick_elsewhere(nullptr);
  EXPECT_EQ(fs::file_size(fetch_small().folder + "/model.safetensors"), 500'000u);
  umount(disk.c_str());
}

}  // namespace
}  // namespace trireme::hub
