! heat_surrogate.f90 - a simulation trains its own surrogate while it runs, and is then replaced by it:
! heat_surrogate.c in Fortran, without its checkpoints.
!
! A plate of side x side cells, whose ends meet: heat spreads through it, faster where it is hot, while a torch heats
! one place after another. The columns are divided over the ranks of MPI. A step of two small ones depends on the 5 x 5
! cells around a cell; a small network learns that dependence from cells that each rank pushes, before and after
! a step. Then the network runs in place of the solver, and the solver beside it, to show how far they are apart.
!
!     mpifort heat_surrogate.f90 $(pkg-config --cflags --libs lockstep-fortran) -o heat_surrogate
!     mpirun -n 4 ./heat_surrogate network.safetensors
module heat
  use mpi
  use lockstep
  implicit none
  integer, parameter :: side = 48, substeps = 2, patch = 2 * substeps + 1, cells = 64
  integer, parameter :: training = 600, updates = 4, replaced = 40, rk = c_double
  real(rk), parameter :: scale = 8 ! a step changes a cell by about 1 / scale; the network computes numbers around 1
  integer :: rank, ranks, first, columns ! this rank has columns first + 1 .. first + columns of the plate

contains

  ! ---- the simulation: u(side, 1 - substeps : columns + substeps), with columns of the neighbours at both ends

  subroutine exchange(u)
    real(rk), intent(inout) :: u(side, 1 - substeps:columns + substeps)
    integer :: before, after, n, ierr
    n = substeps * side
    before = modulo(rank - 1, ranks)
    after = modulo(rank + 1, ranks)
    call MPI_Sendrecv(u(1, 1), n, MPI_DOUBLE_PRECISION, before, 0, u(1, columns + 1), n, MPI_DOUBLE_PRECISION, after, 0, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(u(1, columns - substeps + 1), n, MPI_DOUBLE_PRECISION, after, 1, u(1, 1 - substeps), n, &
      MPI_DOUBLE_PRECISION, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end subroutine

  elemental real(rk) function flow(a, b) ! from a cell to its neighbour; the conductivity grows with heat
    real(rk), intent(in) :: a, b
    flow = 0.08_rk * (1 + ((a + b) / 2)**2) * (a - b)
  end function

  ! One step. Each small step needs one column of the neighbours less.
  subroutine solve(u)
    real(rk), intent(inout) :: u(side, 1 - substeps:columns + substeps)
    real(rk) :: old(side, 1 - substeps:columns + substeps)
    integer :: k, c
    call exchange(u)
    do k = 1, substeps
      old = u
      do c = 1 - substeps + k, columns + substeps - k
        u(:, c) = 0.995_rk * (old(:, c) - flow(old(:, c), old(:, c - 1)) - flow(old(:, c), old(:, c + 1)) - &
          flow(old(:, c), cshift(old(:, c), -1)) - flow(old(:, c), cshift(old(:, c), 1)))
      end do
    end do
  end subroutine

  ! A number in [0, 1) that is a function of a and b, the same on every rank.
  pure real(rk) function chance(a, b)
    integer, intent(in) :: a, b
    integer :: i
    integer(c_int64_t) :: h
    h = 7919 * int(a, c_int64_t) + 104729 * int(b, c_int64_t) + 12345
    do i = 1, 4
      h = mod(h * 48271 + i, 2147483647_c_int64_t)
      h = ieor(h, ishft(h, -15))
    end do
    chance = real(h, rk) / 2147483648._rk
  end function

  ! The torch heats another place in every step.
  subroutine torch(u, step)
    real(rk), intent(inout) :: u(side, 1 - substeps:columns + substeps)
    integer, intent(in) :: step
    real(rk) :: row, column, x, y
    integer :: r, c
    row = chance(step, 1) * side
    column = chance(step, 2) * side
    do c = 1, columns
      x = modulo(first + c - column + side / 2, real(side, rk)) - side / 2
      do r = 1, side
        y = modulo(r - row + side / 2, real(side, rk)) - side / 2
        u(r, c) = u(r, c) + (0.1_rk + 0.3_rk * chance(step, 3)) * exp(-(x * x + y * y) / 18)
      end do
    end do
  end subroutine

  ! The cells around cell (r, c).
  pure function around(u, r, c)
    real(rk), intent(in) :: u(side, 1 - substeps:columns + substeps)
    integer, intent(in) :: r, c
    real(rk) :: around(patch, patch)
    integer :: i
    around = u([(modulo(r + i - 1, side) + 1, i=-substeps, substeps)], c - substeps:c + substeps)
  end function

  ! ---- the network: the cells around a cell -> how much a step changes it

  subroutine build(g, batch) bind(c, name="heat_build")
    type(ls_graph), intent(in) :: g
    integer(c_int), value :: batch
    type(ls_value) :: near, change, x, y
    near = ls_reshape(g, ls_input(g, "cells", [patch, patch, batch]), [patch * patch, batch])
    change = ls_input(g, "change", [1, batch])
    x = ls_tanh(g, ls_linear(g, "hidden.0", near, 48))
    x = ls_tanh(g, ls_linear(g, "hidden.1", x, 48))
    y = ls_add(g, ls_linear(g, "out", x, 1), ls_linear(g, "skip", near, 1))
    call ls_loss(g, "mse", ls_square(g, ls_sub(g, y, change)), 1d0, LS_BY_ELEMENT)
    call ls_output(g, "change", y)
  end subroutine

  ! Pushes some cells of this rank, as they are before and after a step; makes the step.
  subroutine solve_and_push(u, q, step)
    real(rk), intent(inout) :: u(side, 1 - substeps:columns + substeps)
    type(ls_live), intent(in) :: q
    integer, intent(in) :: step
    real(rk) :: near(patch, patch, cells), change(1, cells)
    integer :: i, row(cells), column(cells)
    call exchange(u)
    do i = 1, cells
      row(i) = 1 + int(chance(step * cells + i, 4 + 2 * rank) * side)
      column(i) = 1 + int(chance(step * cells + i, 5 + 2 * rank) * columns)
      near(:, :, i) = around(u, row(i), column(i))
      change(1, i) = u(row(i), column(i))
    end do
    call solve(u)
    do i = 1, cells
      change(1, i) = scale * (u(row(i), column(i)) - change(1, i))
    end do
    call ls_check(ls_live_put(q, "cells", near)) ! real(8), as the simulation has them
    call ls_check(ls_live_put(q, "change", change))
    call ls_check(ls_live_push(q, cells))
  end subroutine

  subroutine train(u, t, q)
    real(rk), intent(inout) :: u(side, 1 - substeps:columns + substeps)
    type(ls_trainer), intent(in) :: t
    type(ls_live), intent(in) :: q
    type(ls_step_result) :: r
    real(rk) :: left, held_out
    integer :: step, k, samples, total
    do step = 0, training - 1
      call torch(u, step)
      call solve_and_push(u, q, step)
      do k = 0, updates - 1
        left = 1 - (step + real(k, rk) / updates) / training
        call ls_check(ls_live_fill(q, samples, total))
        if (total > 0) call ls_check(ls_trainer_run(t, samples, 6d-3 * left + 1d-5, r))
      end do
      if (mod(step + 1, 200) /= 0) cycle
      call ls_check(ls_live_evaluate(q, "loss", held_out))
      if (rank == 0) print "(a, i0, 2(a, f8.6))", "step ", step + 1, "  loss ", r%loss, &
        "  of samples that were held out ", held_out
    end do
  end subroutine

  ! ---- the network in place of the solver

  subroutine replace(u, network)
    real(rk), intent(inout) :: u(side, 1 - substeps:columns + substeps)
    type(ls_predictor), intent(in) :: network
    real(rk) :: near(patch, patch, side, columns), change(side, columns)
    integer :: r, c
    call exchange(u)
    do c = 1, columns
      do r = 1, side
        near(:, :, r, c) = around(u, r, c)
      end do
    end do
    call ls_check(ls_predictor_put(network, "cells", reshape(near, [patch, patch, side * columns])))
    call ls_check(ls_predictor_run(network, side * columns))
    call get(change)
    u(:, 1:columns) = u(:, 1:columns) + change / scale
  contains
    subroutine get(flat) ! [1, n], as the network has it
      real(rk), intent(out) :: flat(1, side * columns)
      call ls_check(ls_predictor_get(network, "change", flat))
    end subroutine
  end subroutine
end module

program heat_surrogate
  use heat
  implicit none
  type(ls_group) :: group
  type(ls_trainer) :: t
  type(ls_live) :: q
  type(ls_predictor) :: network
  real(rk), allocatable :: u(:, :), exact(:, :)
  real(rk) :: sums(2)
  character(len=500) :: path
  integer :: level, ierr, step

  call MPI_Init_thread(MPI_THREAD_MULTIPLE, level, ierr)
  call ls_check(ls_group_from_mpi(group, MPI_COMM_WORLD)) ! a duplicate: its messages do not meet the simulation's
  rank = ls_group_rank(group)
  ranks = ls_group_size(group)
  first = side * rank / ranks
  columns = side * (rank + 1) / ranks - first
  allocate (u(side, 1 - substeps:columns + substeps), source=0._rk)

  call ls_check(ls_trainer_create(t, build, group, micro_batch=cells, threads=1))
  call ls_check(ls_trainer_init(t, 0))
  call ls_check(ls_live_open(q, t, capacity=2048, keep="reservoir", hold_out=16))
  call train(u, t, q)
  call get_command_argument(1, path)
  if (path /= "") call ls_check(ls_trainer_save(t, path))
  call ls_check(ls_predictor_of(network, t)) ! all ranks; from here on no rank waits for another
  call ls_live_close(q)
  call ls_trainer_destroy(t)

  allocate (exact, source=u)
  do step = training, training + replaced - 1
    call torch(u, step)
    call torch(exact, step)
    call replace(u, network)
    call solve(exact)
  end do
  sums = [sum((u(:, 1:columns) - exact(:, 1:columns))**2), sum(exact(:, 1:columns)**2)]
  call ls_check(ls_group_all_reduce(group, sums, LS_REDUCE_SUM))
  if (rank == 0) print "(a, i0, a, f7.5)", "after ", replaced, &
    " steps of the network in place of the solver: relative error ", sqrt(sums(1) / sums(2))
  call ls_predictor_destroy(network)
  call ls_group_destroy(group)
  call MPI_Finalize(ierr)
end program
