# What `make install` puts where: the command, the shared library with its headers, what pkg-config and find_package(lockstep) read,
# the man page, and the shell completion.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS lockstep EXPORT lockstepTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET lockstep_command)
  install(TARGETS lockstep_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(LS_MODULES)
  install(TARGETS ${LS_MODULES} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES ${CMAKE_SOURCE_DIR}/docs/man/lockstep.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_SOURCE_DIR}/tools/lockstep.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lockstep)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The prefix is known only when installing (cmake --install --prefix), so both files find themselves relative to where they lie.
file(RELATIVE_PATH LS_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_SOURCE_DIR}/cmake/lockstep.pc.in ${CMAKE_BINARY_DIR}/generated/lockstep.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(LS_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${LS_PACKAGE_DIR} FILE lockstepTargets.cmake)
file(WRITE ${CMAKE_BINARY_DIR}/generated/lockstepConfig.cmake "include(\"\${CMAKE_CURRENT_LIST_DIR}/lockstepTargets.cmake\")\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/lockstepConfig.cmake ${CMAKE_BINARY_DIR}/generated/lockstepConfigVersion.cmake
  DESTINATION ${LS_PACKAGE_DIR})
