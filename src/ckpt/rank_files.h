/* rank_files.h - the files of a checkpoint in which each rank has one of its own. Private to src/ckpt.
 *
 * BASE-rank-00003.safetensors is a safetensors file. Its tensors have one dimension: the elements that rank 3
 * wrote of the tensor of this name. The text `lockstep.parts` of its __metadata__ says where they belong:
 *
 *     {"rank":3,"ranks":4,"count":62,"tensors":{
 *     "fc.weight":{"number":7,"shape":[64,32],"whole":[64,32],"start":[0,16],"size":[64,16],"first":512}}}
 *
 * They are the elements from number `first` on of a block of the tensor: `size` elements from `start` on in
 * each dimension of `whole`. `whole` has the elements of `shape` in the same order, and usually the same
 * dimensions. `count` is the number of tensors in all files together, `number` this one's place among
 * them. */
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "ckpt/layout.h"

#define LS_RANK_PARTS "lockstep.parts"

/* The name of a rank's file, and the end of the name of the first one. */
void ls_rank_file_name(char name[64], const char *base, int rank);
#define LS_RANK_FILE_FIRST "-rank-00000.safetensors"

/* The file of this rank; its tensors are all those of the list. LS_E_ARG: a name cannot be written. */
ls_status ls_rank_layout_make(ls_layout *out, const char *base, const ls_tensor_list *list, int rank,
                              int ranks);

/* Reads the files of all ranks and joins them to whole tensors, in order of their numbers. Everything but the
 * mappings is allocated in `arena`. `path` is the first rank's file, mapped already as (*maps)[0]; *maps and
 * *mapped receive the mappings of all of them, also after a failure. LS_E_FORMAT, with file and tensor, if
 * the files together are not each element of each tensor once. LS_E_USAGE: `path` is another rank's file. */
ls_status ls_rank_files_read(ls_weight **out, int64_t *n, ls_arena *arena, ls_mapping **maps, int *mapped,
                             const char *path);
/* Does so for nothing but its verdict. */
ls_status ls_rank_files_check(const char *path);
