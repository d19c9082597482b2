! lockstep.f90 - the module that programs use. It also has the kinds of C that they need: c_int, c_double.
module lockstep
  use, intrinsic :: iso_c_binding, only: c_bool, c_double, c_float, c_int, c_int64_t
  use lockstep_graph
  use lockstep_layers
  use lockstep_train
  use lockstep_run
  implicit none
  private :: yes, given, text_of ! of the parts alone
end module
