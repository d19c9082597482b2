/* test_hf_shards.c - folders of PyTorch's HuggingFaceStorageWriter: those that it wrote (tests/golden/hf_*,
 * made by tools/golden/hf_shards.py), damaged ones, and folders of other programs, which are named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "ckpt/folder.h"
#include "ckpt/parts.h"
#include "lockstep/weights.h"
#include "support/support.h"

#define GOLDEN LS_TEST_SOURCE_DIR "/tests/golden/hf_"

/* Every tensor of the folder is the one of this name in the file. */
static void assert_same(const char *folder, const char *file, int64_t count)
{
    ls_weights *got, *want;
    ASSERT_OK(ls_weights_open(&got, folder));
    ASSERT_OK(ls_weights_open(&want, file));
    assert_int_equal(ls_weights_count(got), count);
    for (int64_t i = 0; i < count; i++) {
        const ls_weight *a = ls_weights_at(got, i), *b = ls_weights_find(want, a->name);
        if (!b || !ls_type_equal(&a->type, &b->type) || strcmp(a->stored, b->stored) || a->bytes != b->bytes)
            fail_msg("%s: tensor %s is another one", folder, a->name);
        void *values = malloc(a->bytes + 1);
        ASSERT_OK(ls_weight_read(a, a->type.dtype, values));
        if (memcmp(values, b->data, b->bytes))
            fail_msg("%s: tensor %s has other values", folder, a->name);
        free(values);
    }
    ls_weights_close(&got);
    ls_weights_close(&want);
}

static void reads_what_pytorch_wrote(void **state)
{
    (void)state;
    ls_weights *w;
    assert_same(GOLDEN "shards", GOLDEN "shards.safetensors", 6);
    assert_same(GOLDEN "indexed", GOLDEN "shards.safetensors", 6); /* two files a rank */
    assert_same(GOLDEN "consolidated", GOLDEN "shards.safetensors", 4);
    assert_same(GOLDEN "consolidated/sharded", GOLDEN "shards.safetensors", 4);
    ASSERT_OK(ls_weights_open(&w, GOLDEN "shards"));
    assert_int_equal(ls_weights_file_count(w), 3);
    assert_int_equal(ls_weights_find(w, "rows")->parts->n, 3);
    assert_null(ls_weights_find(w, "few")->parts);         /* one rank has all of it, the others nothing */
    assert_string_equal(ls_weights_at(w, 0)->name, "few"); /* in the order of the first file */
    assert_string_equal(ls_weights_metadata(w, "format"), "pt");
    ASSERT_OK(ls_weights_export(w, ls_test_path("whole.safetensors")));
    ls_weights_close(&w);
    assert_same(ls_test_path("whole.safetensors"), GOLDEN "shards.safetensors", 6);
    for (int rank = 1; rank <= 3; rank++) {
        char part[600];
        snprintf(part, sizeof part, GOLDEN "shards/shard-%05d-model-00001-of-00001.safetensors", rank);
        ASSERT_FAILS(ls_weights_open(&w, part), LS_E_USAGE, part, "one rank's part", "name the folder");
    }
}

/* ---- folders made of headers */

static char folder[512];

static void begin(void)
{
    snprintf(folder, sizeof folder, "%s", ls_test_path("made"));
    ls_remove_tree(folder);
    ASSERT_OK(ls_make_dirs(folder));
}

/* A file with one f32 tensor "w" of these dims, and what its metadata say. */
static void put(const char *name, const char *dims, int elements, const char *info, const char *dtype)
{
    char bytes[1024], header[800], path[600];
    uint64_t n = (uint64_t)snprintf(header, sizeof header,
                                    "{\"__metadata__\":{\"format\":\"pt\"%s%s%s},\"w\":{\"dtype\":\"%s\","
                                    "\"shape\":[%s],\"data_offsets\":[0,%d]}}",
                                    info ? ",\"DCP_SHARDING_INFO\":\"" : "", info ? info : "",
                                    info ? "\"" : "", dtype, dims, 4 * elements);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, n);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ASSERT_OK(ls_file_write(path, bytes, 8 + n + 4 * (size_t)elements));
}

#define FIRST "shard-00001-model-00001-of-00001.safetensors"
#define SECOND "shard-00002-model-00001-of-00001.safetensors"
#define AT(offsets) "{\\\"w\\\":{\\\"saved_offsets\\\":[" offsets "]}}"

static void names_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *info, *dims, *dtype, *says;
    } CASES[] = {
        { AT("2,0"), "1,3", "F32", NULL },
        { AT("3,0"), "1,3", "F32", "its parts hold 9 of its 12 elements" },
        { AT("1,0"), "1,3", "F32", "overlap" },
        { AT("2,0"), "1,3", "I32", "another rank's file" },
        { AT("2"), "3", "F32", "another rank's file" },
        { AT("2"), "1,3", "F32", "where in each dimension" },
        { AT("2,0,0"), "1,3", "F32", "where in each dimension" },
        { "{}", "1,3", "F32", "where in each dimension" },
        { "[]", "1,3", "F32", "where in each dimension" },
        { "{", "1,3", "F32", "not valid JSON" },
        { AT("-1,0"), "1,3", "F32", "cannot be an offset" },
        { AT("2.0,0"), "1,3", "F32", "cannot be an offset" },
        { AT("9223372036854775807,0"), "1,3", "F32", "cannot be an offset" },
        { AT("4611686018427387904,0"), "1,3", "F32", "do not fit in 63 bits" },
        { NULL, "1,3", "F32", "overlap" }, /* PyTorch takes it as a whole tensor, too */
    };
    ls_weights *w;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        begin();
        put(FIRST, "2,3", 6, AT("0,0"), "F32");
        put(SECOND, CASES[i].dims, 3, CASES[i].info, CASES[i].dtype);
        if (CASES[i].says) {
            ASSERT_FAILS(ls_weights_open(&w, folder), LS_E_FORMAT, folder, CASES[i].says);
        } else {
            ASSERT_OK(ls_weights_open(&w, folder));
            assert_int_equal(ls_weights_at(w, 0)->type.dims[0], 3);
            ls_weights_close(&w);
        }
    }
    /* rank 2 alone: rows 0 and 1 are missing */
    begin();
    put(SECOND, "1,3", 3, AT("2,0"), "F32");
    ASSERT_FAILS(ls_weights_open(&w, folder), LS_E_FORMAT, "its parts hold 3 of its 9 elements");
    /* a part under another name is still none of a whole model */
    char path[600], other[600];
    snprintf(path, sizeof path, "%s/" SECOND, folder);
    snprintf(other, sizeof other, "%s/model.safetensors", folder);
    assert_int_equal(rename(path, other), 0);
    ASSERT_FAILS(ls_weights_open(&w, folder), LS_E_USAGE, "one rank's part");
    /* the second file of a model of two */
    begin();
    put("shard-00001-model-00002-of-00002.safetensors", "2,3", 6, AT("0,0"), "F32");
    ASSERT_FAILS(ls_weights_open(&w, folder), LS_E_FORMAT, "no shard has a part of file 1");
    put("shard-00001-model-00001-of-00003.safetensors", "2,3", 6, AT("0,0"), "F32");
    ASSERT_FAILS(ls_weights_open(&w, folder), LS_E_FORMAT, "no shard has a part of file");
}

static ls_status open_folder(void *context)
{
    ls_weights *w;
    LS_TRY(ls_weights_open(&w, context));
    ls_weights_close(&w);
    return LS_OK;
}

static void no_memory(void **state)
{
    (void)state;
    assert_true(ls_test_memory(open_folder, GOLDEN "indexed", 1) > 10);
}

/* ---- folders that are not read */

static void touch(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ASSERT_OK(ls_file_write(path, "x", 1));
}

static void names_other_folders(void **state)
{
    (void)state;
    static const struct {
        const char *names[4], *says[2];
    } CASES[] = {
        { { "__0_0.distcp", "__1_0.distcp" }, { "__0_0.distcp", "without their index .metadata" } },
        { { "zero_to_fp32.py", "mp_rank_00_model_states.pt" }, { "DeepSpeed", "zero_to_fp32.py" } },
        { { "latest_checkpointed_iteration.txt" }, { "Megatron", "iter_NNNNNNN" } },
        { { "_CHECKPOINT_METADATA", "manifest.ocdbt" }, { "Orbax", "JAX" } },
        { { "checkpoint", "model.ckpt-7.index" }, { "TensorFlow", "model.ckpt-7.index" } },
        { { "adapter_config.json" }, { "adapter of PEFT", "adapter_model.safetensors too" } },
        { { "consolidated.00.pth", "params.json" }, { "Meta's own form", "consolidated.00.pth" } },
        { { "metadata.pkl", "a_0.pt" }, { "torch_checkpointing", "metadata.pkl" } },
        { { "recipe.yaml", "checkpoints" }, { "a run of Lockstep", "checkpoints/latest" } },
        { { "weights.pt", "config.json" }, { "weights.pt", "name that file" } },
        { { "zebra", "ape", "bear", "cow" },
          { "which has ape, bear, cow and 1 more", "name a weight file" } },
        { { NULL }, { "which is empty", "name a weight file" } },
    };
    ls_weights *w;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        begin();
        for (int k = 0; k < 4 && CASES[i].names[k]; k++)
            touch(CASES[i].names[k]);
        ASSERT_FAILS(ls_weights_open(&w, folder), LS_E_IO, folder, CASES[i].says[0], CASES[i].says[1],
                     "model.safetensors", ".metadata");
    }
}

static void copy(const char *from, const char *name)
{
    char *bytes, path[600];
    size_t n;
    ASSERT_OK(ls_file_read(&bytes, &n, from));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ASSERT_OK(ls_file_write(path, bytes, n));
    free(bytes);
}

/* transformers before version 5 saved files of torch.save, in one file or with an index. */
static void reads_bin_files(void **state)
{
    (void)state;
    const char *index = "{\"weight_map\":{\"tensor\":\"pytorch_model-00001-of-00001.bin\"}}";
    char path[600];
    ls_weights *w;
    begin();
    copy(LS_TEST_SOURCE_DIR "/tests/golden/pt_single.pt", "pytorch_model-00001-of-00001.bin");
    snprintf(path, sizeof path, "%s/pytorch_model.bin.index.json", folder);
    ASSERT_OK(ls_file_write(path, index, strlen(index)));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ls_weights_open(&w, i ? path : folder));
        assert_int_equal(ls_weights_count(w), 1);
        ls_weights_close(&w);
    }
    begin();
    copy(LS_TEST_SOURCE_DIR "/tests/golden/pt_module.pt", "pytorch_model.bin");
    ASSERT_OK(ls_weights_open(&w, folder));
    assert_int_equal(ls_weights_count(w), 7);
    ls_weights_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_pytorch_wrote),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(names_other_folders),
        cmocka_unit_test(reads_bin_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
