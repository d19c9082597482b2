! module.f90 - the Fortran module: arrays of any kind and section mean the same, as the library's own text of the graph
! shows names, shapes and types; errors have their messages; a checkpoint, a set in memory, a predictor and a queue.
! Usage: module FOLDER. Prints "fine" at its end.
module model
  use lockstep
  implicit none
  integer, parameter :: n = 12
  logical :: wrong = .false.

contains

  subroutine expect(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (condition) return
    print "(2a)", "not so: ", what
    stop 1, quiet=.true.
  end subroutine

  subroutine fails(status, wanted, text)
    integer(c_int), intent(in) :: status, wanted
    character(len=*), intent(in) :: text
    character(len=:), allocatable :: message
    message = ls_error_message()
    if (status == wanted .and. index(message, text) > 0) return
    print "(a, i0, 2a)", "status ", status, ": ", message
    call expect(.false., text)
  end subroutine

  ! x [3, 2, n], y [2, n], weights w [n]: y is learned from x.
  subroutine build(g, batch) bind(c)
    type(ls_graph), intent(in) :: g
    integer(c_int), value :: batch
    type(ls_value) :: x, y, w, h, out, both, swapped
    x = ls_input(g, "x", [3, 2, batch])
    y = ls_input(g, "y", [2, batch])
    w = ls_input(g, "w", [batch], LS_F32)
    call expect(ls_size(g, x, 0) == 3 .and. ls_size(g, x, 1) == 3 .and. ls_size(g, x, 3) == batch, "sizes of x")
    swapped = ls_permute(g, x, [2, 1, 3]) ! [2, 3, batch]
    call expect(ls_size(g, swapped, 1) == 2 .and. ls_size(g, swapped, 2) == 3, "sizes after a permutation")
    both = ls_concat(g, 1, [ls_slice(g, swapped, 1, 2, 1), ls_slice(g, swapped, 1, 1, 1)]) ! the columns, swapped
    call expect(ls_size(g, both, 1) == 2 .and. ls_size(g, both, 2) == 3, "sizes after slices")
    h = ls_reshape(g, both, [6, batch])
    call ls_scope_push(g, "net")
    out = ls_linear(g, "out", ls_tanh(g, ls_linear(g, "in", h, 5)), 2, bias=.false.)
    call ls_scope_pop(g)
    call ls_wide_begin(g)
    h = ls_square(g, ls_sub(g, out, y))
    call ls_wide_end(g)
    call ls_loss(g, "mse", h, 1d0, LS_BY_FIELD, "w")
    call ls_measure(g, "mean", ls_mean(g, h, dim=1), LS_MEAN_OF, LS_BY_SAMPLE)
    call ls_measure(g, "total", ls_sum(g, h, 1), LS_SUM_OF, LS_BY_SAMPLE)
    call ls_measure(g, "worst", ls_amax(g, h, 1, keep=.true.), LS_LARGEST, LS_BY_SAMPLE)
    call ls_measure_against(g, "rmse", LS_RMSE, out, y, LS_BY_SAMPLE)
    call ls_output(g, "out", out)
    call ls_output(g, "again", ls_cast(g, swapped, LS_F32))
    if (wrong) then
      call ls_at(g, "wrong.f90", 7)
      call ls_output(g, "bad", ls_sum(g, x, 4))
    end if
  end subroutine
  ! Every kind of call, its result in the place of its argument.
  subroutine build_in_place(g, batch) bind(c)
    type(ls_graph), intent(in) :: g
    integer(c_int), value :: batch
    type(ls_value) :: x, y(2), z
    type(ls_scaling) :: s
    x = ls_input(g, "x", [3, 2, batch])
    s = ls_scaling_of(g, "x", 3)
    z = ls_scale(g, s, x)
    call ls_output(g, "scaled", z)
    call ls_loss(g, "back", ls_loss_rows(g, LS_LOSS_HUBER, ls_unscale(g, s, z), x), 1d0, LS_BY_ELEMENT)
    x = ls_add_const(g, ls_reshape(g, ls_neg(g, x), [6, batch]), 1d0)           ! 1 - x
    x = ls_mul(g, ls_square(g, x), ls_add(g, x, ls_neg(g, ls_abs(g, x))))       ! a = 1 - x: a^2 (a - |a|)
    x = ls_where(g, ls_gt(g, x, ls_neg(g, x)), x, ls_mul_const(g, x, 2d0))      ! at most 0, so the second
    y(1) = x
    y(1) = ls_tanh(g, ls_div_const(g, y(1), 8d0))
    y(2) = ls_cast(g, ls_clamp(g, y(1), -0.5d0, 0d0), LS_F32)
    x = ls_concat(g, 1, [y(2), y(1)])
    x = ls_sum(g, ls_slice(g, x, 1, 1, 6), 1)
    call ls_output(g, "sum", x)
    x = ls_add(g, ls_linear(g, "a", ls_linear(g, "b", y(1), 4), 1), ls_reshape(g, x, [1, batch]))
    call ls_output(g, "last", x)
    call ls_loss(g, "square", ls_square(g, x), 1d0, LS_BY_ELEMENT)
  end subroutine
end module

program module_test
  use lockstep
  use model
  implicit none
  type :: cell
    real(c_double) :: w
    real(c_float) :: y(2)
    character :: odd(3)
  end type
  type(ls_trainer) :: t, other, bad
  type(ls_predictor) :: p
  type(ls_live) :: q
  type(ls_live_numbers) :: numbers
  type(ls_dataset) :: set
  type(ls_group) :: group
  type(ls_step_result) :: r, s
  real(c_float) :: x(3, 2, n), y(2, n), w(n), wide(3, 2, 2 * n), out(2, n), again(2, 3, n), weights(6, 5), some(4, n), doubled(6, 5)
  real(c_float) :: sums(n), scaled(3, 2, n)
  real(c_float), allocatable :: none(:, :)
  real(c_double) :: twice(3, 2, n), value, total
  type(cell) :: cells(n)
  integer :: i, samples, ranks
  logical(c_bool) :: done
  character(len=1000) :: folder

  call get_command_argument(1, folder)
  x = reshape([(real(mod(7 * i, 11)) / 4 - 0.5, i=1, size(x))], shape(x))
  y = reshape([(real(mod(5 * i, 13)) / 8, i=1, size(y))], shape(y))
  w = [(real(mod(i, 3)), i=1, n)]
  call expect(len(ls_version()) >= 5, "a version")

  ! Copies, sections, other kinds and components of types are the same samples.
  call ls_check(ls_trainer_create(t, build, micro_batch=8, micro_batches=2, optimizer="sgd", momentum=0.9d0, threads=1))
  call ls_check(ls_trainer_create(other, build, micro_batch=8, micro_batches=2, optimizer="sgd", momentum=0.9d0, &
    threads=1, clip_norm=1d9))
  call ls_check(ls_trainer_init(t, 3))
  call ls_check(ls_trainer_init(other, 3))
  call expect(ls_trainer_parameter_count(t) == 6 * 5 + 5 + 5 * 2, "the number of parameters")
  call ls_check(ls_trainer_put(t, "x", x))
  call ls_check(ls_trainer_put(t, "y", y(:, 1:5)))
  call ls_check(ls_trainer_put(t, "y", y(:, 6:n), first=6))
  call ls_check(ls_trainer_put(t, "w", w))
  call ls_check(ls_trainer_run(t, n, 0.1d0, r))
  wide = 99
  wide(3:1:-1, :, 2 * n:1:-2) = x(3:1:-1, :, :)
  twice = x
  do i = 1, n
    cells(i)%w = w(i)
  end do
  some = 99
  some(1:3:2, :) = y
  call ls_check(ls_trainer_put(other, "x", wide(:, :, 2 * n:1:-2)))
  call ls_check(ls_trainer_put(other, "y", some(1:3:2, :)))
  call ls_check(ls_trainer_put(other, "w", cells%w))
  call ls_check(ls_trainer_run(other, n, 0.1d0, s))
  call expect(r%loss == s%loss .and. r%loss > 0, "sections and kinds give the same loss")
  call expect(s%grad_norm > 0 .and. r%grad_norm < 0 .and. .not. r%skipped .and. r%count == n, "a step's result")
  call ls_check(ls_trainer_put(other, "x", twice))
  call ls_check(ls_trainer_put(other, "y", y))
  call ls_check(ls_trainer_put(other, "w", w))
  call ls_check(ls_trainer_run(other, n, 0.1d0, s))

  ! A step whose loss is not finite changes nothing: it fails, or is skipped.
  call ls_check(ls_trainer_create(bad, build, micro_batch=8, micro_batches=2, threads=1, nonfinite="skip", max_skips=2))
  call ls_check(ls_trainer_init(bad, 3))
  do i = 1, 2
    call ls_check(ls_trainer_put(bad, "x", x))
    call ls_check(ls_trainer_put(bad, "y", 1e30 * y))
    call ls_check(ls_trainer_put(bad, "w", w))
    if (i == 1) call ls_check(ls_trainer_run(bad, n, 0.1d0, s))
  end do
  call expect(s%skipped .and. s%skip == 3, "a step that is skipped")
  call expect(ls_trainer_run(bad, n, 0.1d0, s) == LS_E_NUMERIC, "two steps in a row that are skipped")
  call ls_trainer_destroy(bad)

  ! A checkpoint brings all of it back: the next step is the same.
  call ls_check(ls_trainer_save_checkpoint(other, trim(folder) // "/checkpoint"))
  call ls_check(ls_trainer_load_checkpoint(t, trim(folder) // "/checkpoint"))
  call ls_check(ls_trainer_save(t, trim(folder) // "/weights.safetensors"))
  call step(t, r)
  call step(other, s)
  call expect(r%loss == s%loss, "a checkpoint gives the same next step")
  call ls_check(ls_trainer_load(t, trim(folder) // "/weights.safetensors"))

  ! A predictor computes the model: by hand, from a parameter. Its outputs may be sections and real(8).
  call ls_check(ls_predictor_of(p, t, "out again"))
  call ls_check(ls_predictor_put(p, "x", x))
  call ls_check(ls_predictor_run(p, n))
  call ls_check(ls_predictor_get(p, "out", out))
  call ls_check(ls_predictor_get(p, "again", again))
  call expect(all_equal(again), "a permuted output")
  some = 99
  call ls_check(ls_predictor_get(p, "out", some(4:2:-2, :)))
  call expect(all(some(4, :) == out(1, :)) .and. all(some(2, :) == out(2, :)) .and. all(some(1:3:2, :) == 99), "sections")
  call ls_check(ls_trainer_get(t, "net.in.weight", weights))
  call expect(any(weights /= 0) .and. all(abs(weights) < 1), "a parameter")
  call ls_check(ls_trainer_set(t, "net.in.weight", 2 * weights))
  call ls_check(ls_trainer_get(t, "net.in.weight", doubled))
  call expect(all(doubled == 2 * weights), "a parameter that was set")
  call ls_check(ls_trainer_set(t, "net.in.weight", weights))
  call ls_predictor_destroy(p)
  call ls_check(ls_predictor_open(p, trim(folder) // "/checkpoint", build, "out", batch=5))
  call ls_check(ls_predictor_put(p, "x", twice))
  call ls_check(ls_predictor_run(p, n))
  call ls_check(ls_predictor_get(p, "out", some(1:2, :)))
  call expect(maxval(abs(some(1:2, :) - out)) < 1e-6, "a checkpoint's predictions")

  ! A set in memory: the metrics are those of the predictions.
  call ls_check(ls_dataset_put(set, "x", x))
  call ls_check(ls_dataset_put(set, "y", y))
  call ls_check(ls_dataset_put(set, "w", w))
  call ls_check(ls_trainer_evaluate(t, set, "total", total))
  call expect(abs(total - sum(real(out - y, c_double)**2)) < 1e-4, "a sum over a set")
  call ls_check(ls_trainer_evaluate(t, set, "rmse", value))
  call expect(abs(value - sqrt(total / size(y))) < 1e-6, "a root of a mean over a set")
  call ls_check(ls_trainer_evaluate(t, set, "loss", value))
  call expect(abs(value - sum(real(out - y, c_double)**2 * spread(w, 1, 2)) / sum(w)) < 1e-5, "a loss over a set")

  ! Mistakes have messages and change nothing.
  call fails(ls_trainer_put(t, "z", x), LS_E_ARG, 'no field "z"; the model takes')
  call fails(ls_trainer_put(t, "x", y), LS_E_SHAPE, '"x" is f32 [12, 2]')
  call fails(ls_trainer_put(t, "x", [(1.0, 2.0)]), LS_E_ARG, "neither real(4), real(8) nor integer")
  allocate (none(2, n))
  deallocate (none)
  call fails(ls_trainer_put(t, "y", none), LS_E_ARG, "the array is not allocated")
  call fails(ls_dataset_put(set, "y", y), LS_E_ARG, 'has a field "y" already')
  call fails(ls_dataset_put(set, "v", y(:, 1:3)), LS_E_SHAPE, "has 3 samples")
  call fails(ls_trainer_evaluate(t, set, "auc", value), LS_E_ARG, 'no metric "auc"; there are loss')
  call fails(ls_trainer_get(t, "net.in.weight", x), LS_E_SHAPE, '"net.in.weight" is f32 [5, 6] in the model')
  call fails(ls_trainer_get(t, "net", x), LS_E_ARG, 'no parameter or buffer "net"')
  call ls_trainer_destroy(other)
  call fails(ls_trainer_create(other, build, optimizer="adamv"), LS_E_ARG, "it can be adam, adamw, sgd, lion")
  call fails(ls_trainer_load(t, repeat("a", 5000)), LS_E_ARG, "has 5000 characters")
  call fails(ls_group_from_mpi(group, 0), LS_E_UNSUPPORTED, "not linked with MPI")
  wrong = .true.
  call fails(ls_trainer_create(other, build), LS_E_SHAPE, "wrong.f90:7")
  wrong = .false.

  ! Calls inside each other compute what they say, also with the result in the place of an argument.
  call ls_predictor_destroy(p)
  call ls_check(ls_trainer_create(other, build_in_place, micro_batch=n, threads=1, optimizer="lion", &
    ema_decay=0.9d0))
  call ls_check(ls_trainer_init(other, 1))
  call ls_check(ls_trainer_fit(other, set))
  call ls_check(ls_predictor_of(p, other, "sum last scaled"))
  call ls_check(ls_predictor_put(p, "x", x))
  call ls_check(ls_predictor_run(p, n))
  call ls_check(ls_predictor_get(p, "sum", sums))
  call ls_check(ls_predictor_get(p, "scaled", scaled))
  do i = 1, 3
    value = sum(real(x(i, :, :), c_double)) / (2 * n)
    total = sqrt(sum((x(i, :, :) - value)**2) / (2 * n))
    call expect(maxval(abs(scaled(i, :, :) - (x(i, :, :) - value) / total)) < 1e-5, "a field that is scaled")
  end do
  call ls_check(ls_trainer_exchange_ema(other))
  do i = 1, n
    value = sum(max(-0.5, tanh(2 * (1 - x(:, :, i))**2 * ((1 - x(:, :, i)) - abs(1 - x(:, :, i))) / 8)))
    call expect(abs(sums(i) - value) < 1e-5, "operations in place of their arguments")
  end do
  call ls_trainer_destroy(other)

  ! Ranks: a group of one.
  call ls_check(ls_group_self(group))
  call expect(ls_group_rank(group) == 0 .and. ls_group_size(group) == 1, "a group of one")
  value = 2
  call ls_check(ls_group_all_reduce(group, value, LS_REDUCE_SUM))
  call expect(value == 2, "a sum over one rank")
  call ls_check(ls_group_barrier(group))
  call ls_trainer_destroy(other)
  call ls_check(ls_trainer_create(other, build, group, 4, threads=1))
  call ls_check(ls_trainer_init(other, 1))

  ! A queue trains on what it is given.
  call ls_check(ls_live_open(q, other, capacity=64, keep="reservoir", hold_out=4))
  call ls_live_close(q)
  call fails(ls_live_open(q, t, keep="stack"), LS_E_ARG, "it can be fifo, reservoir")
  call fails(ls_live_open(q, t, capacity=64, fit=65), LS_E_ARG, "ls_live_open: fit 65: the queues of all ranks")
  call ls_check(ls_live_open(q, t, capacity=64, hold_out=4))
  call ls_check(ls_live_put(q, "x", x))
  call ls_check(ls_live_put(q, "y", y))
  call ls_check(ls_live_put(q, "w", w))
  call ls_check(ls_live_push(q, n))
  call ls_check(ls_live_finish(q))
  call ls_check(ls_live_fill(q, samples, ranks, done))
  call expect(samples == 9 .and. ranks == 9, "9 of 12 samples are trained")
  call ls_check(ls_trainer_run(t, samples, 0.1d0, r))
  call ls_check(ls_live_fill(q, samples, ranks, done))
  call expect(ranks == 0 .and. done, "the queue is done")
  call ls_check(ls_live_evaluate(q, "loss", value))
  call ls_check(ls_live_count(q, numbers))
  call expect(numbers%pushed == n .and. numbers%held == n / 4 .and. numbers%waiting == 0 .and. &
    numbers%trained == n - n / 4 .and. numbers%bytes > 64 * 4 * 9, "numbers of a queue")
  call expect(value > 0, "the loss of what is held out")
  call ls_live_close(q)

  ! In the background: the thread trains what is pushed.
  call ls_check(ls_live_open(q, t, capacity=64))
  call ls_check(ls_live_start(q, 0.01d0))
  do i = 1, 8
    call ls_check(ls_live_put(q, "x", x))
    call ls_check(ls_live_put(q, "y", y))
    call ls_check(ls_live_put(q, "w", w))
    call ls_check(ls_live_push_wait(q, n, 60d0))
  end do
  call ls_check(ls_live_finish(q))
  call ls_check(ls_live_stop(q, samples, s))
  call expect(samples >= 6 .and. s%loss > 0, "steps of a thread") ! 96 samples, at most 16 a step
  call ls_live_close(q)
  call ls_dataset_close(set)
  call ls_predictor_destroy(p)
  call ls_trainer_destroy(other)
  call ls_trainer_destroy(t)
  call ls_trainer_destroy(t) ! a second time: nothing
  call ls_group_destroy(group)
  print "(a)", "fine"

contains

  subroutine step(trainer, result)
    type(ls_trainer), intent(in) :: trainer
    type(ls_step_result), intent(out) :: result
    call ls_check(ls_trainer_put(trainer, "x", x))
    call ls_check(ls_trainer_put(trainer, "y", y))
    call ls_check(ls_trainer_put(trainer, "w", w))
    call ls_check(ls_trainer_run(trainer, n, 0.1d0, result))
  end subroutine

  logical function all_equal(a)
    real(c_float), intent(in) :: a(2, 3, n)
    integer :: k
    all_equal = .true.
    do k = 1, n
      if (any(a(:, :, k) /= transpose(x(:, :, k)))) all_equal = .false.
    end do
  end function
end program
