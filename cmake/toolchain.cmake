# Language level, warnings and sanitizers: one place, so that every target is built the same way.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/ccache.sh ${CCACHE_PROGRAM} ${PROJECT_SOURCE_DIR})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # precompiled headers stay named in preprocessed text, which is what ccache compares
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

add_library(trireme_flags INTERFACE)
target_include_directories(trireme_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
# -ffp-contract=off: results must not depend on whether the compiler found a fused multiply-add; kernels that want one say so.
# A compiler that nobody here has seen yet warns of more, which must not keep a user from building: warnings are errors where the project is checked.
option(TRIREME_WERROR "warnings are errors" OFF)
target_compile_options(trireme_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion $<$<BOOL:${TRIREME_WERROR}>:-Werror> -ffp-contract=off
  -fno-math-errno)
if(TRIREME_SANITIZE)
  target_compile_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE})
  if(TRIREME_SANITIZE MATCHES thread)
    # It does not know fences. Ours order memory that other processes map; threads are ordered by the messages beside.
    target_compile_options(trireme_flags INTERFACE -Wno-tsan)
  endif()
endif()
