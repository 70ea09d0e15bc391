#pragma once
// Which MPI library a process opens, and the opened one.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/launcher.h"
#include "comm/mpi/adapter.h"

namespace trireme::mpi {

/// An adapter's bytes in the program.
struct EmbeddedAdapter {
  std::string abi;
  std::string_view bytes;
};
std::vector<EmbeddedAdapter> embedded_adapters();  // cmake/mpi.cmake writes it

/// What a machine has; another one in tests.
struct Machine {
  std::function<bool(const std::string& path)> exists;
  std::vector<std::string> adapters;  ///< ABIs of which the program contains an adapter
  std::string starter;                ///< program of this process's parent; empty: unknown
  std::vector<std::string> folders;   ///< where the loader looks for libraries, in its order
};
Machine this_machine();

struct Library {
  std::string abi;   ///< "openmpi", "mpich" or "abi"; empty: none
  std::string path;  ///< of the library
  std::string why;   ///< "beside the program that started this process"; without one: why there is none
};

/// The library for processes that `launcher` started. wanted: auto, openmpi, mpich, abi, or the path of a library;
/// empty: TRIREME_MPI of the environment, or auto. auto goes by the variables of the starter, then looks beside the
/// starter, then where the loader does. Throws Error::config for a wish that cannot be met, and naming both where two
/// fit equally.
Library choose_library(const std::string& wanted, const Launcher& launcher, const Environment& environment,
                       const Machine& machine);

/// ABIs of which there are an adapter and a library here, "openmpi" first.
std::vector<std::string> usable_abis(const Machine& machine);

/// Opens the library, for ever, and its adapter. Throws Error::config naming the file and the reason.
void open_library(const Library& library);
/// The adapter of the opened library. Throws Error::comm if there is none.
const Adapter& adapter();
bool is_open();
/// Throws Error::comm naming the call and MPI's own reason unless code is 0.
void check(int code, std::string_view call);

}  // namespace trireme::mpi
