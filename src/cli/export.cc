// trireme export: a checkpoint as a Hugging Face folder.

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/model_folder.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "train/stop.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// A folder that becomes `target` at commit() and vanishes without it.
class PartialFolder {
 public:
  explicit PartialFolder(const std::string& target) : target_(fs::path(target).lexically_normal().string()), path_() {
    while (target_.size() > 1 && target_.ends_with('/')) target_.pop_back();
    require(!fs::exists(target_) || (fs::is_directory(target_) && fs::is_empty(target_)), ErrorKind::io,
            "{} exists and is not an empty folder; export to a new one", target);
    path_ = fmt::format("{}.partial-{}", target_, getpid());
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  ~PartialFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  void commit() {
    if (rename(path_.c_str(), target_.c_str()) == 0) return;
    fail(ErrorKind::io, "cannot rename {} to {}: {}", path_, target_, std::strerror(errno));
  }

 private:
  std::string target_, path_;
};

}  // namespace

int run_export(std::vector<std::string> arguments) {
  Flags app("trireme export", "Writes a model as a folder that Hugging Face transformers loads.");
  std::string model, output, dtype = "f32";
  app.add(
         "--checkpoint,--model", model,
         "run folder (its latest checkpoint), step folder, or another model to convert: a Hugging Face folder with any "
         "weights, a ckpt.pt of nanoGPT")
      .required();
  app.add("--output", output, "folder to write; it must not exist or be empty").required();
  app.add("--dtype", dtype, "type of the written weights").one_of({"f32", "bf16"}).show_default();
  bool force = false;
  app.add_switch("--force", force, "export a model although weights of it are NaN or infinite");
  if (const auto code = app.parse(std::move(arguments))) return *code;

  stop::install();
  const ModelFolder folder = open_model(model);
  PartialFolder partial(output);
  const ParameterTable table(folder.spec);
  TrainingState state(table, DType::f32, false);
  load_model(folder, folder.spec, table, state);
  if (!force)
    require_finite(state, table, folder.path,
                   "export an earlier step of the run (`trireme checkpoint list` shows them); --force exports it");
  if (folder.tokenizer_json.empty()) log::warning("{} has no tokenizer.json; none is written", folder.path);
  export_huggingface(partial.path(), folder.spec, table, state, folder.tokenizer_json,
                     dtype == "bf16" ? DType::bf16 : DType::f32, stop::requested);
  partial.commit();
  const std::string step = folder.checkpoint ? fmt::format("step {}, ", folder.checkpoint->facts.progress.step) : "";
  fmt::print("exported {} ({}{:.2f} M parameters, {}) to {}\n", folder.path, step,
             static_cast<double>(table.total()) / 1e6, dtype, output);
  return 0;
}

}  // namespace trireme
