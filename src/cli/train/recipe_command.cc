#include "cli/train/recipe_command.h"

#include <exception>
#include <utility>

#include "base/stop.h"
#include "cli/version.h"
#include "comm/agreement.h"
#include "comm/control/start_watch.h"
#include "train/start/start.h"

namespace trireme {
namespace {

using Reader = std::function<std::unique_ptr<Recipe>(const std::vector<std::string>&)>;

/// What a command's arguments say is needed before MPI starts (run.start-timeout); what is wrong with them is reported
/// once, by all ranks together, after that.
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
  /// Throws what reading threw. Once.
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
  stop::install();  // MPI's start-up takes its time, and may put handlers of its own in the place of these
  const Launcher launcher = detect_launcher();
  name_this_rank(launcher);
  EarlyRead early(arguments, read);
  Process process(launcher, early.start_limit());
  return process.run([&] {
    Scalars scalars(process.world());
    std::unique_ptr<Recipe> recipe;
    together(scalars, [&] { recipe = early.take(); });
    return start(*recipe, process, build_text());
  });
}

}  // namespace trireme
