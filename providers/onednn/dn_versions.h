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

/* What terms of ours are in the library's. */
dnnl_alg_kind_t dn_their_alg(dn_alg alg);
unsigned dn_their_flags(uint32_t flags);
dnnl_query_t dn_their_query(dn_operand which);

/* Types, statuses and operands have the library's numbers (asserted in dn.c). */
static inline dnnl_data_type_t dn_their_type(dn_type type)
{
    return (dnnl_data_type_t)type;
}

static inline dn_status dn_own_status(dnnl_status_t code)
{
    return (dn_status)code;
}
#endif
