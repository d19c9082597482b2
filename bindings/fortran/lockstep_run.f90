! lockstep_run.f90 - data sets in files, training on a data set, runs with reports. Part of module lockstep
! (docs/fortran.md).
module lockstep_run
  use, intrinsic :: iso_c_binding, only: c_bool, c_double, c_int, c_int64_t, c_null_ptr, c_ptr
  use lockstep_graph, only: yes
  use lockstep_train, only: given, ls_dataset, ls_group, ls_step_result, ls_trainer, text_of, LS_OK
  implicit none

  type, bind(c) :: ls_loader ! the steps of a data set, read ahead by a thread
    private
    type(c_ptr) :: at = c_null_ptr
  end type
  type, bind(c) :: ls_run ! a folder with metrics and checkpoints, as in lockstep/run.h
    private
    type(c_ptr) :: at = c_null_ptr
  end type
  type :: ls_run_checkpoint
    character(len=:), allocatable :: path, text ! text: what ls_report was given
    integer(c_int64_t) :: step = 0, epoch = 0
  end type

  type, bind(c) :: lsf_checkpoint
    type(c_ptr) :: path = c_null_ptr, text = c_null_ptr
    integer(c_int64_t) :: step = 0, epoch = 0
  end type

  interface
    function lsf_arrays_open(set, fields, files, types, missing) result(status) bind(c)
      import :: ls_dataset, c_int
      type(ls_dataset), intent(out) :: set
      character(len=*), intent(in) :: fields(:), files(:)
      integer(c_int), intent(in), optional :: types(:)
      integer(c_int), value :: missing
      integer(c_int) :: status
    end function
    pure function ls_dataset_size(set) result(n) bind(c, name="lsf_dataset_size") ! samples
      import :: ls_dataset, c_int64_t
      type(ls_dataset), intent(in) :: set
      integer(c_int64_t) :: n
    end function

    function lsf_loader_create(loader, trainer, set, seed, epoch, epochs, shuffle, drop_last) result(status) bind(c)
      import :: ls_loader, ls_trainer, ls_dataset, c_int
      type(ls_loader), intent(out) :: loader
      type(ls_trainer), intent(in) :: trainer
      type(ls_dataset), intent(in) :: set
      integer(c_int), intent(in), optional :: seed, epoch, epochs
      integer(c_int), value :: shuffle, drop_last
      integer(c_int) :: status
    end function
    subroutine ls_loader_destroy(loader) bind(c) ! before the data set
      import :: ls_loader
      type(ls_loader), intent(inout) :: loader
    end subroutine
    ! The next step of the loader's set. done: the last epoch was over before, and nothing was trained. epoch: of this
    ! step, from 0 on. Collective.
    function ls_trainer_step_from(trainer, loader, lr, result, done, epoch) result(status) &
        bind(c, name="lsf_trainer_step_from")
      import :: ls_trainer, ls_loader, ls_step_result, c_bool, c_double, c_int
      type(ls_trainer), intent(in) :: trainer
      type(ls_loader), intent(in) :: loader
      real(c_double), value :: lr
      type(ls_step_result), intent(out) :: result
      logical(c_bool), intent(out) :: done
      integer(c_int), intent(out), optional :: epoch
      integer(c_int) :: status
    end function

    function lsf_run_open(run, storage, name, group, config, keep, keep_best, best, best_is_max, async) result(status) &
        bind(c)
      import :: ls_run, ls_group, c_int
      type(ls_run), intent(out) :: run
      character(len=*), intent(in) :: storage, name, config, best
      type(ls_group), intent(in), optional :: group
      integer(c_int), intent(in), optional :: keep, keep_best
      integer(c_int), value :: best_is_max, async
      integer(c_int) :: status
    end function
    function lsf_latest_checkpoint(run, checkpoint) result(found) bind(c)
      import :: ls_run, lsf_checkpoint, c_bool
      type(ls_run), intent(in) :: run
      type(lsf_checkpoint), intent(out) :: checkpoint
      logical(c_bool) :: found
    end function
    ! Everything of a checkpoint, of any number of ranks, into the trainer. Collective.
    function ls_run_load(run, path, trainer) result(status) bind(c, name="lsf_run_load")
      import :: ls_run, ls_trainer, c_int
      type(ls_run), intent(in) :: run
      character(len=*), intent(in) :: path
      type(ls_trainer), intent(in) :: trainer
      integer(c_int) :: status
    end function
    ! A row of metrics, names(i) = values(i); with a trainer also a checkpoint, complete on disk when this returns (async: copied). text:
    ! where the program stands, kept in the checkpoint. checkpoint: the name of one that is kept whatever `keep` says.
    ! Collective.
    function ls_report(run, names, values, trainer, epoch, step, text, checkpoint) result(status) &
        bind(c, name="lsf_report")
      import :: ls_run, ls_trainer, c_int, c_int64_t, c_double
      type(ls_run), intent(in) :: run
      character(len=*), intent(in) :: names(:)
      real(c_double), intent(in) :: values(:)
      type(ls_trainer), intent(in), optional :: trainer
      integer(c_int), intent(in), optional :: epoch
      integer(c_int64_t), intent(in), optional :: step
      character(len=*), intent(in), optional :: text, checkpoint
      integer(c_int) :: status
    end function
    ! With async: waits for the checkpoint that is being written; it is then the latest. Collective.
    function ls_run_wait(run) result(status) bind(c, name="lsf_run_wait")
      import :: ls_run, c_int
      type(ls_run), intent(in) :: run
      integer(c_int) :: status
    end function
    function lsf_run_stop_requested(run, asked, any) result(status) bind(c)
      import :: ls_run, c_bool, c_int
      type(ls_run), intent(in) :: run
      integer(c_int), value :: asked
      logical(c_bool), intent(out) :: any
      integer(c_int) :: status
    end function
    subroutine ls_run_log(run, message) bind(c, name="lsf_run_log") ! a line in log/rank-N.log. Local
      import :: ls_run
      type(ls_run), intent(in) :: run
      character(len=*), intent(in) :: message
    end subroutine
    ! Ends the run and returns `how`: LS_OK (the default) finished, LS_E_STOPPED stopped, any other failed. Collective.
    function ls_run_finish(run, how) result(status) bind(c, name="lsf_run_finish")
      import :: ls_run, c_int
      type(ls_run), intent(inout) :: run
      integer(c_int), intent(in), optional :: how
      integer(c_int) :: status
    end function
  end interface
  private :: yes, given, ls_dataset, ls_group, ls_step_result, ls_trainer, text_of, LS_OK
  private :: lsf_arrays_open, lsf_checkpoint, lsf_latest_checkpoint, lsf_loader_create, lsf_run_open, &
    lsf_run_stop_requested

contains

  ! A data set in files: fields(i) from files(i), "x.npy", "all.npz:NAME", "all.csv:a,b", "all.h5:DATASET",
  ! "all.nc:VARIABLE" (docs/arrays.md). types(i): LS_F32 (the default), LS_F64, LS_I64, LS_U8 or, for classes and ids,
  ! LS_I32, where -100 does not count. missing: NaN is a missing number of a float field, and FIELD.valid says so; else it
  ! is an error. Local.
  function ls_arrays_open(set, fields, files, types, missing) result(status)
    type(ls_dataset), intent(out) :: set
    character(len=*), intent(in) :: fields(:), files(:)
    integer(c_int), intent(in), optional :: types(:)
    logical, intent(in), optional :: missing
    integer(c_int) :: status
    status = lsf_arrays_open(set, fields, files, types, yes(missing, .false.))
  end function

  ! Steps of micro_batch * micro_batches samples of a set, for this rank its share. From `epoch` (0) to `epochs` (without
  ! end where it is not given). The set and the trainer must outlive it. Local.
  function ls_loader_create(loader, trainer, set, seed, epoch, epochs, shuffle, drop_last) result(status)
    type(ls_loader), intent(out) :: loader
    type(ls_trainer), intent(in) :: trainer
    type(ls_dataset), intent(in) :: set
    integer(c_int), intent(in), optional :: seed, epoch, epochs
    logical, intent(in), optional :: shuffle, drop_last ! .true., .false.
    integer(c_int) :: status
    status = lsf_loader_create(loader, trainer, set, seed, epoch, epochs, yes(shuffle, .true.), yes(drop_last, .false.))
  end function

  ! Makes STORAGE/NAME or opens the one that an earlier start left. storage: a folder, or s3://BUCKET/PREFIX. best: the
  ! metric by which a checkpoint is the best. async: checkpoints are written beside the program. Collective.
  function ls_run_open(run, storage, name, group, config, keep, keep_best, best, best_is_max, async) result(status)
    type(ls_run), intent(out) :: run
    character(len=*), intent(in) :: storage, name
    type(ls_group), intent(in), optional :: group
    character(len=*), intent(in), optional :: config, best
    integer(c_int), intent(in), optional :: keep, keep_best
    logical, intent(in), optional :: best_is_max, async
    integer(c_int) :: status
    status = lsf_run_open(run, storage, name, group, given(config), keep, keep_best, given(best), &
      yes(best_is_max, .false.), yes(async, .false.))
  end function

  ! The newest checkpoint of the run, for ls_run_load; .false.: there is none yet. Local.
  logical function ls_latest_checkpoint(run, checkpoint) result(found)
    type(ls_run), intent(in) :: run
    type(ls_run_checkpoint), intent(out) :: checkpoint
    type(lsf_checkpoint) :: c
    found = lsf_latest_checkpoint(run, c)
    if (.not. found) return
    checkpoint%path = text_of(c%path)
    checkpoint%text = text_of(c%text)
    checkpoint%step = c%step
    checkpoint%epoch = c%epoch
  end function

  ! any: whether a rank was asked to stop; asked: this rank's answer. Collective.
  function ls_run_stop_requested(run, asked, any) result(status)
    type(ls_run), intent(in) :: run
    logical, intent(in) :: asked
    logical(c_bool), intent(out) :: any
    integer(c_int) :: status
    status = lsf_run_stop_requested(run, yes(asked, .false.), any)
  end function
end module
