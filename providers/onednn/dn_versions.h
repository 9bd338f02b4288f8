/* dn_versions.h - between dn.c and the file of a version, dn_v2.c or dn_v3.c.
 *
 * Layouts that the library alone understands are kept once in the process; rg_md.opaque is the number of one. */
#ifndef ONEDNN_DN_VERSIONS_H
#define ONEDNN_DN_VERSIONS_H
#include "library/dn.h"
#include <oneapi/dnnl/dnnl_types.h>

/* Finds a description that `equal` says is the same, or keeps a copy that `copy` makes. 0: no memory. */
uint32_t dn_opaque_keep(const void *desc, int (*equal)(const void *a, const void *b), void *(*copy)(const void *desc));
/* NULL: there is none of that number. */
const void *dn_opaque_find(uint32_t number);
/* Engines that are open; the last one to close takes the descriptions along. */
void dn_opaque_open(void);
void dn_opaque_close(void (*destroy)(void *desc));

/* A reorder of a part of both tensors; dims NULL: of all. */
dnnl_status_t dn_describe_part(dnnl_engine_t engine, const rg_md *from, const rg_md *to, const int64_t *dims,
                               const int64_t *offsets, dnnl_primitive_desc_t *out);
/* From dn.c: an object for an operand of a descriptor. */
dnnl_status_t dn_memory_of(const_dnnl_primitive_desc_t pd, dnnl_query_t which, dnnl_engine_t engine, void *data,
                           dnnl_memory_t *out);

/* The functions of the table, by file: dn.c, and those of a version. */
extern const dn_library dn_onednn;
dn_status onednn_describe(dn_engine engine, const dn_op *op, const dn_attr *attr, dn_description *out);
dn_status onednn_describe_reorder(dn_engine engine, const rg_md *from, const rg_md *to, dn_description *out);
dn_status onednn_describe_concat(dn_engine engine, const rg_md *output, int axis, const rg_md *xs, uint32_t count,
                                 dn_description *out);
dn_status onednn_clone(dn_description *out, dn_const_description pd);
void onednn_destroy(dn_description pd);
bool onednn_knows(const rg_md *md);
const rg_md *onednn_layout(dn_const_description pd, dn_operand which, rg_md *out);
const char *onednn_name(dn_const_description pd);
dn_status onednn_engine_create(dn_engine *out);
void onednn_engine_destroy(dn_engine engine);
dn_status onednn_stream_create(dn_engine engine, dn_stream *out);
dn_status onednn_stream_wait(dn_stream stream);
void onednn_stream_destroy(dn_stream stream);
dn_status onednn_primitive_create(dn_const_description pd, dn_primitive *out);
int onednn_operand_number(int id);
dn_status onednn_primitive_execute(dn_primitive primitive, dn_stream stream, uint32_t count, const dn_arg *args);
void onednn_primitive_destroy(dn_primitive primitive);
dn_status onednn_memory_create(dn_engine engine, const rg_md *md, void *data, dn_memory *out);
dn_status onednn_memory_move(dn_memory memory, void *data, dn_stream stream);
void onednn_memory_destroy(dn_memory memory);
dn_status onednn_reorder(dn_engine engine, const rg_md *from, const void *source, const rg_md *to, void *target,
                         const int64_t *dims, const int64_t *offsets);
dn_status onednn_sgemm(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, const float *a, int64_t a_line,
                       const float *b, int64_t b_line, float *output, int64_t y_line);
bool onednn_has_isa(dn_isa isa);
uint64_t onednn_version(void);
bool onednn_has_winograd(void);
int onednn_opaque_words(const rg_md *md, int64_t *out, int most);
bool onednn_pack_winograd(const struct rg_state *state, const rg_md *plain, const void *source, const rg_md *md,
                          void *target);

/* What terms of ours are in the library's. */
dnnl_alg_kind_t dn_their_alg(dn_alg alg);
unsigned dn_their_flags(uint32_t flags);
dnnl_query_t dn_their_query(dn_operand which);

/* Types and statuses have the library's numbers (asserted in dn.c). */
static inline dnnl_data_type_t dn_their_type(dn_type type)
{
    return (dnnl_data_type_t)type;
}

static inline dn_status dn_own_status(dnnl_status_t code)
{
    return (dn_status)code;
}
#endif
