! lockstep_layers.f90 - layers, with PyTorch's parameter names and first values, and what works on pictures. Part of
! module lockstep (docs/fortran.md). Shapes are Fortran's: what PyTorch calls [N, C, H, W] is [W, H, C, N] here.
module lockstep_layers
  use, intrinsic :: iso_c_binding, only: c_double, c_int
  use lockstep_graph, only: ls_graph, ls_value, yes
  implicit none

  enum, bind(c) ! ls_resize
    enumerator :: LS_RESIZE_NEAREST, LS_RESIZE_BILINEAR, LS_RESIZE_BILINEAR_CORNERS
  end enum
  ! y [directions * hidden, tokens, batch] of the last layer; the states after the last token,
  ! [hidden, layers * directions, batch]. ls_gru has no c.
  type, bind(c) :: ls_recurrent
    type(ls_value) :: y, h, c
  end type

  interface
    ! Over the first dimension.
    ! ids [..], from 0 to rows - 1 -> [dim, ..]; weight [dim, rows].
    function ls_embedding(g, name, ids, rows, dim) result(v) bind(c, name="lsf_embedding")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: ids
      integer(c_int), value :: rows, dim
      type(ls_value) :: v
    end function
    function ls_layer_norm(g, name, x, eps) result(v) bind(c, name="lsf_layer_norm")
      import :: ls_graph, ls_value, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      real(c_double), value :: eps
      type(ls_value) :: v
    end function
    function ls_rms_norm(g, name, x, eps) result(v) bind(c, name="lsf_rms_norm")
      import :: ls_graph, ls_value, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      real(c_double), value :: eps
      type(ls_value) :: v
    end function
    ! x [.., channels, batch]. Each sample by itself, in groups of channels.
    function ls_group_norm(g, name, x, groups, eps) result(v) bind(c, name="lsf_group_norm")
      import :: ls_graph, ls_value, c_int, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: groups
      real(c_double), value :: eps
      type(ls_value) :: v
    end function
    ! x [.., channels, batch]. By the statistics of the batch: whole micro-batches (ls_trainer_create, padding=.false.).
    function ls_batch_norm(g, name, x, eps, momentum) result(v) bind(c, name="lsf_batch_norm")
      import :: ls_graph, ls_value, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      real(c_double), intent(in), optional :: eps, momentum ! 1d-5, 0.1
      type(ls_value) :: v
    end function
    ! Of elements, with probability p; none in predictions and evaluations.
    function ls_dropout(g, name, x, p) result(v) bind(c, name="lsf_dropout")
      import :: ls_graph, ls_value, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      real(c_double), value :: p
      type(ls_value) :: v
    end function
    ! x [hidden, tokens, batch] -> the same; PyTorch's MultiheadAttention of x with itself.
    function ls_self_attention(g, name, x, heads, dropout) result(v) bind(c, name="lsf_self_attention")
      import :: ls_graph, ls_value, c_int, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: heads
      real(c_double), value :: dropout
      type(ls_value) :: v
    end function
    ! x [width, height, channels, batch]; windows are squares.
    function ls_max_pool2d(g, x, kernel, stride, padding) result(v) bind(c, name="lsf_max_pool2d")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: x
      integer(c_int), value :: kernel
      integer(c_int), intent(in), optional :: stride, padding ! kernel, 0
      type(ls_value) :: v
    end function
    function ls_adaptive_avg_pool2d(g, x, width, height) result(v) bind(c, name="lsf_adaptive_avg_pool2d")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: x
      integer(c_int), value :: width, height
      type(ls_value) :: v
    end function
    ! mode: LS_RESIZE_BILINEAR, ..
    function ls_resize2d(g, x, width, height, mode) result(v) bind(c, name="lsf_resize2d")
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: x
      integer(c_int), value :: width, height, mode
      type(ls_value) :: v
    end function
    function lsf_avg_pool2d(g, x, kernel, stride, padding, count_include_pad) result(v) bind(c)
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      type(ls_value), intent(in) :: x
      integer(c_int), value :: kernel, count_include_pad
      integer(c_int), intent(in), optional :: stride, padding
      type(ls_value) :: v
    end function
    function lsf_instance_norm(g, name, x, affine, eps) result(v) bind(c)
      import :: ls_graph, ls_value, c_int, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: affine
      real(c_double), value :: eps
      type(ls_value) :: v
    end function
    function lsf_linear(g, name, x, out, bias) result(v) bind(c)
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: out, bias
      type(ls_value) :: v
    end function
    function lsf_conv1d(g, name, x, out, kernel, stride, padding, dilation, groups, output_padding, bias) result(v) bind(c)
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: out, kernel, bias
      integer(c_int), intent(in), optional :: stride, padding, dilation, groups, output_padding
      type(ls_value) :: v
    end function
    function lsf_conv2d(g, name, x, out, kernel, stride, padding, dilation, groups, output_padding, bias) result(v) bind(c)
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: out, kernel, bias
      integer(c_int), intent(in), optional :: stride, padding, dilation, groups, output_padding
      type(ls_value) :: v
    end function
    function lsf_conv3d(g, name, x, out, kernel, stride, padding, dilation, groups, output_padding, bias) result(v) bind(c)
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: out, kernel, bias
      integer(c_int), intent(in), optional :: stride, padding, dilation, groups, output_padding
      type(ls_value) :: v
    end function
    function lsf_conv_transpose1d(g, name, x, out, kernel, stride, padding, dilation, groups, output_padding, &
        bias) result(v) bind(c)
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: out, kernel, bias
      integer(c_int), intent(in), optional :: stride, padding, dilation, groups, output_padding
      type(ls_value) :: v
    end function
    function lsf_conv_transpose2d(g, name, x, out, kernel, stride, padding, dilation, groups, output_padding, &
        bias) result(v) bind(c)
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: out, kernel, bias
      integer(c_int), intent(in), optional :: stride, padding, dilation, groups, output_padding
      type(ls_value) :: v
    end function
    function lsf_conv_transpose3d(g, name, x, out, kernel, stride, padding, dilation, groups, output_padding, &
        bias) result(v) bind(c)
      import :: ls_graph, ls_value, c_int
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: out, kernel, bias
      integer(c_int), intent(in), optional :: stride, padding, dilation, groups, output_padding
      type(ls_value) :: v
    end function
    function lsf_lstm(g, name, x, hidden, layers, bidirectional, bias, dropout, h0, c0) result(v) bind(c)
      import :: ls_graph, ls_value, ls_recurrent, c_int, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: hidden, bidirectional, bias
      integer(c_int), intent(in), optional :: layers
      real(c_double), intent(in), optional :: dropout
      type(ls_value), intent(in), optional :: h0, c0
      type(ls_recurrent) :: v
    end function
    function lsf_gru(g, name, x, hidden, layers, bidirectional, bias, dropout, h0) result(v) bind(c)
      import :: ls_graph, ls_value, ls_recurrent, c_int, c_double
      type(ls_graph), intent(in) :: g
      character(len=*), intent(in) :: name
      type(ls_value), intent(in) :: x
      integer(c_int), value :: hidden, bidirectional, bias
      integer(c_int), intent(in), optional :: layers
      real(c_double), intent(in), optional :: dropout
      type(ls_value), intent(in), optional :: h0
      type(ls_recurrent) :: v
    end function
  end interface
  private :: yes, lsf_avg_pool2d, lsf_instance_norm, lsf_linear, lsf_conv1d, lsf_conv2d, lsf_conv3d, lsf_conv_transpose1d, &
    lsf_conv_transpose2d, lsf_conv_transpose3d, lsf_lstm, lsf_gru

contains

  ! x [in, ..] -> [out, ..]; weight [in, out], in PyTorch and in files [out, in].
  function ls_linear(g, name, x, out, bias) result(v)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: x
    integer(c_int), intent(in) :: out
    logical, intent(in), optional :: bias
    type(ls_value) :: v
    v = lsf_linear(g, name, x, out, yes(bias, .true.))
  end function

  ! Convolutions: x [width, channels, batch], [width, height, channels, batch] or [width, height, depth, channels,
  ! batch] -> the same with `out` channels. Kernel and options are the same in every direction; PyTorch's defaults.
  function ls_conv1d(g, name, x, out, kernel, stride, padding, bias, dilation, groups) &
      result(v)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: x
    integer(c_int), intent(in) :: out, kernel
    integer(c_int), intent(in), optional :: stride, padding, dilation, groups
    logical, intent(in), optional :: bias
    type(ls_value) :: v
    v = lsf_conv1d(g, name, x, out, kernel, stride, padding, dilation, groups, bias=yes(bias, .true.))
  end function

  function ls_conv2d(g, name, x, out, kernel, stride, padding, bias, dilation, groups) &
      result(v)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: x
    integer(c_int), intent(in) :: out, kernel
    integer(c_int), intent(in), optional :: stride, padding, dilation, groups
    logical, intent(in), optional :: bias
    type(ls_value) :: v
    v = lsf_conv2d(g, name, x, out, kernel, stride, padding, dilation, groups, bias=yes(bias, .true.))
  end function

  function ls_conv3d(g, name, x, out, kernel, stride, padding, bias, dilation, groups) &
      result(v)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: x
    integer(c_int), intent(in) :: out, kernel
    integer(c_int), intent(in), optional :: stride, padding, dilation, groups
    logical, intent(in), optional :: bias
    type(ls_value) :: v
    v = lsf_conv3d(g, name, x, out, kernel, stride, padding, dilation, groups, bias=yes(bias, .true.))
  end function

  function ls_conv_transpose1d(g, name, x, out, kernel, stride, padding, bias, dilation, groups, output_padding) &
      result(v)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: x
    integer(c_int), intent(in) :: out, kernel
    integer(c_int), intent(in), optional :: stride, padding, dilation, groups, output_padding
    logical, intent(in), optional :: bias
    type(ls_value) :: v
    v = lsf_conv_transpose1d(g, name, x, out, kernel, stride, padding, dilation, groups, output_padding, bias=yes(bias, .true.))
  end function

  function ls_conv_transpose2d(g, name, x, out, kernel, stride, padding, bias, dilation, groups, output_padding) &
      result(v)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: x
    integer(c_int), intent(in) :: out, kernel
    integer(c_int), intent(in), optional :: stride, padding, dilation, groups, output_padding
    logical, intent(in), optional :: bias
    type(ls_value) :: v
    v = lsf_conv_transpose2d(g, name, x, out, kernel, stride, padding, dilation, groups, output_padding, bias=yes(bias, .true.))
  end function

  function ls_conv_transpose3d(g, name, x, out, kernel, stride, padding, bias, dilation, groups, output_padding) &
      result(v)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: x
    integer(c_int), intent(in) :: out, kernel
    integer(c_int), intent(in), optional :: stride, padding, dilation, groups, output_padding
    logical, intent(in), optional :: bias
    type(ls_value) :: v
    v = lsf_conv_transpose3d(g, name, x, out, kernel, stride, padding, dilation, groups, output_padding, bias=yes(bias, .true.))
  end function

  ! Means of windows; padding counts as zeros where count_include_pad is not .false.
  function ls_avg_pool2d(g, x, kernel, stride, padding, count_include_pad) result(v)
    type(ls_graph), intent(in) :: g
    type(ls_value), intent(in) :: x
    integer(c_int), intent(in) :: kernel
    integer(c_int), intent(in), optional :: stride, padding
    logical, intent(in), optional :: count_include_pad
    type(ls_value) :: v
    v = lsf_avg_pool2d(g, x, kernel, stride, padding, yes(count_include_pad, .true.))
  end function

  ! x [.., channels, batch]. Each channel of a sample by itself.
  function ls_instance_norm(g, name, x, eps, affine) result(v)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: x
    real(c_double), intent(in) :: eps
    logical, intent(in), optional :: affine
    type(ls_value) :: v
    v = lsf_instance_norm(g, name, x, yes(affine, .false.), eps)
  end function

  ! x [in, tokens, batch]; h0 and c0: states before the first token, zeros where they are not given.
  function ls_lstm(g, name, x, hidden, layers, bidirectional, bias, dropout, h0, c0) result(r)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: x
    integer(c_int), intent(in) :: hidden
    integer(c_int), intent(in), optional :: layers
    logical, intent(in), optional :: bidirectional, bias
    real(c_double), intent(in), optional :: dropout
    type(ls_value), intent(in), optional :: h0, c0
    type(ls_recurrent) :: r
    r = lsf_lstm(g, name, x, hidden, layers, yes(bidirectional, .false.), yes(bias, .true.), dropout, h0, c0)
  end function

  function ls_gru(g, name, x, hidden, layers, bidirectional, bias, dropout, h0) result(r)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: x
    integer(c_int), intent(in) :: hidden
    integer(c_int), intent(in), optional :: layers
    logical, intent(in), optional :: bidirectional, bias
    real(c_double), intent(in), optional :: dropout
    type(ls_value), intent(in), optional :: h0
    type(ls_recurrent) :: r
    r = lsf_gru(g, name, x, hidden, layers, yes(bidirectional, .false.), yes(bias, .true.), dropout, h0)
  end function
end module
