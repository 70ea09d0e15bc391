// trireme glue: fine-tunes an encoder on a GLUE task or on rows of one's own, with run_glue's arguments.

#include "cli/command.h"
#include "cli/glue_flags.h"
#include "cli/version.h"
#include "comm/agreement.h"
#include "train/glue/finetune.h"

namespace trireme {

int run_glue(std::vector<std::string> arguments) {
  if (const auto code = print_glue_help(arguments)) return *code;
  Process process;
  return process.run([&] {
    Scalars scalars(process.world());
    GlueOptions options;
    together(scalars, [&] { options = read_glue_flags(arguments); });
    return finetune(options, process, build_text());
  });
}

}  // namespace trireme
