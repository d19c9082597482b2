! runs.f90 - data sets in files, their steps, and a run with reports and checkpoints, in Fortran. A run that was ended
! after an epoch goes on with the same bits; so does one on other ranks and another mesh.
! Usage: runs FOLDER, which prints "fine"; or runs FOLDER MESH LAYOUT, which prints the loss of the last step.
module runs_model
  use lockstep
  implicit none
  logical :: idle = .false.
contains
  subroutine build(g, batch) bind(c)
    type(ls_graph), intent(in) :: g
    integer(c_int), value :: batch
    type(ls_value) :: x, y, kind, p, classes
    x = ls_input(g, "x", [2, batch])
    y = ls_input(g, "y", [batch])
    kind = ls_input(g, "kind", [batch], LS_I32)
    call ls_scope_push(g, "block", "Block")
    p = ls_gelu(g, ls_linear(g, "in", x, 8))
    call ls_scope_pop(g)
    call ls_loss(g, "mse", ls_square(g, ls_sub(g, ls_reshape(g, ls_linear(g, "out", p, 1), [batch]), y)), 1d0, LS_BY_SAMPLE)
    classes = ls_linear(g, "class", p, 2)
    call ls_loss(g, "class", ls_cross_entropy(g, classes, kind), 0.1d0, LS_BY_VALID, "kind")
    if (idle) classes = ls_linear(g, "idle", p, 2)
    call ls_measure_against(g, "accuracy", LS_ACCURACY, classes, kind, LS_BY_VALID, "kind")
  end subroutine
end module

program runs_test
  use lockstep
  use runs_model
  implicit none
  character(len=400) :: folder, mesh, layout, split
  type(ls_group) :: group
  type(ls_trainer) :: t
  type(ls_dataset) :: set, other
  type(ls_loader) :: loader
  type(ls_run) :: run
  type(ls_run_checkpoint) :: last
  type(ls_step_result) :: r
  real(c_double) :: whole, values(3)
  integer :: i, unit, steps, epoch
  logical(c_bool) :: done, any

  call get_command_argument(1, folder)
  call get_command_argument(2, mesh)
  call get_command_argument(3, layout)
  call ls_check(ls_group_from_environment(group))
  if (mesh /= "") then ! ranks: the sum over data ranks is that of one rank
    call open_set(set)
    split = ""
    if (index(mesh, "tp") > 0) split = "colwise:block.in rowwise:out rowwise:class"
    call ls_check(ls_trainer_create(t, build, group, micro_batch=2, micro_batches=4, threads=1, mesh=trim(mesh), &
      data_parallel=trim(layout), units="class:Block", tensor=trim(split)))
    call ls_check(ls_trainer_init(t, 1))
    call ls_check(ls_loader_create(loader, t, set, seed=1, epochs=3))
    do
      call ls_check(ls_trainer_step_from(t, loader, 1d-2, r, done))
      if (done) exit
      whole = r%loss
    end do
    if (ls_group_rank(group) == 0) print "(es22.15)", whole
    stop
  end if

  ! 10 rows: 3 steps of 4 samples an epoch, the last of them padded.
  open (newunit=unit, file=trim(folder) // "/t.csv")
  write (unit, "(a)") "a,b,y,kind"
  do i = 1, 10
    write (unit, "(f6.3, a, f6.3, a, f6.3, a, i0)") 0.1 * i, ",", cos(1.0 * i), ",", sin(0.3 * i), ",", mod(i, 2)
  end do
  close (unit)
  call open_set(set)
  call expect(ls_dataset_size(set) == 10, "the samples of a table")
  call fails(ls_arrays_open(other, ["x"], [trim(folder) // "/t.csv:a,bb"]), LS_E_USAGE, 'no column "bb"')
  call fails(ls_arrays_open(other, ["x", "y"], [trim(folder) // "/t.csv:a"]), LS_E_ARG, "2 fields, 1 files")
  call fails(ls_arrays_open(other, ["x"], [trim(folder) // "/t.txt"]), LS_E_USAGE, "needs a file of arrays")
  call ls_check(ls_arrays_open(other, ["kind"], [trim(folder) // "/t.csv"], [LS_I64], missing=.true.))
  call ls_dataset_close(other)
  call ls_check(ls_arrays_open(other, ["a"], [trim(folder) // "/t.csv"]))

  ! One that nothing interrupts.
  call start(t)
  call fails(ls_loader_create(loader, t, other), LS_E_SHAPE, 'no "x"')
  call ls_check(ls_loader_create(loader, t, set, seed=1, epochs=3))
  steps = 0
  do
    call ls_check(ls_trainer_step_from(t, loader, 1d-2, r, done, epoch))
    if (done) exit
    call expect(epoch == steps / 3 .and. r%count == merge(2, 4, mod(steps, 3) == 2), "a step of an epoch")
    steps = steps + 1
    whole = r%loss
  end do
  call expect(steps == 9, "3 epochs have 9 steps")
  call ls_check(ls_trainer_evaluate(t, set, [character(len=8) :: "accuracy", "loss", "f1"], values))
  call expect(all(values(1:2) > 0) .and. values(1) <= 1 .and. values(3) <= 1, "metrics of a set")
  call fails(ls_trainer_evaluate(t, set, ["loss", "less"], values), LS_E_ARG, "2 names, room for 3 values")
  call fails(ls_trainer_evaluate(t, set, ["loss", "less"], values(1:2)), LS_E_ARG, 'no metric "less"')
  call ls_loader_destroy(loader)
  call ls_trainer_destroy(t)
  call fails(ls_loader_create(loader, t, set), LS_E_ARG, "the trainer was not made")
  call fails(ls_trainer_step_from(t, loader, 1d-2, r, done), LS_E_ARG, "the loader was not made")

  ! One that ends after its first epoch, and one that goes on.
  call start(t)
  call ls_check(ls_run_open(run, trim(folder), "run", config="a run of a test", best="loss"))
  call expect(.not. ls_latest_checkpoint(run, last), "a new run has no checkpoint")
  call epochs(0, 1)
  call fails(ls_report(run, ["loss", "rate"], [0.5d0]), LS_E_ARG, "2 names, 1 values")
  call ls_check(ls_report(run, [character(len=5) :: "loss", "rate"], [r%loss, 1d-2], t, epoch=0, text="after 1"))
  call ls_run_log(run, "a line")
  call ls_check(ls_run_stop_requested(run, .true., any))
  call expect(logical(any), "a request to stop")
  call expect(ls_run_finish(run, LS_E_STOPPED) == LS_E_STOPPED, "a run that is stopped")
  call ls_trainer_destroy(t)
  call start(t)
  call ls_check(ls_run_open(run, trim(folder), "run", best="loss", async=.true.))
  call expect(ls_latest_checkpoint(run, last), "a run that goes on")
  call expect(last%text == "after 1" .and. last%epoch == 0 .and. last%step == 1, "what the checkpoint says")
  call ls_check(ls_run_load(run, last%path, t))
  call epochs(int(last%epoch) + 1, 3)
  call expect(r%loss == whole, "a run that goes on ends with the same loss")
  call ls_check(ls_report(run, ["loss"], [r%loss], t, checkpoint="full"))
  call ls_check(ls_report(run, ["loss"], [r%loss], t, text="at the end"))
  call ls_check(ls_run_wait(run))
  call expect(ls_latest_checkpoint(run, last), "a checkpoint that was waited for")
  call expect(last%text == "at the end", "what that checkpoint says")
  call ls_check(ls_run_finish(run))
  call fails(ls_report(run, ["loss"], [r%loss]), LS_E_ARG, "is NULL")

  ! Meshes.
  call ls_trainer_destroy(t)
  call ls_check(ls_trainer_create(t, build, group, 2, mesh="dp=1 shard=auto", data_parallel="hybrid"))
  call ls_trainer_destroy(t)
  call fails(ls_trainer_create(t, build, group, mesh="dp=2 tp=2"), LS_E_USAGE, "dp 2 x tp 2 = 4")
  call fails(ls_trainer_create(t, build, group, mesh="dp"), LS_E_ARG, '"dp" is not an axis with its size')
  call fails(ls_trainer_create(t, build, group, mesh="dp=2x"), LS_E_ARG, '"dp=2x" is not an axis with its size')
  call fails(ls_trainer_create(t, build, group, metrics="f2"), LS_E_USAGE, "f2")
  idle = .true.
  call fails(ls_trainer_create(t, build, group), LS_E_USAGE, "no loss depends on parameter idle.weight")
  call ls_dataset_close(set)
  call ls_dataset_close(other)
  print "(a)", "fine"

contains

  subroutine open_set(set)
    type(ls_dataset), intent(out) :: set
    character(len=410) :: files(3) ! (gfortran 12 writes beyond a constructor of texts of unknown length)
    files = trim(folder) // "/t.csv"
    files(1) = trim(files(1)) // ":a,b"
    call ls_check(ls_arrays_open(set, [character(len=4) :: "x", "y", "kind"], files, [LS_F32, LS_F32, LS_I32]))
  end subroutine

  subroutine start(t)
    type(ls_trainer), intent(out) :: t
    call ls_check(ls_trainer_create(t, build, group, micro_batch=2, micro_batches=2, threads=1, metrics="f1"))
    call ls_check(ls_trainer_init(t, 1))
  end subroutine

  subroutine epochs(from, to)
    integer, intent(in) :: from, to
    type(ls_step_result) :: now
    call ls_check(ls_loader_create(loader, t, set, seed=1, epoch=from, epochs=to))
    do
      call ls_check(ls_trainer_step_from(t, loader, 1d-2, now, done))
      if (done) exit
      r = now
    end do
    call ls_loader_destroy(loader)
  end subroutine

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
end program
