# list.cmake - makes a list of what a folder's files define, so that nobody keeps one by hand.
#
# Run by the build (cmake -P) with
#   FILES   the files, with ; between
#   MATCH   a regular expression of a line that defines one: group 1 is its name; group 2, where
#           there is one, a number by which they are sorted, else they come in the order of files
#   HEADER  what declares TYPE and ARRAY
#   TYPE    of each; NAME_fn: each is a function of that type
#   ARRAY   the list: const TYPE *const ARRAY[] or TYPE *const ARRAY[], NULL at its end
#   OUT     the C file
set(found)
foreach(file ${FILES})
  file(STRINGS ${file} lines REGEX "${MATCH}")
  foreach(line ${lines})
    string(REGEX MATCH "${MATCH}" line "${line}")
    list(APPEND found "${CMAKE_MATCH_2} ${CMAKE_MATCH_1}")
  endforeach()
endforeach()
if(NOT found)
  message(FATAL_ERROR "${OUT}: no line of ${FILES} matches ${MATCH}")
endif()
if(found MATCHES "^[0-9]")
  list(SORT found COMPARE NATURAL)
endif()
set(element "const ${TYPE} *const")
set(address &)
set(extern "extern const ${TYPE}")
if(TYPE MATCHES "_fn$")
  set(element "${TYPE} *const")
  set(address)
  set(extern ${TYPE})
endif()
set(declarations)
set(items)
foreach(item ${found})
  string(REGEX REPLACE "^[0-9]* " "" name "${item}")
  string(APPEND declarations "${extern} ${name};\n")
  string(APPEND items "    ${address}${name},\n")
endforeach()
file(WRITE ${OUT} "/* Made by cmake/list.cmake. */
#include \"${HEADER}\"

${declarations}
${element} ${ARRAY}[] = {
${items}    NULL};
")
