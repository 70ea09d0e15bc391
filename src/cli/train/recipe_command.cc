#include "cli/train/recipe_command.h"

#include <exception>
#include <utility>

#include "base/log_form.h"
#include "base/stop.h"
#include "cli/version.h"
#include "comm/agreement.h"
#include "comm/control/start_watch.h"
#include "train/start/start.h"

namespace trireme {
namespace {

using Reader = std::function<std::unique_ptr<Recipe>(const std::vector<std::string>&)>;

/// The arguments needed before MPI starts (run.start-timeout). Errors in the arguments are reported once, by all ranks
/// together, after MPI has started.
class EarlyRead {
 public:
  EarlyRead(const std::vector<std::string>& arguments, const Reader& read) {
    try {
      recipe_ = read(arguments);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  StartLimit start_limit() const {
    return {recipe_ ? recipe_->config().run.start_timeout : Config().run.start_timeout, "--run.start-timeout"};
  }
  log::LineForm line_form() const {
    const LogOptions options = recipe_ ? recipe_->config().log : LogOptions();
    return options.json ? log::LineForm::json : options.time ? log::LineForm::timed : log::LineForm::plain;
  }
  /// Throws the error of reading, once.
  std::unique_ptr<Recipe> take() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(recipe_);
  }

 private:
  std::unique_ptr<Recipe> recipe_;
  std::exception_ptr failure_;
};

}  // namespace

int run_recipe(const std::vector<std::string>& arguments,
               const std::function<std::unique_ptr<Recipe>(const std::vector<std::string>&)>& read) {
  stop::install();  // MPI's start-up may take long, and may replace these handlers by its own
  const Launcher launcher = detect_launcher();
  name_this_rank(launcher);
  EarlyRead early(arguments, read);
  log::set_line_form(early.line_form());
  Process process(launcher, early.start_limit());
  return process.run([&] {
    Scalars scalars(process.world());
    std::unique_ptr<Recipe> recipe;
    together(scalars, [&] { recipe = early.take(); });
    return start(*recipe, process, build_text());
  });
}

}  // namespace trireme
