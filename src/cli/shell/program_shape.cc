#include "cli/shell/program_shape.h"

#include "cli/command.h"
#include "cli/flags.h"

namespace trireme {

std::vector<CommandShape> program_shape() {
  std::vector<CommandShape> shapes;
  for (const Command& command : commands()) {
    if (!command.internal) shapes.push_back(shape_of(command.name, command.run));
  }
  return shapes;
}

}  // namespace trireme
