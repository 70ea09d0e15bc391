#include "bench/tokenize.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "base/time.h"

namespace trireme {

std::vector<std::string_view> cut_text(const Tokenizer& tokenizer, std::string_view text, size_t bytes) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = text.size() > bytes ? tokenizer.cut(text, bytes) : text.size();
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

EncodeTiming time_encode(const Tokenizer& tokenizer, const std::vector<std::string_view>& parts, int threads,
                         size_t rounds) {
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> tokens{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      std::vector<TokenId> ids;
      for (size_t i; (i = next.fetch_add(1)) < rounds * parts.size();) {
        ids.clear();
        tokenizer.encode_plain(parts[i % parts.size()], ids);
        tokens += ids.size();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  const auto start = Clock::now();
  std::vector<std::thread> helpers;
  for (int i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  if (error) std::rethrow_exception(error);
  return {seconds_since(start) / static_cast<double>(rounds), tokens / rounds};
}

DecodeTiming time_decode(const Tokenizer& tokenizer, const std::vector<std::vector<TokenId>>& parts, size_t rounds) {
  uint64_t bytes = 0;
  const auto start = Clock::now();
  for (size_t round = 0; round < rounds; ++round) {
    for (const std::vector<TokenId>& ids : parts) bytes += tokenizer.decode(ids).size();
  }
  return {seconds_since(start) / static_cast<double>(rounds), bytes / rounds};
}

}  // namespace trireme
