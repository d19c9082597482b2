/* foreign.c - names the program that wrote a folder, by the names of its files. */
#include "ckpt/foreign.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/oserror.h"
#include "base/str.h"
#include "ckpt/safetensors.h"

/* The first row that a name of the folder matches counts. */
static const struct {
    const char *pattern, *is, *advice;
} KNOWN[] = {
    { "*.distcp", "files of PyTorch's distributed checkpoint without their index .metadata",
      "copy .metadata too (a hidden file, which copying with * leaves out); without it the save did not "
      "end" },
    { "__*.metadata", "a checkpoint of PyTorch that each rank saved for itself (use_collectives=False)",
      "save it with torch.distributed.checkpoint.save, without that option" },
    { "metadata.pkl", "a checkpoint of torch_checkpointing",
      "save it with torch.distributed.checkpoint.save, or torch.save" },
    { "sharded", "a folder in which HuggingFaceStorageWriter did not end joining its shards",
      "name the folder sharded in it" },
    { "*_model_states.pt", "a DeepSpeed checkpoint",
      "make one file of it: python zero_to_fp32.py (beside it) FOLDER OUT" },
    { "zero_to_fp32.py", "a DeepSpeed checkpoint", "make one file of it: python zero_to_fp32.py FOLDER OUT" },
    { "global_step*", "a DeepSpeed checkpoint",
      "make one file of it: python zero_to_fp32.py (beside it) FOLDER OUT" },
    { "latest_checkpointed_iteration.txt", "a Megatron checkpoint",
      "name the folder iter_NNNNNNN in it if that has .metadata; else convert it with Megatron's "
      "tools/checkpoint/convert.py" },
    { "mp_rank_*", "a Megatron checkpoint in its old form",
      "convert it with Megatron's tools/checkpoint/convert.py" },
    { "_CHECKPOINT_METADATA", "an Orbax checkpoint (JAX)", "save its arrays with safetensors" },
    { "manifest.ocdbt", "an Orbax checkpoint (JAX)", "save its arrays with safetensors" },
    { "saved_model.pb", "a SavedModel of TensorFlow", "save its variables with safetensors" },
    { "*.ckpt*.index", "a checkpoint of TensorFlow", "save its variables with safetensors" },
    { "tf_model.h5", "weights of TensorFlow", "load them with transformers 4 (from_tf=True) and save them" },
    { "flax_model.msgpack", "weights of Flax",
      "load them with transformers 4 (from_flax=True) and save them" },
    { "adapter_config.json", "the settings of an adapter of PEFT", "copy its adapter_model.safetensors too" },
    { "consolidated.*.pth", "a model in Meta's own form",
      "convert it with transformers' convert_llama_weights_to_hf.py" },
    { "*.gguf", "a model of llama.cpp", "use the model that it was made of" },
    { "*.safetensors.index.json", "an index of another name", "name that file" },
    { "*.safetensors", "a weight file of another name", "name that file" },
    { "*.pt", "a file of torch.save", "name that file" },
    { "*.pth", "a file of torch.save", "name that file" },
    { "*.bin", "a .bin file", "name that file, if torch.save wrote it" },
    { "checkpoints", "those of a run of Lockstep", "name one of them, as FOLDER/checkpoints/latest" },
};

typedef struct listing {
    char shown[3][128]; /* some names, the first in the alphabet */
    int n;              /* of all entries */
    size_t row;         /* of KNOWN */
    char found[128];    /* the name that matches it */
} listing;

static void foreign_take(listing *l, const char *name)
{
    char shown[128] = "";
    ls_shown_name(shown, name);
    l->n++;
    for (int i = 0; i < 3; i++)
        if (!l->shown[i][0] || strcmp(shown, l->shown[i]) < 0) {
            memmove(l->shown + i + 1, l->shown + i, sizeof l->shown[0] * (size_t)(2 - i));
            memcpy(l->shown[i], shown, sizeof shown);
            break;
        }
    for (size_t row = 0; row <= l->row && row < sizeof KNOWN / sizeof KNOWN[0]; row++)
        if (fnmatch(KNOWN[row].pattern, name, 0) == 0 && (row < l->row || strcmp(shown, l->found) < 0)) {
            l->row = row;
            memcpy(l->found, shown, sizeof shown);
        }
}

#define READ                                                                                        \
    "read are model.safetensors, model.safetensors.index.json, the same two of pytorch_model.bin, " \
    "PyTorch's .metadata and its shard-*-model-*.safetensors"

ls_status ls_foreign_refuse(const char *dir)
{
    const size_t rows = sizeof KNOWN / sizeof KNOWN[0];
    listing l = { .row = rows };
    DIR *d = opendir(dir);
    if (!d)
        return ls_fail_os(dir, "open folder", errno);
    for (const struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            foreign_take(&l, e->d_name);
    closedir(d);
    if (l.row < rows)
        return ls_fail(LS_E_IO, "%s: no weights that can be read: it has %s, %s; %s (" READ ")", dir, l.found,
                       KNOWN[l.row].is, KNOWN[l.row].advice);
    ls_str names = { 0 };
    for (int i = 0; i < 3 && l.shown[i][0]; i++)
        ls_str_printf(&names, "%s%s", i ? ", " : "", l.shown[i]);
    if (l.n > 3)
        ls_str_printf(&names, " and %d more", l.n - 3);
    const ls_status s = ls_fail(
        LS_E_IO,
        "%s: no weights in this folder, which %s%s; name a weight file, or a folder with one (" READ ")", dir,
        l.n ? "has " : "is empty", ls_str_text(&names));
    ls_str_release(&names);
    return s;
}
