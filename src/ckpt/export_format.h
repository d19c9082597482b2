/* export_format.h - what an exported model is, which the name of the target says. */
#pragma once

typedef enum ls_export_format {
    LS_EXPORT_BY_NAME,
    LS_EXPORT_DCP,         /* a directory of torch.distributed.checkpoint: .dcp */
    LS_EXPORT_SAFETENSORS, /* .safetensors */
    LS_EXPORT_PT,          /* .pt */
    LS_EXPORT_GGUF,        /* .gguf */
    LS_EXPORT_FOLDER,      /* a Hugging Face folder: the name ends in / */
    LS_EXPORT_PEFT         /* a folder of adapters, which no name says: it is what a folder of them is */
} ls_export_format;
ls_export_format ls_export_format_of(const char *to); /* LS_EXPORT_BY_NAME: the name says none */
#define LS_EXPORT_NAMES                                                                            \
    ".safetensors, .pt, .gguf, .dcp (a directory of torch.distributed.checkpoint) or / (a folder " \
    "for transformers)"
