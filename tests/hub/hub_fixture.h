#pragma once
// A hub with a model, and settings for it.

#include <gtest/gtest.h>

#include <filesystem>

#include "hub/fetch.h"
#include "hub/http.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_hub.h"
#include "tests/support/temporary_folder.h"

namespace trireme::hub {

class WithHub : public testing::Test {
 protected:
  WithHub() {
    std::string weights;
    for (int i = 0; weights.size() < 300'000; ++i) weights += std::to_string(i * 7919);
    weights_ = weights;
    hub_.add("models/gpt2", "config.json", kConfig);
    hub_.add("models/gpt2", "tokenizer.json", "{\"model\": {}}");
    hub_.add("models/gpt2", "model.safetensors", weights_, true);
    hub_.add("models/gpt2", "pytorch_model.bin", "a pickle", true);
    hub_.add("models/gpt2", "README.md", "# gpt2");
    settings_.cache = folder_ / "hub";
    settings_.endpoint = hub_.hub().url();
    settings_.certificates = HttpsServer::certificate();
    settings_.first_wait = 0.01;
    settings_.stalled_seconds = 2;
  }

  Snapshot fetch_gpt2() {
    return fetch(settings_, gpt2_, "main", ModelSelection(), [] {});
  }
  std::string blob(const std::string& contents, bool large) const {
    return Cache(settings_.cache, gpt2_).blob(hub_hash(contents, large));
  }
  /// Checks that a failed fetch leaves no files of the model.
  void expect_unpublished() const {
    EXPECT_FALSE(std::filesystem::exists(blob(weights_, true)));
    EXPECT_FALSE(find_snapshot(settings_, gpt2_, "main", ModelSelection()));
  }
  /// Requests to the other host, by method.
  size_t gets_elsewhere() const { return hub_.elsewhere().requests().size(); }

  static constexpr const char* kConfig = "{\"model_type\": \"gpt2\"}";
  TemporaryFolder folder_;
  FakeHub hub_;
  Settings settings_;
  Repository gpt2_{Kind::model, "gpt2"};
  std::string weights_;
};

}  // namespace trireme::hub
