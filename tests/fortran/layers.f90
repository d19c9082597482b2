! layers.f90 - layers and products of the Fortran module, against Fortran's own loops: dimensions are turned around in the
! right places. Prints "fine" at its end.
module layers_model
  use lockstep
  implicit none
  integer, parameter :: n = 5
contains
  subroutine build(g, batch) bind(c)
    type(ls_graph), intent(in) :: g
    integer(c_int), value :: batch
    type(ls_value) :: a, b, p, s, k
    type(ls_recurrent) :: r
    a = ls_input(g, "a", [4, 3, batch])
    b = ls_input(g, "b", [3, 2, batch])
    p = ls_input(g, "p", [6, 4, 2, batch])   ! pictures: width, height, channels
    s = ls_input(g, "s", [3, 7, batch])      ! 7 tokens of 3 numbers
    k = ls_input(g, "k", [4, 3, batch], LS_I32)
    call ls_output(g, "ab", ls_matmul(g, a, b))
    call ls_output(g, "tt", ls_matmul(g, b, a, transpose_a=.true., transpose_b=.true.)) ! (a b) transposed
    call ls_output(g, "variance", ls_variance(g, a, 1))
    call ls_output(g, "biased", ls_variance(g, a, 2, keep=.true., correction=0d0))
    call ls_output(g, "where", ls_cast(g, ls_argmax_over(g, a, 2), LS_F32))
    call ls_output(g, "scattered", ls_scatter_add(g, a, 1, k, a))
    call trained(g, "conv", ls_conv2d(g, "conv", p, 3, 3, stride=2, padding=1, dilation=1))
    call trained(g, "grouped", ls_conv2d(g, "grouped", p, 4, 1, bias=.false., groups=2))
    call trained(g, "up", ls_conv_transpose2d(g, "up", p, 3, 2, stride=2, output_padding=1))
    call trained(g, "conv1d", ls_conv1d(g, "conv1d", ls_permute(g, s, [2, 1, 3]), 2, 3))
    call trained(g, "up1d", ls_conv_transpose1d(g, "up1d", ls_permute(g, s, [2, 1, 3]), 2, 2, stride=2))
    call trained(g, "conv3d", ls_conv3d(g, "conv3d", ls_reshape(g, p, [6, 4, 2, 1, batch]), 3, 2))
    call trained(g, "up3d", ls_conv_transpose3d(g, "up3d", ls_reshape(g, p, [6, 4, 2, 1, batch]), 3, 2, stride=2))
    call ls_output(g, "largest", ls_max_pool2d(g, p, 2))
    call ls_output(g, "means", ls_avg_pool2d(g, p, 3, stride=1, padding=1, count_include_pad=.false.))
    call ls_output(g, "adaptive", ls_adaptive_avg_pool2d(g, p, 3, 2))
    call ls_output(g, "resized", ls_resize2d(g, p, 12, 4, LS_RESIZE_NEAREST))
    call trained(g, "groups", ls_group_norm(g, "groups", p, 1, 1d-5))
    call ls_output(g, "instance", ls_instance_norm(g, "instance", p, 1d-5))
    call trained(g, "norm", ls_layer_norm(g, "norm", p, 1d-5))
    r = ls_lstm(g, "lstm", s, 4)
    call trained(g, "y", r%y)
    call ls_output(g, "h", r%h)
    call ls_output(g, "c", r%c)
    r = ls_gru(g, "gru", s, 2, layers=2, bidirectional=.true., bias=.false., dropout=0.5d0)
    call trained(g, "gru", r%y)
    call ls_output(g, "states", r%h)
    call ls_loss(g, "last", ls_square(g, ls_linear(g, "last", ls_reshape(g, r%h, [8, batch]), 1)), 1d0, LS_BY_ELEMENT)
  end subroutine

  ! An output that a loss depends on.
  subroutine trained(g, name, v)
    type(ls_graph), intent(in) :: g
    character(len=*), intent(in) :: name
    type(ls_value), intent(in) :: v
    call ls_output(g, name, v)
    call ls_loss(g, "loss_" // name, ls_square(g, v), 1d0, LS_BY_ELEMENT)
  end subroutine

  ! Of whole micro-batches only.
  subroutine build_with_batch_norm(g, batch) bind(c)
    type(ls_graph), intent(in) :: g
    integer(c_int), value :: batch
    type(ls_value) :: p
    p = ls_batch_norm(g, "norm", ls_input(g, "p", [6, 4, 2, batch]), momentum=1d0)
    call ls_output(g, "normed", p)
    call ls_loss(g, "loss", ls_square(g, p), 1d0, LS_BY_ELEMENT)
  end subroutine
end module

program layers_test
  use lockstep
  use layers_model
  implicit none
  type(ls_trainer) :: t
  type(ls_predictor) :: q
  type(ls_step_result) :: result
  integer :: i, j, c, o, m, u, v
  integer(c_int) :: k(4, 3, n)
  real(c_float) :: a(4, 3, n), b(3, 2, n), p(6, 4, 2, n), s(3, 7, n), ab(4, 2, n), tt(2, 4, n), spread(3, n), biased(4, 1, n)
  real(c_float) :: at(4, n), scattered(4, 3, n), conv(3, 2, 3, n), weight(3, 3, 2, 3), bias(3), grouped(6, 4, 4, n)
  real(c_float) :: halves(1, 1, 1, 4), up(13, 9, 3, n), conv1d(5, 2, n), w1(3, 3, 2), b1(2), up1d(14, 2, n), conv3d(5, 3, 1, 3, n)
  real(c_float) :: up3d(12, 8, 4, 3, n)
  real(c_float) :: largest(3, 2, 2, n), means(6, 4, 2, n), adaptive(3, 2, 2, n), resized(12, 4, 2, n), normed(6, 4, 2, n)
  real(c_float) :: wanted(6, 4, 2), y(4, 7, n), h(4, 1, n), cell(4, 1, n), gru(4, 7, n), states(2, 4, n), running(2)
  real(c_double) :: x

  a = reshape([(real(mod(7 * i, 11)) / 4 - 1, i=1, size(a))], shape(a))
  b = reshape([(real(mod(5 * i, 13)) / 8, i=1, size(b))], shape(b))
  p = reshape([(real(mod(11 * i, 29)) / 8 - 2, i=1, size(p))], shape(p))
  s = reshape([(real(mod(3 * i, 17)) / 8 - 1, i=1, size(s))], shape(s))
  k = reshape([(mod(i, 4), i=1, size(k))], shape(k))
  call ls_check(ls_trainer_create(t, build, micro_batch=n, threads=1))
  call ls_check(ls_trainer_init(t, 1))
  call ls_check(ls_predictor_of(q, t))
  call ls_check(ls_predictor_put(q, "a", a))
  call ls_check(ls_predictor_put(q, "b", b))
  call ls_check(ls_predictor_put(q, "p", p))
  call ls_check(ls_predictor_put(q, "s", s))
  call ls_check(ls_predictor_put(q, "k", k))
  call ls_check(ls_predictor_run(q, n))

  call ls_check(ls_predictor_get(q, "ab", ab))
  call ls_check(ls_predictor_get(q, "tt", tt))
  call ls_check(ls_predictor_get(q, "variance", spread))
  call ls_check(ls_predictor_get(q, "biased", biased))
  call ls_check(ls_predictor_get(q, "where", at))
  call ls_check(ls_predictor_get(q, "scattered", scattered))
  do i = 1, n
    call same(ab(:, :, i), matmul(a(:, :, i), b(:, :, i)), "a product")
    call same(tt(:, :, i), transpose(matmul(a(:, :, i), b(:, :, i))), "a product of transposed matrices")
    do j = 1, 3
      call expect(abs(spread(j, i) - sum((a(:, j, i) - sum(a(:, j, i)) / 4)**2) / 3) < 1e-5, "a variance")
    end do
    do j = 1, 4
      call expect(abs(biased(j, 1, i) - sum((a(j, :, i) - sum(a(j, :, i)) / 3)**2) / 3) < 1e-5, "a biased variance")
      call expect(nint(at(j, i)) == maxloc(a(j, :, i), 1) - 1, "where the largest is")
    end do
    do j = 1, 3
      do m = 1, 4
        call expect(abs(scattered(m, j, i) - a(m, j, i) - sum(a(:, j, i), k(:, j, i) == m - 1)) < 1e-5, "a scattered sum")
      end do
    end do
  end do

  ! Convolutions: weights [width, height, in, out].
  call ls_check(ls_predictor_get(q, "conv", conv))
  call ls_check(ls_trainer_get(t, "conv.weight", weight))
  call ls_check(ls_trainer_get(t, "conv.bias", bias))
  do i = 1, n
    do o = 1, 3
      do v = 1, 2
        do u = 1, 3
          x = bias(o)
          do m = 1, 3
            do j = 1, 3
              if (2 * u - 3 + j < 1 .or. 2 * u - 3 + j > 6 .or. 2 * v - 3 + m < 1 .or. 2 * v - 3 + m > 4) cycle
              x = x + sum(p(2 * u - 3 + j, 2 * v - 3 + m, :, i) * weight(j, m, :, o))
            end do
          end do
          call expect(abs(conv(u, v, o, i) - x) < 1e-5, "a convolution")
        end do
      end do
    end do
  end do
  call ls_check(ls_predictor_get(q, "grouped", grouped))
  call ls_check(ls_trainer_get(t, "grouped.weight", halves))
  do o = 1, 4
    call expect(all(abs(grouped(:, :, o, :) - halves(1, 1, 1, o) * p(:, :, (o + 1) / 2, :)) < 1e-5), "groups of channels")
  end do
  call ls_check(ls_predictor_get(q, "conv1d", conv1d))
  call ls_check(ls_trainer_get(t, "conv1d.weight", w1))
  call ls_check(ls_trainer_get(t, "conv1d.bias", b1))
  do i = 1, n
    do o = 1, 2
      do u = 1, 5
        x = b1(o)
        do c = 1, 3
          x = x + sum(s(c, u:u + 2, i) * w1(:, c, o))
        end do
        call expect(abs(conv1d(u, o, i) - x) < 1e-5, "a convolution of sequences")
      end do
    end do
  end do
  call ls_check(ls_predictor_get(q, "up", up)) ! the shapes are what is asked for here
  call ls_check(ls_predictor_get(q, "up1d", up1d))
  call ls_check(ls_predictor_get(q, "conv3d", conv3d))
  call ls_check(ls_predictor_get(q, "up3d", up3d))

  ! Windows and sizes.
  call ls_check(ls_predictor_get(q, "largest", largest))
  call ls_check(ls_predictor_get(q, "means", means))
  call ls_check(ls_predictor_get(q, "adaptive", adaptive))
  call ls_check(ls_predictor_get(q, "resized", resized))
  do i = 1, n
    do c = 1, 2
      do v = 1, 2
        do u = 1, 3
          call expect(largest(u, v, c, i) == maxval(p(2 * u - 1:2 * u, 2 * v - 1:2 * v, c, i)), "the largest of a window")
          call expect(abs(adaptive(u, v, c, i) - sum(p(2 * u - 1:2 * u, 2 * v - 1:2 * v, c, i)) / 4) < 1e-5, "adaptive means")
        end do
      end do
      call expect(abs(means(1, 1, c, i) - sum(p(1:2, 1:2, c, i)) / 4) < 1e-5, "the mean of a corner")
      call expect(abs(means(3, 2, c, i) - sum(p(2:4, 1:3, c, i)) / 9) < 1e-5, "the mean of a window")
    end do
  end do
  call expect(all(resized(1:12:2, :, :, :) == p) .and. all(resized(2:12:2, :, :, :) == p), "a resized picture")

  ! Norms.
  call ls_check(ls_predictor_get(q, "groups", normed))
  do i = 1, n
    x = sum(p(:, :, :, i)) / 48
    wanted = real((p(:, :, :, i) - x) / sqrt(sum((p(:, :, :, i) - x)**2) / 48 + 1e-5))
    call expect(maxval(abs(normed(:, :, :, i) - wanted)) < 1e-5, "a group norm")
  end do
  call ls_check(ls_predictor_get(q, "instance", normed))
  do c = 1, 2
    x = sum(p(:, :, c, n)) / 24
    wanted(:, :, c) = real((p(:, :, c, n) - x) / sqrt(sum((p(:, :, c, n) - x)**2) / 24 + 1e-5))
  end do
  call expect(maxval(abs(normed(:, :, :, n) - wanted)) < 1e-5, "an instance norm")
  call ls_check(ls_predictor_get(q, "norm", normed))
  call expect(maxval(abs(sum(normed, 1))) < 1e-4, "a layer norm is over the first dimension")

  ! Recurrent layers: the state after the last token is the last token's output.
  call ls_check(ls_predictor_get(q, "y", y))
  call ls_check(ls_predictor_get(q, "h", h))
  call ls_check(ls_predictor_get(q, "c", cell))
  call expect(all(h(:, 1, :) == y(:, 7, :)) .and. all(abs(h) <= abs(tanh(cell)) + 1e-6) .and. any(h /= 0), "an LSTM")
  call ls_check(ls_predictor_get(q, "gru", gru))
  call ls_check(ls_predictor_get(q, "states", states))
  call expect(all(states(:, 3, :) == gru(1:2, 7, :)) .and. all(states(:, 4, :) == gru(3:4, 1, :)), "a GRU, both ways")
  call ls_predictor_destroy(q)

  ! The layers have gradients.
  call ls_check(ls_trainer_put(t, "p", p))
  call ls_check(ls_trainer_put(t, "s", s))
  call ls_check(ls_trainer_run(t, n, 1d-2, result))
  call expect(result%loss > 0, "a loss")
  call ls_trainer_destroy(t)

  ! Batch norm: with momentum 1 the running mean is that of the batch.
  call expect(ls_trainer_create(t, build_with_batch_norm, micro_batch=n) /= LS_OK, "batch norm takes no padding")
  call expect(index(ls_error_message(), "padding") > 0, ls_error_message())
  call ls_check(ls_trainer_create(t, build_with_batch_norm, micro_batch=n, threads=1, padding=.false.))
  call ls_check(ls_trainer_init(t, 1))
  call ls_check(ls_trainer_put(t, "p", p))
  call ls_check(ls_trainer_run(t, n, 1d-2, result))
  call ls_check(ls_trainer_get(t, "norm.running_mean", running))
  do c = 1, 2
    call expect(abs(running(c) - sum(p(:, :, c, :)) / (24 * n)) < 1e-5, "a running mean")
  end do
  call ls_trainer_destroy(t)
  print "(a)", "fine"

contains

  subroutine expect(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (condition) return
    print "(2a)", "not so: ", what
    stop 1, quiet=.true.
  end subroutine

  subroutine same(found, computed, what)
    real(c_float), intent(in) :: found(:, :), computed(:, :)
    character(len=*), intent(in) :: what
    call expect(maxval(abs(found - computed)) < 1e-5, what)
  end subroutine
end program
