# The operators on GPUs: objects for the tests and libtrireme_cuda.so. nvcc is called as it is: CMake 3.25 does not know that nvcc 13 has C++20.
set(TRIREME_CUDA_ARCHITECTURES 80 86 90 CACHE STRING "compute capabilities that kernels are compiled for")
file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/ops/*.cu)
file(GLOB host CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/*.cc)
set(code)
foreach(architecture ${TRIREME_CUDA_ARCHITECTURES})
  list(APPEND code -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
set(TRIREME_CUDA_OBJECTS)
foreach(kernel ${kernels})
  get_filename_component(name ${kernel} NAME_WE)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o)
  add_custom_command(OUTPUT ${object} DEPENDS ${kernel} DEPFILE ${object}.d COMMENT "Building CUDA object cuda/${name}.o"
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++20 -O3 -DNDEBUG --expt-relaxed-constexpr -I${CMAKE_CURRENT_SOURCE_DIR} ${code} -Xcompiler=-fPIC -Werror=all-warnings
            -MD -MF ${object}.d -c ${kernel} -o ${object} VERBATIM)
  list(APPEND TRIREME_CUDA_OBJECTS ${object})
endforeach()
add_custom_target(trireme_cuda_kernels DEPENDS ${TRIREME_CUDA_OBJECTS})
set_property(GLOBAL PROPERTY TRIREME_CUDA_OBJECTS ${TRIREME_CUDA_OBJECTS})
add_library(trireme_cuda_host OBJECT ${host})
target_link_libraries(trireme_cuda_host PRIVATE trireme_ops)
target_include_directories(trireme_cuda_host SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_include_directories(trireme_cuda_host PRIVATE ${PROJECT_BINARY_DIR}/generated)
add_dependencies(trireme_cuda_host trireme_gpu_interface)
# cuDNN's frontend is headers only, which scripts/bootstrap --cuda brings; without them the library has no attention by cuDNN.
file(GLOB packages ${PROJECT_SOURCE_DIR}/.venv-cuda/lib/python3*/site-packages)
find_path(TRIREME_CUDNN_FRONTEND cudnn_frontend.h HINTS ${packages}/include DOC "folder of cuDNN's frontend")
find_path(TRIREME_CUDNN_HEADERS cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${packages}/nvidia/cudnn/include DOC "folder of cudnn.h")
if(TRIREME_CUDNN_FRONTEND AND TRIREME_CUDNN_HEADERS)
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/cuda/attention_cudnn.cc PROPERTIES
    COMPILE_DEFINITIONS "TRIREME_CUDNN_FRONTEND;NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING;CUDNN_FRONTEND_SKIP_JSON_LIB"
    COMPILE_OPTIONS "-isystem${TRIREME_CUDNN_FRONTEND};-isystem${TRIREME_CUDNN_HEADERS};-O1")
else()
  message(STATUS "libtrireme_cuda.so without attention by cuDNN: no cudnn_frontend.h or cudnn.h; scripts/bootstrap --cuda brings them")
endif()
# What it shares with the program is the program's: nothing of it is linked a second time.
add_library(trireme_cuda SHARED ${TRIREME_CUDA_OBJECTS} $<TARGET_OBJECTS:trireme_cuda_host>)
target_link_libraries(trireme_cuda PRIVATE CUDA::cudart_static)
set_target_properties(trireme_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} LINKER_LANGUAGE CXX)
