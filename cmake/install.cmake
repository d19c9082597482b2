# What `make install` puts where: the command, the shared and the static library with their headers, bindings, what pkg-config, find_package(lockstep) and `module load` read,
# the manual pages, pages and examples, and completion for shells.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_custom_target(lockstep_installed) # what has to be built before it: neither tests nor examples
add_dependencies(lockstep_installed lockstep)
install(TARGETS lockstep EXPORT lockstepTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET lockstep_command)
  add_dependencies(lockstep_installed lockstep_command)
  install(TARGETS lockstep_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET lockstep_fortran) # its sources are for other compilers than the one that made the module here
  add_dependencies(lockstep_installed lockstep_fortran)
  install(TARGETS lockstep_fortran EXPORT lockstepTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${CMAKE_BINARY_DIR}/fortran/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep/fortran FILES_MATCHING PATTERN "*.mod")
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/machines DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/bindings DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep PATTERN __pycache__ EXCLUDE)
if(LS_MODULES)
  add_dependencies(lockstep_installed ${LS_MODULES})
  install(TARGETS ${LS_MODULES} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET lockstep_command) # the manual pages are written by the command
  install(CODE "execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/manual $<TARGET_FILE:lockstep_command> ${CMAKE_BINARY_DIR}/man COMMAND_ERROR_IS_FATAL ANY)")
  install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
endif()
install(FILES ${CMAKE_SOURCE_DIR}/tools/lockstep.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lockstep)
install(FILES ${CMAKE_SOURCE_DIR}/tools/lockstep.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _lockstep)
install(FILES ${CMAKE_SOURCE_DIR}/tools/lockstep.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN man EXCLUDE)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN CMakeLists.txt EXCLUDE)

# One archive of the layers' archives.
set(archive ${CMAKE_BINARY_DIR}/liblockstep.a)
set(members ${whole} ${LS_KERNEL_LIBS})
set(script "CREATE ${archive}\n")
foreach(member ${members})
  string(APPEND script "ADDLIB $<TARGET_FILE:${member}>\n")
endforeach()
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/archive.mri CONTENT "${script}SAVE\nEND\n")
add_custom_command(OUTPUT ${archive} DEPENDS ${members} ${CMAKE_BINARY_DIR}/generated/archive.mri
  COMMAND ${CMAKE_AR} -M < ${CMAKE_BINARY_DIR}/generated/archive.mri)
add_custom_target(lockstep_static ALL DEPENDS ${archive})
add_dependencies(lockstep_installed lockstep_static)
install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Texts with the prefix in them, which is known only when installing (cmake --install --prefix).
set(LS_PC_PRIVATE "-ljansson -lyaml -lxxhash -lz -lpng -lpcre2-8 -lutf8proc -lpthread -ldl -lm")
if(JPEG_FOUND)
  string(PREPEND LS_PC_PRIVATE "-ljpeg ")
endif()
# ls_install_text(TEMPLATE FILE): FILE is relative to the prefix
function(ls_install_text template file)
  set(CMAKE_INSTALL_PREFIX "@CMAKE_INSTALL_PREFIX@")
  set(LS_PC_RPATH "@LS_PC_RPATH@")
  configure_file(${CMAKE_SOURCE_DIR}/cmake/${template} ${CMAKE_BINARY_DIR}/generated/${template} @ONLY)
  install(CODE "
    set(LS_PC_RPATH \" -Wl,-rpath,\\\${libdir}\") # programs find the library where it lies, unless the system looks there anyway
    if(CMAKE_INSTALL_PREFIX MATCHES \"^/(usr/?)?$\")
      set(LS_PC_RPATH \"\")
    endif()
    configure_file(\"${CMAKE_BINARY_DIR}/generated/${template}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\" @ONLY)")
endfunction()
ls_install_text(lockstep.pc.in ${CMAKE_INSTALL_LIBDIR}/pkgconfig/lockstep.pc)
ls_install_text(modulefile.in ${CMAKE_INSTALL_DATADIR}/modulefiles/lockstep/${PROJECT_VERSION})
if(TARGET lockstep_fortran)
  ls_install_text(lockstep-fortran.pc.in ${CMAKE_INSTALL_LIBDIR}/pkgconfig/lockstep-fortran.pc)
endif()

set(LS_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${LS_PACKAGE_DIR} FILE lockstepTargets.cmake)
file(WRITE ${CMAKE_BINARY_DIR}/generated/lockstepConfig.cmake "include(\"\${CMAKE_CURRENT_LIST_DIR}/lockstepTargets.cmake\")\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/lockstepConfig.cmake ${CMAKE_BINARY_DIR}/generated/lockstepConfigVersion.cmake
  DESTINATION ${LS_PACKAGE_DIR})
