// trireme parity: compares the results of a model with those of another framework.

#include "checkpoint/parity/parity.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/count.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/train/mesh_flags.h"
#include "comm/agreement.h"
#include "ops/backend.h"

namespace trireme {
namespace {

/// Prints the comparison. Throws Error::data if the error of a tensor exceeds the tolerance.
void judge(const std::vector<ParityTensor>& tensors, double tolerance, const std::string& case_file, bool prints) {
  size_t bad = 0;
  double worst = 0;
  if (prints) fmt::print("{:>10}  {:>10}  tensor\n", "error", "largest");
  for (const ParityTensor& tensor : tensors) {
    const bool off = !(tensor.error <= tolerance);
    bad += off;
    worst = std::max(worst, tensor.error);
    if (prints)
      fmt::print("{:>10.2e}  {:>10.2e}  {}{}\n", tensor.error, tensor.want, tensor.name, off ? "  <- too large" : "");
  }
  if (prints)
    fmt::print("{}, largest error {:.2e}, tolerance {:.2e}: {}\n", count_text(tensors.size(), "tensor"), worst,
               tolerance, bad == 0 ? "equal" : "different");
  if (bad > 0)  // on every rank
    throw CommonError(ErrorKind::data, fmt::format("{} of {} differ from {} by more than {}", bad,
                                                   count_text(tensors.size(), "tensor"), case_file, tolerance));
}

}  // namespace

int run_parity(CommandLine line) {
  Flags flags(std::move(line), "trireme parity",
              "Compares logits, loss and every gradient of a model folder with those of another framework "
              "(scripts/make_parity_case.py makes a case). Dropout is off.");
  std::string model, case_file, adapter;
  DType dtype = DType::f32;
  double tolerance = 1e-3;
  int64_t threads = 0;
  flags.add("--model", model, "Hugging Face folder, or another model: a run or a checkpoint of GPT-NeoX").required();
  flags
      .add("--case", case_file,
           "safetensors file with inputs and expected results: logits, loss, gradients (all or none)")
      .required();
  flags.add("--adapter", adapter,
            "folder of a LoRA adapter of PEFT for this model; the gradients are those of the adapter (a case of it: "
            "make_parity_case.py --adapter)");
  flags.add("--tolerance", tolerance, "largest error of a tensor, relative to its largest value")
      .positive()
      .show_default();
  flags.choice("--dtype", dtype, "weights and activations; bf16 needs a tolerance of about 0.25",
               {DType::f32, DType::bf16});
  DeviceChoice device = DeviceChoice::automatic;
  flags.choice("--device", device, "auto: a GPU if one can be used, else the CPU; cpu; cuda. Several ranks use CPUs");
  flags.add("--threads", threads, "threads of each rank; 0: all cores").in_range(0, 1024);
  MeshFlags mesh_flags;
  mesh_flags.declare(flags);
  if (const auto code = flags.parse()) return *code;

  Process process;
  return process.run([&] {
    const std::unique_ptr<Mesh> mesh = mesh_flags.mesh(process);
    const int own_threads = rank_threads(process, threads);
    const Backend backend = make_backend_of_one(device, process.size(), "--device");
    const auto tensors = compare_with_case(model, case_file, dtype, *backend.ops, own_threads, mesh.get(), adapter);
    judge(tensors, tolerance, case_file, process.rank() == 0);
    return 0;
  });
}

}  // namespace trireme
