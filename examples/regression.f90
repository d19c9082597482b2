! regression.f90 - a small network learns two functions of four numbers, from arrays in memory. The same program in C is
! regression.c, in C++ regression.cc; the three print the same numbers.
!
!     gfortran regression.f90 $(pkg-config --cflags --libs lockstep-fortran) -o regression
!     ./regression regression.safetensors
module regression
  use lockstep
  implicit none
  integer, parameter :: inputs = 4, outputs = 2, samples = 1000, batch = 64, epochs = 40
  integer :: hidden = 32
  real :: x(inputs, samples), y(outputs, samples)

contains

  subroutine make_samples()
    integer :: n, k
    do n = 1, samples
      do k = 1, inputs
        x(k, n) = real(mod((n - 1) * (2 * k + 1) + k - 1, 17)) / 8 - 1
      end do
      y(1, n) = x(1, n) * x(2, n)
      y(2, n) = abs(x(3, n)) - x(4, n)
    end do
  end subroutine

  ! Builds the model for n samples, the last dimension. Inputs take the fields of their names.
  subroutine build(g, n) bind(c)
    type(ls_graph), intent(in) :: g
    integer(c_int), value :: n
    type(ls_value) :: in, target, first, out
    in = ls_input(g, "x", [inputs, n])
    target = ls_input(g, "y", [outputs, n])
    first = ls_gelu(g, ls_linear(g, "first", in, hidden))
    out = ls_linear(g, "last", first, outputs)
    call ls_loss(g, "mse", ls_square(g, ls_sub(g, out, target)), 1d0, LS_BY_ELEMENT)
    call ls_output(g, "out", out)
  end subroutine

  ! One pass over the samples. The last step has only 40 of them.
  function epoch(t) result(loss)
    type(ls_trainer), intent(in) :: t
    real(c_double) :: loss
    type(ls_step_result) :: r
    integer :: first, n
    loss = 0
    do first = 1, samples, batch
      n = min(batch, samples - first + 1)
      call ls_check(ls_trainer_put(t, "x", x(:, first:first + n - 1)))
      call ls_check(ls_trainer_put(t, "y", y(:, first:first + n - 1)))
      call ls_check(ls_trainer_run(t, n, 5d-3, r))
      loss = loss + r%loss * real(r%count, c_double) / samples
    end do
  end function
end module

program main
  use lockstep
  use regression
  implicit none
  type(ls_trainer) :: t
  type(ls_predictor) :: p
  real :: out(outputs, 1)
  real(c_double) :: loss
  character(len=200) :: path
  integer :: i

  call make_samples()
  call ls_check(ls_trainer_create(t, build, micro_batch=batch))
  call ls_check(ls_trainer_init(t, 1))
  do i = 1, epochs
    loss = epoch(t)
    if (mod(i, 10) == 0) print "(a, i2, a, f8.6)", "epoch ", i, "  loss ", loss
  end do
  call ls_check(ls_predictor_of(p, t))
  call ls_check(ls_predictor_put(p, "x", x(:, 4:4)))
  call ls_check(ls_predictor_run(p, 1))
  call ls_check(ls_predictor_get(p, "out", out))
  print "(4(a, f6.3))", "sample 4: ", y(1, 4), " and ", y(2, 4), ", predicted ", out(1, 1), " and ", out(2, 1)
  call get_command_argument(1, path)
  if (path == "") path = "regression.safetensors"
  call ls_check(ls_trainer_save(t, path))
  call ls_predictor_destroy(p)
  call ls_trainer_destroy(t)
end program
