/* in_batch.h - embeddings of texts, and the loss that compares those of a micro-batch. */
#pragma once
#include "lockstep/graph.h"

/* x [batch, tokens, width], ids i32 [batch, tokens] -> f32 [batch, width]: the mean over the tokens that are
 * not `pad`, divided by its length. */
ls_value ls_sentence_embedding(ls_graph *g, ls_value x, ls_value ids, int64_t pad);

/* Declares the loss of pairs a, b [batch, width] of length 1, as MultipleNegativesRankingLoss of
 * sentence-transformers: the cross-entropy of 20 * a b^T, in which each row of a has its own row of b for
 * label, and the metric "accuracy". Rows of padding are in no sum. */
void ls_in_batch_loss(ls_graph *g, ls_value a, ls_value b);
