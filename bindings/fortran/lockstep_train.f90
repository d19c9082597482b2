! lockstep_train.f90 - ranks, training, predictions. Part of module lockstep (docs/fortran.md).
!
! Functions return a status, LS_OK where all is well: ls_check stops the program at any other. Arrays may be of any
! rank, real(4) or real(8) or integer, sections too; the last dimension is the sample.
module lockstep_train
  use, intrinsic :: iso_c_binding, only: c_bool, c_char, c_double, c_f_pointer, c_int, c_int64_t, c_null_ptr, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only: error_unit
  use lockstep_graph, only: ls_builder, yes
  implicit none

  enum, bind(c) ! ls_status
    enumerator :: LS_OK, LS_E_ARG, LS_E_USAGE, LS_E_IO, LS_E_FORMAT, LS_E_SHAPE, LS_E_MEMORY, LS_E_UNSUPPORTED, &
      LS_E_NUMERIC, LS_E_PEER, LS_E_STOPPED, LS_E_INTERNAL, LS_E_DEVICE
  end enum
  enum, bind(c) ! ls_reduction
    enumerator :: LS_REDUCE_SUM, LS_REDUCE_MAX
  end enum

  ! Handles: made by the calls that have them as intent(out), freed by ls_..._destroy. A copy is the same object.
  type, bind(c) :: ls_group
    private
    type(c_ptr) :: at = c_null_ptr
  end type
  type, bind(c) :: ls_trainer
    private
    type(c_ptr) :: at = c_null_ptr
    integer(c_int64_t) :: micro_batch = 0, micro_batches = 0, share(3) = 0 ! what a loader needs
  end type
  type, bind(c) :: ls_dataset
    private
    type(c_ptr) :: at = c_null_ptr
  end type
  type, bind(c) :: ls_predictor
    private
    type(c_ptr) :: at = c_null_ptr
  end type
  type, bind(c) :: ls_live
    private
    type(c_ptr) :: at = c_null_ptr
  end type

  type, bind(c) :: ls_live_numbers ! of this rank, as in lockstep/live.h
    integer(c_int64_t) :: pushed = 0, held = 0, waiting = 0, trained = 0, dropped = 0
    integer(c_int64_t) :: room = 0   ! samples that the next push may have
    integer(c_int64_t) :: bytes = 0  ! of memory that the queue has
    integer(c_int64_t) :: ranks = 0  ! that wrote the checkpoint, if another number goes on with it
  end type

  type, bind(c) :: ls_step_result
    real(c_double) :: loss = 0         ! what is minimised; NaN: nothing of the step counts
    real(c_double) :: grad_norm = -1   ! before clipping; -1 when not clipping
    real(c_double) :: loss_scale = 0   ! of the next step; 0 without loss scaling
    real(c_double) :: seconds = 0
    integer(c_int64_t) :: count = 0    ! what the loss is a mean of
    logical(c_bool) :: skipped = .false. ! no weight was changed; skip says why:
    integer(c_int) :: skip = 0         ! 1 nothing counts, 2 overflow of f16, 3 loss, 4 gradient not finite
  end type

  interface
    ! ---- ranks
    ! A group of one.
    function ls_group_self(group) result(status) bind(c)
      import :: ls_group, c_int
      type(ls_group), intent(out) :: group
      integer(c_int) :: status
    end function
    ! This process among those that mpirun, srun, torchrun or lockstep started together. Collective.
    function ls_group_from_environment(group) result(status) bind(c)
      import :: ls_group, c_int
      type(ls_group), intent(out) :: group
      integer(c_int) :: status
    end function
    ! The ranks of a communicator: an integer of module mpi, or comm%MPI_VAL of mpi_f08. MPI must be initialised
    ! with MPI_THREAD_MULTIPLE. Collective.
    function ls_group_from_mpi(group, comm) result(status) bind(c, name="ls_group_from_mpi_handle")
      import :: ls_group, c_int
      type(ls_group), intent(out) :: group
      integer(c_int), value :: comm
      integer(c_int) :: status
    end function
    subroutine ls_group_destroy(group) bind(c)
      import :: ls_group
      type(ls_group), intent(inout) :: group
    end subroutine
    pure function ls_group_rank(group) result(n) bind(c, name="lsf_group_rank") ! from 0
      import :: ls_group, c_int
      type(ls_group), intent(in) :: group
      integer(c_int) :: n
    end function
    pure function ls_group_size(group) result(n) bind(c, name="lsf_group_size")
      import :: ls_group, c_int
      type(ls_group), intent(in) :: group
      integer(c_int) :: n
    end function
    function ls_group_barrier(group) result(status) bind(c, name="lsf_group_barrier")
      import :: ls_group, c_int
      type(ls_group), intent(in) :: group
      integer(c_int) :: status
    end function
    ! Sums or maxima over the ranks, in place; a contiguous array. Collective.
    function ls_group_all_reduce(group, values, how) result(status) bind(c, name="lsf_group_all_reduce")
      import :: ls_group, c_int
      type(ls_group), intent(in) :: group
      type(*), intent(inout) :: values(..)
      integer(c_int), value :: how
      integer(c_int) :: status
    end function

    ! ---- training
    function lsf_trainer_create(trainer, build, group, micro_batch, micro_batches, threads, padding, optimizer, &
        beta1, beta2, eps, weight_decay, momentum, nesterov, clip_norm, ema_decay, precision, data_parallel, units, recompute, &
        freeze, mesh, tensor, sequence, metrics, nonfinite, max_skips) result(status) bind(c)
      import :: ls_trainer, ls_builder, ls_group, c_int, c_double
      type(ls_trainer), intent(out) :: trainer
      procedure(ls_builder) :: build
      type(ls_group), intent(in), optional :: group
      integer(c_int), intent(in), optional :: micro_batch, micro_batches, threads
      integer(c_int), value :: padding, nesterov, sequence
      real(c_double), intent(in), optional :: beta1, beta2, eps, weight_decay, momentum, clip_norm, ema_decay
      character(len=*), intent(in) :: optimizer, precision, data_parallel, units, recompute, freeze, mesh, tensor, metrics, &
        nonfinite
      integer(c_int), intent(in), optional :: max_skips
      integer(c_int) :: status
    end function
    subroutine ls_trainer_destroy(trainer) bind(c)
      import :: ls_trainer
      type(ls_trainer), intent(inout) :: trainer
    end subroutine
    ! First values of the parameters, from a seed. Collective.
    function ls_trainer_init(trainer, seed) result(status) bind(c, name="lsf_trainer_init")
      import :: ls_trainer, c_int
      type(ls_trainer), intent(in) :: trainer
      integer(c_int), value :: seed
      integer(c_int) :: status
    end function
    ! Parameters from a file of weights (safetensors, .pt), and into a .safetensors file. Collective.
    function ls_trainer_load(trainer, path) result(status) bind(c, name="lsf_trainer_load")
      import :: ls_trainer, c_int
      type(ls_trainer), intent(in) :: trainer
      character(len=*), intent(in) :: path
      integer(c_int) :: status
    end function
    function ls_trainer_save(trainer, path) result(status) bind(c, name="lsf_trainer_save")
      import :: ls_trainer, c_int
      type(ls_trainer), intent(in) :: trainer
      character(len=*), intent(in) :: path
      integer(c_int) :: status
    end function
    ! All that the trainer keeps, in a new folder, and back on any number of ranks. Collective.
    function ls_trainer_save_checkpoint(trainer, folder) result(status) bind(c, name="lsf_trainer_save_checkpoint")
      import :: ls_trainer, c_int
      type(ls_trainer), intent(in) :: trainer
      character(len=*), intent(in) :: folder
      integer(c_int) :: status
    end function
    function ls_trainer_load_checkpoint(trainer, folder) result(status) bind(c, name="lsf_trainer_load_checkpoint")
      import :: ls_trainer, c_int
      type(ls_trainer), intent(in) :: trainer
      character(len=*), intent(in) :: folder
      integer(c_int) :: status
    end function
    ! Exchanges the parameters and their moving averages (ema_decay), and back. Collective.
    function ls_trainer_exchange_ema(trainer) result(status) bind(c, name="lsf_trainer_exchange_ema")
      import :: ls_trainer, c_int
      type(ls_trainer), intent(in) :: trainer
      integer(c_int) :: status
    end function
    ! Finds the scaling of each field that has one, over all samples of a set. Collective.
    function ls_trainer_fit(trainer, set) result(status) bind(c, name="lsf_trainer_fit")
      import :: ls_trainer, ls_dataset, c_int
      type(ls_trainer), intent(in) :: trainer
      type(ls_dataset), intent(in) :: set
      integer(c_int) :: status
    end function
    ! Copies samples [sample, n] of a field as samples first .. first + n - 1 of this rank's share of the next step;
    ! first is 1 where it is not given. Local.
    function ls_trainer_put(trainer, field, values, first) result(status) bind(c, name="lsf_trainer_put")
      import :: ls_trainer, c_int
      type(ls_trainer), intent(in) :: trainer
      character(len=*), intent(in) :: field
      type(*), intent(in) :: values(..)
      integer(c_int), intent(in), optional :: first
      integer(c_int) :: status
    end function
    ! One step on the first `samples` of them; a rank may have fewer than its share, or none. Collective.
    function ls_trainer_run(trainer, samples, lr, result) result(status) bind(c, name="lsf_trainer_run")
      import :: ls_trainer, ls_step_result, c_int, c_double
      type(ls_trainer), intent(in) :: trainer
      integer(c_int), value :: samples
      real(c_double), value :: lr
      type(ls_step_result), intent(out) :: result
      integer(c_int) :: status
    end function
    ! Copies a parameter or a buffer to an array of its shape, its dimensions in the opposite order to the file's, or
    ! from one. Collective.
    function ls_trainer_get(trainer, name, values) result(status) bind(c, name="lsf_trainer_get")
      import :: ls_trainer, c_int
      type(ls_trainer), intent(in) :: trainer
      character(len=*), intent(in) :: name
      type(*), intent(inout) :: values(..)
      integer(c_int) :: status
    end function
    function ls_trainer_set(trainer, name, values) result(status) bind(c, name="lsf_trainer_set")
      import :: ls_trainer, c_int
      type(ls_trainer), intent(in) :: trainer
      character(len=*), intent(in) :: name
      type(*), intent(in) :: values(..)
      integer(c_int) :: status
    end function
    function ls_trainer_parameter_count(trainer) result(n) bind(c, name="lsf_trainer_parameter_count")
      import :: ls_trainer, c_int64_t
      type(ls_trainer), intent(in) :: trainer
      integer(c_int64_t) :: n
    end function

    ! ---- evaluation
    ! Copies an array [sample, n] as a field of all samples of a set in memory; the first one makes the set. Local.
    function ls_dataset_put(set, field, values) result(status) bind(c, name="lsf_dataset_put")
      import :: ls_dataset, c_int
      type(ls_dataset), intent(inout) :: set
      character(len=*), intent(in) :: field
      type(*), intent(in) :: values(..)
      integer(c_int) :: status
    end function
    subroutine ls_dataset_close(set) bind(c)
      import :: ls_dataset
      type(ls_dataset), intent(inout) :: set
    end subroutine
    ! One loss ("loss": what is minimised) or metric over a whole set; NaN: it is undefined. Collective.
    function lsf_trainer_evaluate(trainer, set, metric, value) result(status) bind(c)
      import :: ls_trainer, ls_dataset, c_int, c_double
      type(ls_trainer), intent(in) :: trainer
      type(ls_dataset), intent(in) :: set
      character(len=*), intent(in) :: metric
      real(c_double), intent(out) :: value
      integer(c_int) :: status
    end function

    function lsf_trainer_evaluate_all(trainer, set, metric, value) result(status) bind(c)
      import :: ls_trainer, ls_dataset, c_int, c_double
      type(ls_trainer), intent(in) :: trainer
      type(ls_dataset), intent(in) :: set
      character(len=*), intent(in) :: metric(:)
      real(c_double), intent(inout) :: value(:)
      integer(c_int) :: status
    end function

    ! ---- predictions
    ! A predictor with the weights that the trainer has now; outputs: names separated by blanks, else all. Collective;
    ! the calls of a predictor are local.
    function ls_predictor_of(predictor, trainer, outputs) result(status) bind(c, name="lsf_predictor_of")
      import :: ls_predictor, ls_trainer, c_int
      type(ls_predictor), intent(out) :: predictor
      type(ls_trainer), intent(in) :: trainer
      character(len=*), intent(in), optional :: outputs
      integer(c_int) :: status
    end function
    ! One with the weights of a checkpoint, or of a run's latest one; `build` made the model, `batch` samples are
    ! computed at once. Local.
    function ls_predictor_open(predictor, path, build, outputs, batch, threads) result(status) &
        bind(c, name="lsf_predictor_open")
      import :: ls_predictor, ls_builder, c_int
      type(ls_predictor), intent(out) :: predictor
      character(len=*), intent(in) :: path
      procedure(ls_builder), optional :: build
      character(len=*), intent(in), optional :: outputs
      integer(c_int), intent(in), optional :: batch, threads
      integer(c_int) :: status
    end function
    subroutine ls_predictor_destroy(predictor) bind(c)
      import :: ls_predictor
      type(ls_predictor), intent(inout) :: predictor
    end subroutine
    function ls_predictor_put(predictor, field, values) result(status) bind(c, name="lsf_predictor_put")
      import :: ls_predictor, c_int
      type(ls_predictor), intent(in) :: predictor
      character(len=*), intent(in) :: field
      type(*), intent(in) :: values(..)
      integer(c_int) :: status
    end function
    ! Computes the outputs of n samples, any number.
    function ls_predictor_run(predictor, n) result(status) bind(c, name="lsf_predictor_run")
      import :: ls_predictor, c_int
      type(ls_predictor), intent(in) :: predictor
      integer(c_int), value :: n
      integer(c_int) :: status
    end function
    ! Copies an output to an array [sample, n], also to a section.
    function ls_predictor_get(predictor, output, values) result(status) bind(c, name="lsf_predictor_get")
      import :: ls_predictor, c_int
      type(ls_predictor), intent(in) :: predictor
      character(len=*), intent(in) :: output
      type(*), intent(inout) :: values(..)
      integer(c_int) :: status
    end function

    ! ---- live data (docs/live.md)
    ! A queue of samples for a trainer. keep: "fifo" or "reservoir"; full: "refuse" or "drop_oldest". Collective.
    function ls_live_open(queue, trainer, capacity, keep, full, hold_out, seed, record, fit) result(status) &
        bind(c, name="lsf_live_open")
      import :: ls_live, ls_trainer, c_int
      type(ls_live), intent(out) :: queue
      type(ls_trainer), intent(in) :: trainer
      integer(c_int), intent(in), optional :: capacity, hold_out, seed, fit
      character(len=*), intent(in), optional :: keep, full, record
      integer(c_int) :: status
    end function
    subroutine ls_live_close(queue) bind(c)
      import :: ls_live
      type(ls_live), intent(inout) :: queue
    end subroutine
    ! Copies values of a field, [sample, m], for the next push. Local.
    function ls_live_put(queue, field, values) result(status) bind(c, name="lsf_live_put")
      import :: ls_live, c_int
      type(ls_live), intent(in) :: queue
      character(len=*), intent(in) :: field
      type(*), intent(in) :: values(..)
      integer(c_int) :: status
    end function
    ! Appends the m samples that were put. Local.
    function ls_live_push(queue, m) result(status) bind(c, name="lsf_live_push")
      import :: ls_live, c_int
      type(ls_live), intent(in) :: queue
      integer(c_int), value :: m
      integer(c_int) :: status
    end function
    function ls_live_finish(queue) result(status) bind(c, name="lsf_live_finish") ! this rank pushes no more
      import :: ls_live, c_int
      type(ls_live), intent(in) :: queue
      integer(c_int) :: status
    end function
    ! Takes samples for a step: `samples` of this rank, for ls_trainer_run; total over the ranks, 0: none. done: all
    ! ranks have finished, and nothing is left. Collective.
    function ls_live_fill(queue, samples, total, done) result(status) bind(c, name="lsf_live_fill")
      import :: ls_live, c_int, c_bool
      type(ls_live), intent(in) :: queue
      integer(c_int), intent(out) :: samples, total
      logical(c_bool), intent(out), optional :: done
      integer(c_int) :: status
    end function
    ! In the background a thread of each rank trains while the program computes: from ls_live_start, with a step as soon
    ! as all ranks have `least` samples (1), to ls_live_stop, which says how many steps there were and gives the last.
    ! ls_live_push_wait waits for room, up to so many seconds. Start and stop are collective.
    function ls_live_start(queue, lr, least) result(status) bind(c, name="lsf_live_start")
      import :: ls_live, c_int, c_double
      type(ls_live), intent(in) :: queue
      real(c_double), value :: lr
      integer(c_int), intent(in), optional :: least
      integer(c_int) :: status
    end function
    function ls_live_stop(queue, steps, last) result(status) bind(c, name="lsf_live_stop")
      import :: ls_live, ls_step_result, c_int
      type(ls_live), intent(in) :: queue
      integer(c_int), intent(out), optional :: steps
      type(ls_step_result), intent(out), optional :: last
      integer(c_int) :: status
    end function
    function ls_live_push_wait(queue, m, seconds) result(status) bind(c, name="lsf_live_push_wait")
      import :: ls_live, c_int, c_double
      type(ls_live), intent(in) :: queue
      integer(c_int), value :: m
      real(c_double), value :: seconds
      integer(c_int) :: status
    end function
    function ls_live_count(queue, numbers) result(status) bind(c, name="lsf_live_count") ! local
      import :: ls_live, ls_live_numbers, c_int
      type(ls_live), intent(in) :: queue
      type(ls_live_numbers), intent(out) :: numbers
      integer(c_int) :: status
    end function
    ! One loss or metric over the samples that are held out. Collective.
    function ls_live_evaluate(queue, metric, value) result(status) bind(c, name="lsf_live_evaluate")
      import :: ls_live, c_int, c_double
      type(ls_live), intent(in) :: queue
      character(len=*), intent(in) :: metric
      real(c_double), intent(out) :: value
      integer(c_int) :: status
    end function

    function lsf_error_message() result(text) bind(c, name="ls_error_message")
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function lsf_version() result(text) bind(c, name="ls_version")
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function lsf_strlen(text) result(n) bind(c, name="strlen")
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: n
    end function
  end interface
  ! metric: a name, or a list of names, which value has the values of.
  interface ls_trainer_evaluate
    procedure lsf_trainer_evaluate, lsf_trainer_evaluate_all
  end interface
  private :: ls_builder, yes

contains

  function text_of(from) result(text)
    type(c_ptr), intent(in) :: from
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(from, letters, [lsf_strlen(from)])
    allocate (character(len=size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

  pure function given(text)
    character(len=*), intent(in), optional :: text
    character(len=:), allocatable :: given
    given = ""
    if (present(text)) given = text
  end function

  ! Why the latest call that failed did.
  function ls_error_message() result(text)
    character(len=:), allocatable :: text
    text = text_of(lsf_error_message())
  end function

  function ls_version() result(text)
    character(len=:), allocatable :: text
    text = text_of(lsf_version())
  end function

  ! Stops the program at any status but LS_OK: the message on standard error, and the exit status 2 for a wrong
  ! argument, name or shape, 75 for a stop on request, else 1, as the command has them.
  subroutine ls_check(status)
    integer(c_int), intent(in) :: status
    if (status == LS_OK) return
    write (error_unit, "(a)") "error: " // ls_error_message()
    select case (status)
    case (LS_E_ARG, LS_E_USAGE, LS_E_SHAPE)
      stop 2, quiet=.true.
    case (LS_E_STOPPED)
      stop 75, quiet=.true.
    case default
      stop 1, quiet=.true.
    end select
  end subroutine

  ! A model, compiled into a training step. What is not given has the library's default, with two exceptions:
  ! micro-batches may be padded, and micro_batches is the number of ranks (that split the data). optimizer: "adam",
  ! "adamw", "sgd", "lion", "muon" or "adafactor" (which sets its own rate: that of a step does not count);
  ! precision: "f32", "bf16", "f16" or "f64"; data_parallel: "fsdp", "ddp", "hybrid" or "none"; mesh: "dp=2 shard=2",
  ! "dp=auto tp=2"; metrics: "f1 auc perplexity". docs/library.md explains the others. Collective.
  function ls_trainer_create(trainer, build, group, micro_batch, micro_batches, threads, padding, optimizer, beta1, &
      beta2, eps, weight_decay, momentum, nesterov, clip_norm, ema_decay, precision, data_parallel, units, recompute, freeze, &
      mesh, tensor, sequence, metrics, nonfinite, max_skips) result(status)
    type(ls_trainer), intent(out) :: trainer
    procedure(ls_builder) :: build
    type(ls_group), intent(in), optional :: group
    integer(c_int), intent(in), optional :: micro_batch, micro_batches, threads
    logical, intent(in), optional :: padding, nesterov, sequence
    real(c_double), intent(in), optional :: beta1, beta2, eps, weight_decay, momentum, clip_norm, ema_decay
    character(len=*), intent(in), optional :: optimizer, precision, data_parallel, units, recompute, freeze, mesh, &
      tensor, metrics, nonfinite
    integer(c_int), intent(in), optional :: max_skips
    integer(c_int) :: status
    status = lsf_trainer_create(trainer, build, group, micro_batch, micro_batches, threads, yes(padding, .true.), &
      given(optimizer), beta1, beta2, eps, weight_decay, momentum, yes(nesterov, .false.), clip_norm, ema_decay, &
      given(precision), given(data_parallel), given(units), given(recompute), given(freeze), given(mesh), &
      given(tensor), yes(sequence, .false.), given(metrics), given(nonfinite), max_skips)
  end function
end module
