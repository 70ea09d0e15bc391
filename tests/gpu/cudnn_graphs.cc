// Every attention that is left to cuDNN, built as far as that goes without a GPU.
// A graph that stops only at the missing driver is one that cuDNN has a deterministic engine for.

#include <fmt/format.h>

#include <exception>
#include <string>

#include "cuda/attention_cudnn.h"
#include "tests/gpu/without_gpu.h"

namespace trireme {
namespace {

struct Card {
  int capability;
  const char* name;
  int multiprocessors, shared_memory;  ///< bytes a block can have
};
constexpr Card kCards[] = {{80, "NVIDIA A100-SXM4-80GB", 108, 166912},
                           {86, "NVIDIA RTX A6000", 84, 101376},
                           {90, "NVIDIA H100 80GB HBM3", 132, 232448},
                           {100, "NVIDIA B200", 148, 232448}};

std::string properties(const Card& card) {
  return fmt::format(
      R"({{"version":1,"cudaDeviceId":0,"driverVer":13000,"deviceVer":{},"deviceName":"{}","multiProcessorCount":{},)"
      R"("maxSharedMemoryPerBlockOptin":{},"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,)"
      R"("maxRegistersPerSM":65536,"pciDeviceId":0,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
      R"("maxThreadsPerSM":{},"isTccDriver":0,"supportCoopLaunch":1,"l2CacheSize":41943040,)"
      R"("totalGlobalMem":85014740992,"smClockRateKHz":1410000,"memClockRateKHz":1593000}})",
      card.capability * 10, card.name, card.multiprocessors, card.shared_memory, card.capability == 86 ? 1536 : 2048);
}

int check_all() {
  int failed = 0, built = 0;
  for (const Card& card : kCards)
    for (const DType dtype : {DType::bf16, DType::f16})
      for (int head_dim = 32; head_dim <= 128; head_dim += 16)
        for (const int64_t length : {128, 192, 1024, 2048})
          for (const bool causal : {true, false})
            for (const bool backward : {false, true}) {
              const AttentionShape shape{.kv_heads = 12,
                                         .head_dim = head_dim,
                                         .causal = causal,
                                         .scale = 0.125f,
                                         .offsets = {},
                                         .equal_length = length};
              if (!reason_for_own_kernels(card.capability, dtype, shape, 0).empty()) continue;
              const AttentionCall call = attention_call(dtype, 16 * length, shape, backward);
              std::string answer;
              try {
                answer = build_without_gpu(call, card.capability, properties(card));
              } catch (const std::exception& e) {
                answer = std::string("refused: ") + e.what();
              }
              const bool good = answer.empty() || answer.find("libcuda") != std::string::npos;
              ++(good ? built : failed);
              if (!good)
                fmt::print("{} {} head size {} length {} {} {}: {}\n", card.capability, name_of(dtype), head_dim,
                           length, causal ? "causal" : "all", backward ? "backward" : "forward", answer);
            }
  fmt::print("{} graphs of cuDNN built up to the missing driver, {} refused\n", built, failed);
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace trireme

int main() { return trireme::check_without_gpu(trireme::check_all); }
