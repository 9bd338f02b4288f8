/* texts/draft/graft.h - completes a head (head.h) that was exported without the parts that it shares with the
 * model: the embedding of the tokens, in whose place it has an input `inputs_embeds`, and the product that makes the
 * logits of its hidden states. The result is a model in memory: the nodes of the head, and around them those of the
 * model's file that compute these two. Logits of 16 bits become floats. All weights stay in their files. */
#ifndef TEXTS_GRAFT_H
#define TEXTS_GRAFT_H
#include "base/wire.h"
#include "inlay/inlay.h"

/* Reads both files. out_bytes, which starts as {0} and is the caller's, becomes the completed model, and *options gets
 * the folder of its weights; out_bytes stays empty if nothing is missing in the head, or if a file is damaged, which
 * its session reports. INLAY_INVALID_ARGUMENT: the model has no such part, or one that is not understood; the message
 * names the node. */
INLAY_NODISCARD inlay_status text_graft(const char *head_path, const char *model_path, inlay_options *options,
                                        struct wire *out_bytes, inlay_diag *diag);
#endif
