# SPDX-License-Identifier: BSD-3-Clause
# px_scenarios(PREFIX TIMEOUT RUNNER_ARGUMENT...): one test, PREFIX.NAME, for each scenario that run.py in this folder
# lists. `{}` in an argument stands for the scenario's name.
find_program(PX_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)

function(px_scenarios prefix timeout)
  set(runner ${CMAKE_CURRENT_SOURCE_DIR}/run.py)
  file(GLOB modules CONFIGURE_DEPENDS *.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${modules})
  execute_process(COMMAND ${PX_PYTHON} ${runner} --list OUTPUT_VARIABLE scenarios
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" scenarios "${scenarios}")
  foreach(scenario ${scenarios})
    string(REPLACE "{}" "${scenario}" arguments "${ARGN}")
    add_test(NAME ${prefix}.${scenario} COMMAND ${PX_PYTHON} ${runner} ${arguments} ${scenario})
    set_tests_properties(${prefix}.${scenario} PROPERTIES
      LABELS e2e RUN_SERIAL ON TIMEOUT ${timeout} SKIP_RETURN_CODE 77)
  endforeach()
endfunction()
