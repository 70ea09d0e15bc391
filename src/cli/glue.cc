// trireme glue: fine-tunes an encoder on a GLUE task or on rows of one's own, with run_glue's arguments.

#include "cli/command.h"
#include "cli/early_read.h"
#include "cli/glue_flags.h"
#include "cli/version.h"
#include "comm/agreement.h"
#include "train/glue/finetune.h"

namespace trireme {

int run_glue(std::vector<std::string> arguments) {
  if (const auto code = print_glue_help(arguments)) return *code;
  const Launcher launcher = detect_launcher();
  name_this_rank(launcher);
  EarlyRead<GlueOptions> early([&] { return read_glue_flags(arguments); });
  Process process(launcher, start_limit(early.found() ? early.found()->native.config.run : RunOptions()));
  return process.run([&] {
    Scalars scalars(process.world());
    GlueOptions options;
    together(scalars, [&] { options = early.take(); });
    return finetune(options, process, build_text());
  });
}

}  // namespace trireme
