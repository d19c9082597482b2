/* doctor_gpu.c - device cuda: libraries, GPUs, compiled kernels, and whether all of it can be used. */
#include "device/facts.h"
#include "device/queue.h"
#include "doctor.h"

static void line(void *context, const char *name, const char *text)
{
    ls_doctor_line(context, name, "%s", text);
}

static void note(void *context, const char *text) { ls_doctor_note(context, "%s", text); }

void ls_doctor_gpu(ls_doctor *d)
{
    ls_device device;
    char text[32];
    ls_doctor_section(d, "GPU");
    ls_cuda_tell(&(ls_cuda_listener){ d, line, note });
    if (ls_device_open(&device, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS }) == LS_OK)
        ls_doctor_line(d, "cuda", "%s, %s of memory", device.arch->name,
                       ls_format_bytes(text, device.ops->queue->memory(&device)));
    else
        ls_doctor_line(d, "cuda", "cannot be used: %s", ls_error_message());
}
