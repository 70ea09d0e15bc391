#include "cuda/find_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <vector>

#include "base/error.h"

namespace trireme {

void* open_library(const LibraryName& library) {
  std::vector<std::string> places;
  for (const std::string file : library.files) {
    places.push_back(file);
    if (const char* home = std::getenv("CUDA_HOME")) places.push_back(fmt::format("{}/lib64/{}", home, file));
    places.push_back("/usr/local/cuda/lib64/" + file);
  }
  for (const std::string& place : places)
    if (void* opened = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
  fail(ErrorKind::usage,
       "{} was not found, looked for {}; set CUDA_HOME to the folder of a CUDA toolkit, or get it with \"pip install "
       "{}\" and add the folder of its {} to LD_LIBRARY_PATH",
       library.name, fmt::join(places, ", "), library.package, library.files.front());
}

}  // namespace trireme
