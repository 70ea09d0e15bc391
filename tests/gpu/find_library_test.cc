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

TEST(FindLibrary, ThoseOfTheRuntimesOwnToolkitComeFirst) {
  const auto text = [](const LibraryName& library) {
    std::string files = library.package;
    for (const char* file : library.files) files += std::string(" ") + file;
    return files;
  };
  EXPECT_EQ(text(cublaslt_for(12040)), "nvidia-cublas-cu12 libcublasLt.so.12 libcublasLt.so.13");
  EXPECT_EQ(text(cublaslt_for(13000)), "nvidia-cublas libcublasLt.so.13 libcublasLt.so.12");
  EXPECT_EQ(text(cuda_runtime_for(12090)), "nvidia-cuda-runtime-cu12 libcudart.so.12 libcudart.so.13");
  EXPECT_EQ(text(cuda_runtime_for(13010)), "nvidia-cuda-runtime libcudart.so.13 libcudart.so.12");
  EXPECT_EQ(text(cudnn_for(12040)), "nvidia-cudnn-cu12 libcudnn.so.9");
  EXPECT_EQ(text(cudnn_for(13000)), "nvidia-cudnn-cu13 libcudnn.so.9");
  EXPECT_EQ(text(nccl_for(12040)), "nvidia-nccl-cu12 libnccl.so.2");
  EXPECT_EQ(text(nccl_for(13000)), "nvidia-nccl-cu13 libnccl.so.2");
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
