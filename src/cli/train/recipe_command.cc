#include "cli/command.h"

#include <exception>

#include "base/log_form.h"
#include "base/stop.h"
#include "cli/version.h"
#include "comm/agreement.h"
#include "comm/process.h"
#include "comm/start_watch.h"
#include "train/start/recipe.h"

namespace trireme {
namespace {

log::LineForm line_form(const LogOptions& options) {
  return options.json ? log::LineForm::json : options.time ? log::LineForm::timed : log::LineForm::plain;
}

}  // namespace

int run_recipe(const std::function<std::unique_ptr<Recipe>()>& read) {
  stop::install();  // MPI's start-up may take long, and may replace these handlers by its own
  const Launcher launcher = detect_launcher();
  name_this_rank(launcher);
  std::unique_ptr<Recipe> recipe;
  std::exception_ptr failure;  // of the words: reported once, by all ranks together, after MPI has started
  try {
    recipe = read();
  } catch (...) {
    failure = std::current_exception();
  }
  const Config config = recipe ? recipe->options().config : Config();
  log::set_line_form(line_form(config.log));
  Process process(launcher, {config.run.start_timeout, "--run.start-timeout", config.run.mpi});
  return process.run([&] {
    Scalars scalars(process.world());
    together(scalars, [&] {
      if (failure) std::rethrow_exception(failure);
    });
    return start(*recipe, process, build_text());
  });
}

}  // namespace trireme
