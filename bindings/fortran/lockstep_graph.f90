! lockstep_graph.f90 - building a model: values, ops, losses. Part of module lockstep (docs/fortran.md).
!
! Dimensions are Fortran's: they count from 1, and the last one is the batch. The library has them in the opposite
! order, so graph.c turns lists of dimensions around; its messages show the library's order.
module lockstep_graph
  use, intrinsic :: iso_c_binding, only: c_double, c_int, c_int32_t, c_ptr
  implicit none

  ! A graph under construction. It exists during a call of a builder only.
  type, bind(c) :: ls_graph
    private
    integer(c_int) :: opaque = 0
  end type
  ! A value of a graph: what a call of the ops below returns. Values are passed by reference: gfortran 12 passes the
  ! address of a function's result where a derived type is asked for by value, in x = f(g, h(g, x)).
  type, bind(c) :: ls_value
    private
    integer(c_int32_t) :: id = 0, graph = 0
  end type
  type(ls_value), parameter :: LS_NONE = ls_value()
  ! Mean and deviation of a field: buffers of the model, which ls_trainer_fit finds.
  type, bind(c) :: ls_scaling
    private
    type(ls_value) :: mean, deviation
  end type

  enum, bind(c) ! ls_dtype
    enumerator :: LS_F32, LS_F64, LS_BF16, LS_F16, LS_I32, LS_I64, LS_U8
  end enum
  enum, bind(c) ! ls_init_kind
    enumerator :: LS_INIT_ZERO, LS_INIT_ONE, LS_INIT_CONST, LS_INIT_NORMAL, LS_INIT_UNIFORM, LS_INIT_TRUNC_NORMAL
  end enum
  enum, bind(c) ! ls_weigh
    enumerator :: LS_BY_SAMPLE, LS_BY_ELEMENT, LS_BY_VALID, LS_BY_FIELD, LS_OVER_FIELD
  end enum
  enum, bind(c) ! ls_how
    enumerator :: LS_MEAN_OF, LS_SUM_OF, LS_LARGEST, LS_SMALLEST, LS_COUNT_OF
  end enum

  enum, bind(c) ! ls_metric_kind
    enumerator :: LS_ACCURACY = 1, LS_F1, LS_RMSE, LS_MAE, LS_R2, LS_PERPLEXITY, LS_AUC
  end enum

  enum, bind(c) ! ls_loss_kind
    enumerator :: LS_LOSS_MSE, LS_LOSS_MAE, LS_LOSS_HUBER, LS_LOSS_BCE, LS_LOSS_CROSS_ENTROPY
  end enum

  abstract interface
    ! Builds a model for `batch` samples. The library finishes the graph.
    subroutine ls_builder(g, batch) bind(c)
      import :: ls_graph, c_int
      type(ls_graph), intent(in) :: g
      integer(c_int), value :: batch
    end subroutine
    function ls_op1(g, a) result(v) bind(c)
      import :: ls_graph, ls_value
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      type(ls_value) :: v
    end function
    function ls_op2(g, a, b) result(v) bind(c)
      import :: ls_graph, ls_value
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a, b
      type(ls_value) :: v
    end function
    function ls_op3(g, a, b, c) result(v) bind(c)
      import :: ls_graph, ls_value
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a, b, c
      type(ls_value) :: v
    end function
    function ls_op_constant(g, a, c) result(v) bind(c)
      import :: ls_graph, ls_value, c_double
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      real(c_double), value :: c
      type(ls_value) :: v
    end function
    function ls_reducer(g, a, dim, keep) result(v) bind(c)
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      integer(c_int), intent(in), optional :: dim
      integer(c_int), value :: keep
      type(ls_value) :: v
    end function
    subroutine ls_graph_call(g) bind(c)
      import :: ls_graph
      type(ls_graph), intent(in) :: g
    end subroutine
  end interface

  ! Element by element; shapes broadcast as in NumPy, from the first dimension on.
  procedure(ls_op2), bind(c, name="lsf_add") :: ls_add
  procedure(ls_op2), bind(c, name="lsf_sub") :: ls_sub
  procedure(ls_op2), bind(c, name="lsf_mul") :: ls_mul
  procedure(ls_op2), bind(c, name="lsf_div") :: ls_div
  procedure(ls_op2), bind(c, name="lsf_max") :: ls_max
  procedure(ls_op2), bind(c, name="lsf_min") :: ls_min
  procedure(ls_op2), bind(c, name="lsf_pow") :: ls_pow
  procedure(ls_op2), bind(c, name="lsf_gt") :: ls_gt
  procedure(ls_op2), bind(c, name="lsf_ge") :: ls_ge
  procedure(ls_op2), bind(c, name="lsf_eq") :: ls_eq
  procedure(ls_op3), bind(c, name="lsf_where") :: ls_where
  procedure(ls_op1), bind(c, name="lsf_neg") :: ls_neg
  procedure(ls_op1), bind(c, name="lsf_sqrt") :: ls_sqrt
  procedure(ls_op1), bind(c, name="lsf_exp") :: ls_exp
  procedure(ls_op1), bind(c, name="lsf_log_e") :: ls_log_e
  procedure(ls_op1), bind(c, name="lsf_tanh") :: ls_tanh
  procedure(ls_op1), bind(c, name="lsf_square") :: ls_square
  procedure(ls_op1), bind(c, name="lsf_abs") :: ls_abs
  procedure(ls_op1), bind(c, name="lsf_sign") :: ls_sign
  procedure(ls_op1), bind(c, name="lsf_sin") :: ls_sin
  procedure(ls_op1), bind(c, name="lsf_cos") :: ls_cos
  procedure(ls_op1), bind(c, name="lsf_sigmoid") :: ls_sigmoid
  procedure(ls_op1), bind(c, name="lsf_softplus") :: ls_softplus
  procedure(ls_op1), bind(c, name="lsf_hardswish") :: ls_hardswish
  procedure(ls_op1), bind(c, name="lsf_relu") :: ls_relu
  procedure(ls_op1), bind(c, name="lsf_gelu") :: ls_gelu
  procedure(ls_op1), bind(c, name="lsf_gelu_tanh") :: ls_gelu_tanh
  procedure(ls_op1), bind(c, name="lsf_silu") :: ls_silu
  procedure(ls_op2), bind(c, name="lsf_swiglu") :: ls_swiglu
  procedure(ls_op_constant), bind(c, name="lsf_leaky_relu") :: ls_leaky_relu
  procedure(ls_op_constant), bind(c, name="lsf_elu") :: ls_elu
  procedure(ls_op_constant), bind(c, name="lsf_add_const") :: ls_add_const
  procedure(ls_op_constant), bind(c, name="lsf_mul_const") :: ls_mul_const
  procedure(ls_op_constant), bind(c, name="lsf_div_const") :: ls_div_const
  procedure(ls_op_constant), bind(c, name="lsf_pow_const") :: ls_pow_const
  ! Products: x [K, ..], w [K, N], b [N] or LS_NONE -> [N, ..]. Over the first dimension: softmax, log_softmax,
  ! argmax.
  procedure(ls_op3), bind(c, name="lsf_matmul_wt") :: ls_matmul_wt
  procedure(ls_op2), bind(c, name="lsf_embedding_op") :: ls_embedding_op ! ids, table [K, rows]
  procedure(ls_op1), bind(c, name="lsf_softmax") :: ls_softmax
  procedure(ls_op1), bind(c, name="lsf_log_softmax") :: ls_log_softmax
  procedure(ls_op1), bind(c, name="lsf_argmax") :: ls_argmax
  procedure(ls_op2), bind(c, name="lsf_cross_entropy") :: ls_cross_entropy ! logits [classes, rows], labels [rows]
  procedure(ls_op2), bind(c, name="lsf_correct") :: ls_correct
  ! What is built between computes in f32 at least.
  procedure(ls_graph_call), bind(c, name="ls_wide_begin") :: ls_wide_begin
  procedure(ls_graph_call), bind(c, name="ls_wide_end") :: ls_wide_end
  procedure(ls_graph_call), bind(c, name="ls_scope_pop") :: ls_scope_pop
  procedure(ls_reducer), bind(c, name="lsf_sum") :: lsf_sum
  procedure(ls_reducer), bind(c, name="lsf_mean") :: lsf_mean
  procedure(ls_reducer), bind(c, name="lsf_amax") :: lsf_amax
  procedure(ls_reducer), bind(c, name="lsf_argmax_over") :: lsf_argmax_over

  interface
    ! An input of the model takes the field of its name. dims: of `batch` samples, the batch last.
    function ls_input(g, name, dims, dtype) result(v) bind(c, name="lsf_input")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      integer(c_int), intent(in) :: dims(:)
      integer(c_int), intent(in), optional :: dtype ! LS_F32
      type(ls_value) :: v
    end function
    ! A trained parameter; its first values: LS_INIT_CONST a; NORMAL mean a, deviation b; UNIFORM [a, b).
    function ls_param(g, name, dims, init, a, b) result(v) bind(c, name="lsf_param")
      import :: ls_graph, ls_value, c_int, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      integer(c_int), intent(in) :: dims(:)
      integer(c_int), value :: init
      real(c_double), intent(in), optional :: a, b
      type(ls_value) :: v
    end function
    function ls_fill(g, dims, value) result(v) bind(c, name="lsf_fill")
      import :: ls_graph, ls_value, c_int, c_double
      type(ls_graph), intent(in) :: g
      integer(c_int), intent(in) :: dims(:)
      real(c_double), value :: value
      type(ls_value) :: v
    end function
    subroutine ls_output(g, name, v) bind(c, name="lsf_output")
      import :: ls_graph, ls_value
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: v
    end subroutine
    ! Output n (from 0) of the op that made v.
    function ls_nth(g, v, n) result(w) bind(c, name="lsf_nth")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: v
      integer(c_int), value :: n
      type(ls_value) :: w
    end function
    ! Size of dimension d of a value; d 0: how many dimensions it has.
    pure function ls_size(g, v, d) result(n) bind(c, name="lsf_size")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: v
      integer(c_int), value :: d
      integer(c_int) :: n
    end function
    function ls_cast(g, a, dtype) result(v) bind(c, name="lsf_cast")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      integer(c_int), value :: dtype
      type(ls_value) :: v
    end function
    function ls_clamp(g, a, low, high) result(v) bind(c, name="lsf_clamp")
      import :: ls_graph, ls_value, c_double
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      real(c_double), value :: low, high
      type(ls_value) :: v
    end function
    ! Shapes. ls_reshape: one size may be -1; ls_permute: dimension i of the result is dimension dims(i) of a. (They
    ! are not procedure(interface): gfortran 12 passes no descriptor to such a one from its second call on.)
    function ls_reshape(g, a, dims) result(v) bind(c, name="lsf_reshape")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      integer(c_int), intent(in) :: dims(:)
      type(ls_value) :: v
    end function
    function ls_permute(g, a, dims) result(v) bind(c, name="lsf_permute")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      integer(c_int), intent(in) :: dims(:)
      type(ls_value) :: v
    end function
    function ls_broadcast(g, a, dims) result(v) bind(c, name="lsf_broadcast")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      integer(c_int), intent(in) :: dims(:)
      type(ls_value) :: v
    end function
    function ls_sum_to(g, a, dims) result(v) bind(c, name="lsf_sum_to")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      integer(c_int), intent(in) :: dims(:)
      type(ls_value) :: v
    end function
    ! Elements first .. first + count - 1 of dimension dim.
    function ls_slice(g, a, dim, first, count) result(v) bind(c, name="lsf_slice")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      integer(c_int), value :: dim, first, count
      type(ls_value) :: v
    end function
    function ls_cumsum(g, a, dim) result(v) bind(c, name="lsf_cumsum")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      integer(c_int), value :: dim
      type(ls_value) :: v
    end function
    ! Elements, or slices, by their numbers along dim; the numbers count from 0.
    function ls_gather(g, a, dim, index) result(v) bind(c, name="lsf_gather")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a, index
      integer(c_int), value :: dim
      type(ls_value) :: v
    end function
    function ls_index_select(g, a, dim, index) result(v) bind(c, name="lsf_index_select")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a, index
      integer(c_int), value :: dim
      type(ls_value) :: v
    end function
    ! a with the elements of x added by their numbers along dim; ls_index_add: with slices of x.
    function ls_scatter_add(g, a, dim, index, x) result(v) bind(c, name="lsf_scatter_add")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a, index, x
      integer(c_int), value :: dim
      type(ls_value) :: v
    end function
    function ls_index_add(g, a, dim, index, x) result(v) bind(c, name="lsf_index_add")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a, index, x
      integer(c_int), value :: dim
      type(ls_value) :: v
    end function
    function lsf_matmul(g, a, b, transpose_a, transpose_b) result(v) bind(c)
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a, b
      integer(c_int), value :: transpose_a, transpose_b
      type(ls_value) :: v
    end function
    function lsf_variance(g, a, dim, keep, correction) result(v) bind(c)
      import :: ls_graph, ls_value, c_int, c_double
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: a
      integer(c_int), intent(in), optional :: dim
      integer(c_int), value :: keep
      real(c_double), intent(in), optional :: correction
      type(ls_value) :: v
    end function
    function ls_concat(g, dim, parts) result(v) bind(c, name="lsf_concat")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      integer(c_int), value :: dim
      type(ls_value), intent(in) :: parts(:)
      type(ls_value) :: v
    end function
    ! Scopes give parameters their dotted names.
    subroutine ls_scope_push(g, name, class) bind(c, name="lsf_scope_push")
      import :: ls_graph
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      character(len=*), intent(in), optional :: class
    end subroutine
    ! Later calls stand in this line, in messages: in a .F90 file, call ls_at(g, __FILE__, __LINE__).
    subroutine ls_at(g, file, line) bind(c, name="lsf_at")
      import :: ls_graph, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: file
      integer(c_int), value :: line
    end subroutine
    ! What is minimised: factor * (sum of rows) / divisor; rows [.., batch].
    subroutine ls_loss(g, name, rows, factor, weigh, field) bind(c, name="lsf_loss")
      import :: ls_graph, ls_value, c_int, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: rows
      real(c_double), value :: factor
      integer(c_int), value :: weigh
      character(len=*), intent(in), optional :: field
    end subroutine
    subroutine ls_loss_scalar(g, name, v, factor) bind(c, name="lsf_loss_scalar")
      import :: ls_graph, ls_value, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: v
      real(c_double), value :: factor
    end subroutine
    subroutine ls_measure(g, name, rows, how, weigh, field) bind(c, name="lsf_measure")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: rows
      integer(c_int), value :: how, weigh
      character(len=*), intent(in), optional :: field
    end subroutine
    ! Rows of PyTorch's losses, for ls_loss; delta: of LS_LOSS_HUBER, 1 where it is not given.
    function ls_loss_rows(g, kind, output, target, delta) result(v) bind(c, name="lsf_loss_rows")
      import :: ls_graph, ls_value, c_int, c_double
      type(ls_graph), intent(in) :: g
      integer(c_int), value :: kind
      type(ls_value), intent(in) :: output, target
      real(c_double), intent(in), optional :: delta
      type(ls_value) :: v
    end function
    ! Scaling of a field: channels is its first dimension. ls_scale: (x - mean) / deviation; ls_unscale: back.
    function ls_scaling_of(g, field, channels) result(s) bind(c, name="lsf_scaling_of")
      import :: ls_graph, ls_scaling, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: field
      integer(c_int), value :: channels
      type(ls_scaling) :: s
    end function
    function ls_scale(g, s, x) result(v) bind(c, name="lsf_scale")
      import :: ls_graph, ls_scaling, ls_value
      type(ls_graph), intent(in) :: g
      type(ls_scaling), intent(in) :: s
      type(ls_value), intent(in) :: x
      type(ls_value) :: v
    end function
    function ls_unscale(g, s, x) result(v) bind(c, name="lsf_unscale")
      import :: ls_graph, ls_scaling, ls_value
      type(ls_graph), intent(in) :: g
      type(ls_scaling), intent(in) :: s
      type(ls_value), intent(in) :: x
      type(ls_value) :: v
    end function
    ! A metric of a prediction and its target: LS_RMSE, LS_R2, LS_ACCURACY, ...
    subroutine ls_measure_against(g, name, kind, predicted, target, weigh, field) bind(c, name="lsf_measure_against")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      integer(c_int), value :: kind, weigh
      type(ls_value), intent(in) :: predicted, target
      character(len=*), intent(in), optional :: field
    end subroutine
  end interface
  private :: lsf_matmul, lsf_variance

contains

  pure integer(c_int) function yes(given, default)
    logical, intent(in), optional :: given
    logical, intent(in) :: default
    yes = merge(1_c_int, 0_c_int, default)
    if (present(given)) yes = merge(1_c_int, 0_c_int, given)
  end function

  ! As the intrinsic: a [m, k, ..], b [k, n, ..] -> [m, n, ..], for each of the further dimensions, which broadcast.
  ! transpose_a: a is [k, m, ..]; transpose_b: b is [n, k, ..].
  function ls_matmul(g, a, b, transpose_a, transpose_b) result(v)
    type(ls_graph), intent(in) :: g
    type(ls_value), intent(in) :: a, b
    logical, intent(in), optional :: transpose_a, transpose_b
    type(ls_value) :: v
    v = lsf_matmul(g, a, b, yes(transpose_a, .false.), yes(transpose_b, .false.))
  end function

  ! Over dimension dim, or over all; keep: the dimension stays, with size 1.
  function ls_sum(g, a, dim, keep) result(v)
    type(ls_graph), intent(in) :: g
    type(ls_value), intent(in) :: a
    integer(c_int), intent(in), optional :: dim
    logical, intent(in), optional :: keep
    type(ls_value) :: v
    v = lsf_sum(g, a, dim, yes(keep, .false.))
  end function

  function ls_mean(g, a, dim, keep) result(v)
    type(ls_graph), intent(in) :: g
    type(ls_value), intent(in) :: a
    integer(c_int), intent(in), optional :: dim
    logical, intent(in), optional :: keep
    type(ls_value) :: v
    v = lsf_mean(g, a, dim, yes(keep, .false.))
  end function

  ! The largest.
  function ls_amax(g, a, dim, keep) result(v)
    type(ls_graph), intent(in) :: g
    type(ls_value), intent(in) :: a
    integer(c_int), intent(in), optional :: dim
    logical, intent(in), optional :: keep
    type(ls_value) :: v
    v = lsf_amax(g, a, dim, yes(keep, .false.))
  end function

  ! Divided by n - correction, which is 1 where it is not given.
  function ls_variance(g, a, dim, keep, correction) result(v)
    type(ls_graph), intent(in) :: g
    type(ls_value), intent(in) :: a
    integer(c_int), intent(in), optional :: dim
    logical, intent(in), optional :: keep
    real(c_double), intent(in), optional :: correction
    type(ls_value) :: v
    v = lsf_variance(g, a, dim, yes(keep, .false.), correction)
  end function

  ! Where the largest is, from 0 on: the first one if several are.
  function ls_argmax_over(g, a, dim, keep) result(v)
    type(ls_graph), intent(in) :: g
    type(ls_value), intent(in) :: a
    integer(c_int), intent(in), optional :: dim
    logical, intent(in), optional :: keep
    type(ls_value) :: v
    v = lsf_argmax_over(g, a, dim, yes(keep, .false.))
  end function
end module
