#include "bench/generate.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/numbers.h"
#include "base/time.h"
#include "generate/generator.h"
#include "model/presets.h"
#include "optim/training_state.h"

namespace trireme {
namespace {

constexpr size_t kPartWords = 1 << 12;  // 32 KiB

/// Seconds to read the memory once with this number of threads.
double read_once(std::span<const uint64_t> words, int threads) {
  constexpr size_t kTogether = 32;  // sums that do not wait for each other
  const auto start = Clock::now();
  uint64_t sum = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(^ : sum)
  for (size_t part = 0; part < words.size() / kPartWords; ++part) {
    uint64_t sums[kTogether] = {};
    const uint64_t* word = words.data() + part * kPartWords;
    for (size_t i = 0; i < kPartWords; i += kTogether) {
#pragma omp simd
      for (size_t k = 0; k < kTogether; ++k) sums[k] ^= word[i + k];
    }
    for (const uint64_t s : sums) sum ^= s;
  }
  const volatile uint64_t used = sum;  // the sum must be computed
  static_cast<void>(used);
  return seconds_since(start);
}

/// Elements that a token needs: the tables that are only looked up count nothing.
int64_t read_per_token(const ParameterTable& table) {
  int64_t count = table.flat_count();
  for (const Parameter& parameter : table.all()) {
    const bool table_of_rows = parameter.name.starts_with("embedding.") && parameter.stored_shape.dims() == 2;
    const bool head_too = parameter.name == "embedding.token.weight" && table.spec().tied_head;
    if (table_of_rows && !head_too) count -= parameter.count();
  }
  return count;
}

}  // namespace

GenerateBenchResult bench_generate(const GenerateBenchOptions& options, Ops& ops) {
  const Spec spec = preset(options.preset).spec;
  require(options.prompt + options.tokens <= spec.context, ErrorKind::usage,
          "--prompt {} and --tokens {} are more than the {} positions of {}", options.prompt, options.tokens,
          spec.context, options.preset);
  const ParameterTable table(spec);
  Device& device = ops.device();
  TrainingState state(table, options.dtype, false, {}, device);
  initialize(state, table, 1);
  Generator generator(spec, {&table, state.weights(), {}}, options.dtype, ops, options.threads);

  GenerateBenchResult result;
  result.weight_bytes = static_cast<double>(read_per_token(table)) * static_cast<double>(size_of(options.dtype));
  const bool on_host = device.is_host();
  const std::span words(on_host ? static_cast<const uint64_t*>(state.weights().data()) : nullptr,
                        on_host ? static_cast<size_t>(result.weight_bytes) / sizeof(uint64_t) : 0);
  std::vector<double> tokens, reads;
  GenerateOptions generate;
  generate.sampling.greedy = true;
  generate.max_new_tokens = options.tokens;
  Event start = device.stream().record_time();
  generator.run(std::vector<TokenId>(static_cast<size_t>(options.prompt), 1), generate, 0, [&](TokenId) {
    const Event end = device.stream().record_time();
    end.wait();
    tokens.push_back(end.seconds_since(start));
    if (on_host) reads.push_back(read_once(words, options.threads));
    start = device.stream().record_time();
    return true;
  });
  tokens.erase(tokens.begin(), tokens.begin() + 2);  // the prompt, and the first plans of one row
  result.seconds_per_token = median(tokens);
  if (on_host) result.seconds_per_read = median(reads);
  return result;
}

}  // namespace trireme
