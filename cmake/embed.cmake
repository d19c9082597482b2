# Files as C arrays inside a library: { "NAME", bytes } for each, which a C file includes.
#   embed(TARGET OUT PATTERN NAMES)   makes generated/OUT of the files PATTERN; NAMES: NAME, or NAME_WLE without the extension
# Run as a script (cmake -DOUT=... -DPATTERN=... -DNAMES=... -P embed.cmake) it writes the file.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB files ${PATTERN})
  list(SORT files)
  set(text "")
  foreach(file ${files})
    get_filename_component(name ${file} ${NAMES})
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
    string(APPEND text "{ \"${name}\", (const char[]){ ${bytes}0 } },\n")
  endforeach()
  file(WRITE ${OUT} "${text}")
else()
  function(embed target out pattern names)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${pattern})
    set(path ${CMAKE_BINARY_DIR}/generated/${out})
    add_custom_command(OUTPUT ${path} DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
      COMMAND ${CMAKE_COMMAND} -DOUT=${path} "-DPATTERN=${CMAKE_SOURCE_DIR}/${pattern}" -DNAMES=${names}
              -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
    target_sources(${target} PRIVATE ${path})
    target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/generated)
  endfunction()
endif()
