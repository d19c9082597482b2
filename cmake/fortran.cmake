# The module `lockstep` for Fortran (bindings/fortran, docs/fortran.md): an archive and the files .mod, which only the compiler that made them reads.
set(LS_FORTRAN "auto" CACHE STRING "the Fortran module: auto (where there is a Fortran compiler), ON or OFF")
if(LS_SANITIZE)
  set(LS_FORTRAN OFF) # a program in Fortran would need the sanitizer's runtime
endif()
if(LS_FORTRAN STREQUAL "auto" OR LS_FORTRAN)
  include(CheckLanguage)
  if(NOT CMAKE_Fortran_COMPILER) # check_language keeps NOTFOUND for good: a compiler that was installed since then would not be found
    unset(CMAKE_Fortran_COMPILER CACHE)
  endif()
  check_language(Fortran)
  if(CMAKE_Fortran_COMPILER)
    enable_language(Fortran)
  elseif(NOT LS_FORTRAN STREQUAL "auto")
    message(FATAL_ERROR "LS_FORTRAN is ${LS_FORTRAN}, and no Fortran compiler was found (Debian: gfortran)")
  endif()
endif()
if(CMAKE_Fortran_COMPILER_LOADED)
  # Descriptors of arrays are laid out as the Fortran compiler's own header says. Other headers of its folder must not be found.
  get_filename_component(folder ${CMAKE_Fortran_COMPILER} DIRECTORY)
  execute_process(COMMAND ${CMAKE_Fortran_COMPILER} -print-file-name=include/ISO_Fortran_binding.h OUTPUT_VARIABLE header OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT IS_ABSOLUTE "${header}")
    find_file(LS_FORTRAN_HEADER ISO_Fortran_binding.h HINTS ${folder}/../include ${folder}/../opt/compiler/include)
    set(header ${LS_FORTRAN_HEADER})
  endif()
  if(NOT EXISTS "${header}")
    message(STATUS "the Fortran module is left out: ${CMAKE_Fortran_COMPILER} comes without ISO_Fortran_binding.h")
    return()
  endif()
  configure_file(${header} ${CMAKE_BINARY_DIR}/generated/fortran/ISO_Fortran_binding.h COPYONLY)
  set(sources ${CMAKE_SOURCE_DIR}/bindings/fortran)
  add_library(lockstep_fortran STATIC ${sources}/lockstep_graph.f90 ${sources}/lockstep_layers.f90 ${sources}/lockstep_train.f90
    ${sources}/lockstep_run.f90 ${sources}/lockstep.f90 ${sources}/arrays.c ${sources}/graph.c ${sources}/layers.c ${sources}/train.c ${sources}/run.c)
  set_target_properties(lockstep_fortran PROPERTIES OUTPUT_NAME lockstep-fortran EXPORT_NAME fortran Fortran_MODULE_DIRECTORY ${CMAKE_BINARY_DIR}/fortran)
  target_include_directories(lockstep_fortran PRIVATE ${CMAKE_BINARY_DIR}/generated/fortran PUBLIC
    $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/fortran> $<INSTALL_INTERFACE:include/lockstep/fortran>)
  target_link_libraries(lockstep_fortran PUBLIC lockstep)
  target_compile_options(lockstep_fortran PRIVATE -Wall -Wextra $<$<COMPILE_LANGUAGE:C>:-Wshadow -Wconversion -Wno-sign-conversion> $<$<BOOL:${LS_WERROR}>:-Werror>
    $<$<COMPILE_LANG_AND_ID:Fortran,GNU>:-std=f2018 -Wno-c-binding-type>) # texts and absent arguments are passed by descriptor: Fortran 2018
endif()
