#pragma once
// The backend that a model computes with. The only place that chooses it: all other code gets a Backend or its
// operators.

#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace trireme {

struct Backend {
  std::unique_ptr<Device> device;  ///< nullptr: the host
  std::unique_ptr<Ops> ops;
  std::string hardware;  ///< "AMD EPYC 9654"; "NVIDIA H100 80GB HBM3, compute capability 9.0, ..."
  std::string gpu{};     ///< its place in the host: two ranks of a host must not have the same one; empty: none
  std::string kernels;   ///< the instruction set in use: "avx512bf16"; "cuda"
  std::string reason{};  ///< why no faster one: "this CPU has no AMX"
  std::vector<std::string> libraries{};  ///< that compute or connect: "cuBLASLt 130200", "cuDNN 9.19.0", "NCCL 2.28.9"
  bool has_bf16 = false;                 ///< it has instructions for bf16
  bool multiplies_bf16 = false;          ///< bf16 products are made by them; else their operands are widened to f32
};

/// The fast operators of this machine's CPU (ops/cpu). Throws Error::usage when TRIREME_ISA names an instruction set
/// that it lacks.
Backend make_backend();

/// What the operators of a GPU are free to choose.
struct GpuOptions {
  std::string products;  ///< file of the matrix products' methods that were timed; it may be missing; empty: none
  bool tune = false;     ///< products that the file lacks are timed and added to it; else they take the usual method
  bool cudnn = false;    ///< attention by cuDNN where it is deterministic and computes the same
  int ranks = 1;         ///< of the job: several need the library that connects their GPUs
  bool network = false;  ///< load that library for one rank, too
  int local_rank = 0;    ///< the rank's place among those of its host, which have a GPU each
};

/// The operators of the choice. automatic: those of a GPU if libtrireme_cuda.so is there and can use one; the log says
/// why not if only the library is there. Throws Error::usage, naming the `option`, if a GPU was asked for and none can
/// be used, with what to do.
Backend make_backend(DeviceChoice choice, std::string_view option = "run.device", const GpuOptions& gpu = {});

/// The same for work whose ranks share no GPUs: several compute on CPUs. Throws Error::config if GPUs were asked for.
Backend make_backend_of_one(DeviceChoice choice, int ranks, std::string_view option);

/// The operators of a GPU as far as a plan needs them, on machines without a GPU and without libtrireme_cuda.so. Sizes
/// only: scratch_bytes() and head_block() are those of the GPU's operators without cuDNN, the device is not the host.
/// Operators refuse activations of every type, and the device allocates nothing.
std::unique_ptr<Ops> make_planned_gpu_ops();

/// Lines for --version: the library and the hardware that the CPU's operators use.
std::string backend_versions();

}  // namespace trireme
