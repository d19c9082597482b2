/* hub_cache.h - the cache of Hugging Face's hub on this machine, in the layout that its own tools use, so
 * that they and we share it:
 *
 *     models--OWNER--NAME/refs/main                      the commit of that name
 *     models--OWNER--NAME/snapshots/COMMIT/config.json   a link to
 *     models--OWNER--NAME/blobs/HASH                     the bytes
 *
 * A repository is named as in the hub's addresses: OWNER/NAME is a model, datasets/OWNER/NAME a data set. */
#pragma once
#include <stdbool.h>

/* HF_HUB_CACHE, else HF_HOME/hub, else the user's cache folder's huggingface/hub; malloc'ed, NULL: no memory.
 */
char *ls_hub_cache(void);
/* HF_HOME, else the user's cache folder's huggingface; malloc'ed, NULL: no memory. */
char *ls_hub_home(void);
/* Whether `name` can name a repository: two words, or datasets and two words, of letters, digits, - _ and
 * dots. */
bool ls_hub_name_ok(const char *name);
/* The repository's folder in the cache, there or not; malloc'ed, NULL: no name of a repository, or no memory.
 */
char *ls_hub_folder(const char *name);
/* The folder of its files at the commit that `revision` (main, a tag, a commit) names in the cache;
 * malloc'ed, NULL: the cache has none. */
char *ls_hub_snapshot(const char *name, const char *revision);
/* "datasets/OWNER/NAME/words.txt": that file of the data set's snapshot, there or not; malloc'ed, NULL: no
 * such name, or no snapshot. */
char *ls_hub_path(const char *path);
