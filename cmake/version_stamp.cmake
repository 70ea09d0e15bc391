# Writes OUTPUT with the commit and version.
include(${CMAKE_CURRENT_LIST_DIR}/write_if_changed.cmake)
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit "unknown")
endif()
set(text "#pragma once\n#define TRIREME_VERSION \"${VERSION}\"\n#define TRIREME_COMMIT \"${commit}\"\n")
write_if_changed(${OUTPUT} "${text}")
