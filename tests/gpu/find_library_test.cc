#include "cuda/find_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(FindLibrary, AMissingOneIsNamedWithItsPlacesAndTheCommandThatGetsIt) {
  constexpr const char* kFiles[] = {"libtrireme_absent.so.13", "libtrireme_absent.so.12"};
  setenv("CUDA_HOME", "/nowhere/cuda", 1);
  EXPECT_ERROR(open_library({"cuAbsent", kFiles, "nvidia-absent"}), ErrorKind::usage,
               "cuAbsent was not found, looked for libtrireme_absent.so.13, "
               "/nowhere/cuda/lib64/libtrireme_absent.so.13, /usr/local/cuda/lib64/libtrireme_absent.so.13, "
               "libtrireme_absent.so.12, /nowhere/cuda/lib64/libtrireme_absent.so.12, "
               "/usr/local/cuda/lib64/libtrireme_absent.so.12; set CUDA_HOME to the folder of a CUDA toolkit, or get "
               "it with \"pip install nvidia-absent\" and add the folder of its libtrireme_absent.so.13 to "
               "LD_LIBRARY_PATH");
  unsetenv("CUDA_HOME");
}

TEST(FindLibrary, TheToolkitOfCudaHomeIsOneOfThePlaces) {
  Dl_info of_libc{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&std::getenv), &of_libc), 0);
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/lib64");
  std::filesystem::create_symlink(std::filesystem::canonical(of_libc.dli_fname),
                                  folder.path() + "/lib64/libtrireme_there.so.2");
  constexpr const char* kFiles[] = {"libtrireme_absent.so.3", "libtrireme_there.so.2"};
  setenv("CUDA_HOME", folder.path().c_str(), 1);
  void* opened = open_library({"cuThere", kFiles, "nvidia-there"});
  unsetenv("CUDA_HOME");
  ASSERT_NE(opened, nullptr);
  EXPECT_NE(dlsym(opened, "getenv"), nullptr);
  dlclose(opened);
}

}  // namespace
}  // namespace trireme
