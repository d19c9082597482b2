/* attention_scores.h - what all kernels of attention do with a tile of TILE keys and queries: masks, bias,
 * and dropout. X is the type of the tensors; BIAS, PADDING, DROPS and DOCUMENTS are 1 if there is a bias, ids
 * of keys, dropout, and positions. Include dialect.h first. */
#pragma once
#include "attention.h"
#include "random.h"

/* The sample, head and tile of a block. */
typedef struct tile_place {
    i64 b, h, g, from; /* from: first query or key */
    int n;             /* how many there are from there on, at most TILE */
    int split;         /* of the output's columns */
} tile_place;

/* Of block number `block`: (sample, head, tile, split), split fastest. */
DEVICE tile_place place_of(i64 block, i64 heads, i64 tokens, int rows, int splits)
{
    tile_place p;
    const i64 tiles = (tokens + rows - 1) / rows;
    p.split = (int)(block % splits);
    block /= splits;
    p.from = block % tiles * rows;
    block /= tiles;
    p.h = p.g = block % heads;
    p.b = block / heads;
    p.n = (int)(tokens - p.from < rows ? tokens - p.from : rows);
    return p;
}
/* The same of tiles of queries; with `causal` the last ones come first, because they see most keys. */
DEVICE tile_place queries_of(const attention_args *a, i64 block, int rows, int splits)
{
    tile_place p = place_of(block, a->H, a->Tq, rows, splits);
    if (a->causal) {
        p.from = ((a->Tq + rows - 1) / rows - 1) * rows - p.from;
        p.n = (int)(a->Tq - p.from < rows ? a->Tq - p.from : rows);
    }
    p.g = p.h / (a->H / a->G);
    return p;
}

/* One after the last key that the queries before `query_end` see. */
DEVICE i64 keys_end(const attention_args *a, i64 query_end)
{
    const i64 end = query_end + a->apart;
    return !a->causal || end > a->Tk ? a->Tk : end < 0 ? 0 : end;
}
/* The first query that sees a key. */
DEVICE i64 queries_start(const attention_args *a, i64 key)
{
    const i64 start = key - a->apart;
    return !a->causal || start < 0 ? 0 : start > a->Tq ? a->Tq : start;
}

/* The tile of the first key that queries from `query` on see, and one after the last query that sees a key.
 */
DEVICE i64 keys_start(const attention_args *a, i64 b, i64 query)
{
    const i64 at = query + a->apart;
    return DOCUMENTS ? AT(const i32, a->starts)[b * a->Tk + (at < 0 ? 0 : at)] / TILE * TILE : 0;
}
DEVICE i64 queries_end(const attention_args *a, i64 b, i64 key)
{
    const i64 end = DOCUMENTS ? AT(const i32, a->ends)[b * a->Tk + key] - a->apart : a->Tq;
    return end < 0 ? 0 : end > a->Tq ? a->Tq : end;
}

/* query and key must be there */
DEVICE i64 bias_place(const attention_args *a, i64 b, i64 h, i64 query, i64 key)
{
    return a->distances ? h * (a->Tq + a->Tk - 1) + key - query + a->Tq - 1
                        : b * a->bias_batch + (h * a->Tq + query) * a->Tk + key;
}

/* What masks the pairs of a tile of keys and up to 2 * TILE queries, numbered from the tile's first. */
typedef struct tile_view {
    int queries, keys; /* that are there */
    int apart, before; /* a query sees keys up to its own number + apart, and behind that number + before */
#if BIAS
    const X *bias; /* of the first query and key */
    i64 bias_step; /* from query to query */
#endif
#if PADDING
    const i32 *ids; /* of the keys */
    i32 pad;
#endif
#if DOCUMENTS
    const i32 *starts; /* of the queries */
    i64 first_key;
#endif
} tile_view;

DEVICE tile_view view_of(const attention_args *a, i64 b, i64 h, i64 query, i64 key)
{
    tile_view v;
    const i64 apart = query + a->apart - key, far = 4 * TILE;
    v.queries = (int)(a->Tq - query < far ? a->Tq - query : far);
    v.keys = (int)(a->Tk - key < far ? a->Tk - key : far);
    const i64 before = a->window ? apart - a->window : -far;
    v.before = (int)(before > far ? far : before < -far ? -far : before);
    v.apart = (int)(!a->causal || apart > far ? far : apart < -far ? -far : apart);
#if BIAS
    v.bias = AT(const X, a->bias) + bias_place(a, b, h, query, key);
    v.bias_step = a->distances ? -1 : a->Tk;
#endif
#if PADDING
    v.ids = AT(const i32, a->ids) + b * a->Tk + key;
    v.pad = (i32)a->pad;
#endif
#if DOCUMENTS
    v.starts = AT(const i32, a->starts) + b * a->Tk + query + a->apart;
    v.first_key = key;
#endif
    (void)b;
    (void)h;
    return v;
}
/* Whether the queries first .. last see all keys of the tile, and no bias is added. */
DEVICE int is_plain(const tile_view *v, int first, int last)
{
    if (BIAS || PADDING || v->keys < TILE || last >= v->queries || first + v->apart < TILE - 1 ||
        last + v->before >= 0)
        return 0;
#if DOCUMENTS
    return v->starts[last] <= v->first_key;
#else
    return 1;
#endif
}
DEVICE int sees(const tile_view *v, int query, int key)
{
#if PADDING
    if (key < v->keys && v->ids[key] == v->pad)
        return 0;
#endif
    if (key >= v->keys || query >= v->queries || key > query + v->apart || key <= query + v->before)
        return 0;
#if DOCUMENTS
    return v->first_key + key >= v->starts[query];
#else
    return 1;
#endif
}
/* dot * scale + bias * unit; -inf if the query does not see the key */
DEVICE float score_of(const tile_view *v, float dot, float scale, float unit, int query, int key)
{
    if (!sees(v, query, key))
        return -infinity_();
#if BIAS
    return fma_(LOAD(X, v->bias, query * v->bias_step + key), unit, dot * scale);
#else
    (void)unit;
    return dot * scale;
#endif
}

/* Which probabilities of a tile are kept: bit e of byte [query][c] is that of key 8 * e + c, since a block of
 * random numbers decides about eight of them. */
typedef struct keep_tile {
    u8 bits[2 * TILE][8];
} keep_tile;
typedef struct dropping {
    random_key key;
    u64 plane;
} dropping;

DEVICE dropping dropping_of(const attention_args *a, i64 b)
{
    dropping d;
#if DROPS
    const i64 *k = AT(const i64, a->key);
    d.key = random_key_of((u64)k[0], a->purpose);
    d.plane = (u64)k[1] + (u64)(a->first_sample + b) * (u64)k[2];
#else
    (void)a;
    (void)b;
    d.key.k[0] = d.key.k[1] = 0;
    d.plane = 0;
#endif
    return d;
}
/* All threads of the block. key: the tile's first. */
DEVICE void keep_fill(const attention_args *a, keep_tile *t, dropping d, i64 h, i64 query, i64 key,
                      int queries)
{
    for (int i = THREAD; i < queries * 8; i += THREADS) {
        const i64 number = (a->first_head + h) * a->all_queries + a->first_query + query + i / 8;
        const u64 row = (u64)number * (u64)((a->Tk + 63) / 64);
        const random_words x = random_block(d.key, (row + (u64)key / 64) * 8 + (u64)(i % 8), d.plane);
        u32 bits = 0;
        UNROLL for (int e = 0; e < 8; e++) bits |= (u32)(random_bits16_of(&x, e) < a->below) << e;
        t->bits[i / 8][i % 8] = (u8)bits;
    }
}
DEVICE int keeps(const keep_tile *t, int query, int key) { return t->bits[query][key % 8] >> key / 8 & 1; }
