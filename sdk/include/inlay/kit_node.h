/* inlay/kit_node.h - a node as the kernels of the kit see it: values, constants, packed weights, attributes.
 *
 * A part of inlay/kit.h, which explains the kit. Code that reads fields of nodes and values also includes
 * inlay/graph_view.h. */
#ifndef INLAY_KIT_NODE_H
#define INLAY_KIT_NODE_H
#include "inlay/types.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inlay_host;
struct inlay_graph;
struct inlay_node_info;
struct inlay_value_info;
struct inlay_attr_info;

/* A node in supports, cost and prepare. Borrowed for the call. */
typedef struct kit_node {
    const struct inlay_host *host;
    const struct inlay_graph *graph;
    const struct inlay_node_info *info;
    void *provider;         /* the result of kit_provider.open; NULL without it */
    void *compile_handle;   /* internal */
    uint8_t *constant_fate; /* internal */
} kit_node;

/* Returns the name of the operator, "Softmax", and the opset version that introduced its definition. */
const char *kit_op_type(const kit_node *node);
uint32_t kit_since_version(const kit_node *node);
/* Returns input or output i of the node; NULL if it is omitted or does not exist. */
const struct inlay_value_info *kit_input(const kit_node *node, uint32_t i);
const struct inlay_value_info *kit_output(const kit_node *node, uint32_t i);
/* Returns the element type of input or output i; INLAY_UNDEFINED if it is omitted or does not exist. */
inlay_dtype kit_input_dtype(const kit_node *node, uint32_t i);
inlay_dtype kit_output_dtype(const kit_node *node, uint32_t i);
/* Returns true if input i is a constant. */
bool kit_is_constant(const kit_node *node, uint32_t i);
/* Returns the elements of constant input i, aligned, valid as long as the prepared state; NULL if it is omitted or not
 * a constant, or if memory ran out. Call this only in prepare. */
const void *kit_constant(const kit_node *node, uint32_t i);
/* Like kit_constant(), but the elements may be misaligned, which avoids a copy: read them with memcpy. */
const void *kit_constant_unaligned(const kit_node *node, uint32_t i);
/* The kernel states that its function run never reads constant input i, because prepare has packed or copied it. The
 * host may release the constant, and call->in[i].data is NULL in run. Call this only in prepare. */
void kit_drop_constant(const kit_node *node, uint32_t i);

/* The kernel states that its function run reads the elements of constant input i with memcpy. So the elements may be
 * misaligned, and the host need not copy a constant that the model's file does not align. For kernels that read a few
 * rows of a large constant. Call this only in prepare. */
void kit_accept_unaligned(const kit_node *node, uint32_t i);

/* The kernel states that prepare has finished reading constant input i for now. Its pages may be dropped from memory;
 * they are loaded again when they are read. For kernels that pack weights piece by piece. Call this only in prepare. */
void kit_release_constant(const kit_node *node, uint32_t i);

/* Memory for data that prepare derives from constants, such as packed weights. If the host supports extension
 * inlay.packs/1, the memory belongs to the host, which keeps it in a file and finds it there the next time; otherwise
 * it is allocated in this process.
 *
 *     INLAY_TRY(kit_pack_take(node, key, sizeof key, bytes, &state->pack, diag));
 *     if (!state->pack.filled)
 *         pack_weights(state->pack.data);
 *     kit_pack_keep(node, &state->pack);
 *
 * The kernel's release function calls kit_pack_free(&state->pack). */
typedef struct kit_pack {
    void *data; /* aligned to 64 bytes; prepare fills it before it returns; read-only afterwards; NULL: no memory */
    /* true: data already holds the contents stored under the key, perhaps by an earlier process; read-only */
    bool filled;
    bool own; /* internal */
} kit_pack;
/* Gets memory of `bytes` bytes. key identifies everything that determines the contents: content_hash of the constants,
 * layout, sizes; the host adds the provider, its build and options, and the CPU. key NULL and key_bytes 0: the memory
 * is not stored. Call it only in prepare, on any thread. INLAY_OUT_OF_MEMORY: *out is {0}, diag states the size. */
INLAY_NODISCARD inlay_status kit_pack_take(const kit_node *node, const void *key, uint64_t key_bytes, uint64_t bytes,
                                           kit_pack *out, inlay_diag *diag);
/* States that the memory is filled and may be stored; otherwise its contents are lost with the session. Has no effect
 * on memory that was already filled. */
void kit_pack_keep(const kit_node *node, const kit_pack *pack);
void kit_pack_free(kit_pack *pack); /* a no-op for {0} */

/* Returns the attribute with this name, or NULL. */
const struct inlay_attr_info *kit_attr(const struct inlay_node_info *node, const char *name);
/* Each returns the value of an attribute, or `otherwise` if the node has none of that name and kind. */
int64_t kit_attr_int(const struct inlay_node_info *node, const char *name, int64_t otherwise);
double kit_attr_float(const struct inlay_node_info *node, const char *name, double otherwise);
const char *kit_attr_string(const struct inlay_node_info *node, const char *name, const char *otherwise);
/* Returns the list and, in *out_count, its length; NULL and 0 if the node has no such attribute. */
const int64_t *kit_attr_ints(const struct inlay_node_info *node, const char *name, uint32_t *out_count);

#ifdef __cplusplus
}
#endif
#endif
