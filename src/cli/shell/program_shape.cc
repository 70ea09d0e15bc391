#include "cli/shell/program_shape.h"

#include "cli/command.h"
#include "cli/flags.h"

namespace trireme {

std::vector<CommandShape> program_shape() {
  std::vector<CommandShape> shapes;
  for (const Command& command : commands()) {
    if (command.internal) continue;
    shapes.push_back(command.shape ? command.shape() : shape_of(command.run));
    shapes.back().name = command.name;
  }
  return shapes;
}

}  // namespace trireme
