/* library_versions.h - interface between library_onednn.c and the file of a version, library_v2.c or library_v3.c.
 *
 * Opaque layouts, which only the library can read, are stored in a registry of the process; memory_desc.opaque is a
 * number in it. */
#ifndef ONEDNN_LIBRARY_VERSIONS_H
#define ONEDNN_LIBRARY_VERSIONS_H
#include "cpu/library/library.h"
#include <oneapi/dnnl/dnnl_types.h>

/* Returns the number of the stored descriptor that `equal` finds equal to desc. If there is none, stores a copy that
 * `copy` makes. 0: out of memory. */
uint32_t library_opaque_keep(const void *desc, int (*equal)(const void *a, const void *b),
                             void *(*copy)(const void *desc));
/* The descriptor with this number; NULL: none. */
const void *library_opaque_find(uint32_t number);
/* Count the open engines. Closing the last one destroys the stored descriptors. */
void library_opaque_open(void);
void library_opaque_close(void (*destroy)(void *desc));

/* Describes a reorder of a part of both tensors; dims NULL: the whole tensors. */
dnnl_status_t library_describe_part(dnnl_engine_t engine, const memory_desc *from, const memory_desc *to,
                                    const int64_t *dims, const int64_t *offsets, dnnl_primitive_desc_t *out);
/* Creates the memory object of an operand of a descriptor (library_onednn.c). */
dnnl_status_t library_memory_of(const_dnnl_primitive_desc_t pd, dnnl_query_t which, dnnl_engine_t engine, void *data,
                                dnnl_memory_t *out);

/* The functions of the table, in library_onednn.c and in the file of a version. */
extern const primitive_library onednn_table;
library_status onednn_describe(library_engine engine, const library_op *op, const library_attr *attr,
                               library_description *out);
library_status onednn_describe_reorder(library_engine engine, const memory_desc *from, const memory_desc *to,
                                       library_description *out);
library_status onednn_describe_concat(library_engine engine, const memory_desc *output, int axis, const memory_desc *xs,
                                      uint32_t count, library_description *out);
library_status onednn_clone(library_description *out, library_const_description pd);
void onednn_destroy(library_description pd);
bool onednn_knows(const memory_desc *md);
const memory_desc *onednn_layout(library_const_description pd, library_operand which, memory_desc *out);
const char *onednn_name(library_const_description pd);
library_status onednn_engine_create(library_engine *out);
void onednn_engine_destroy(library_engine engine);
library_status onednn_stream_create(library_engine engine, library_stream *out);
library_status onednn_stream_wait(library_stream stream);
void onednn_stream_destroy(library_stream stream);
library_status onednn_primitive_create(library_const_description pd, library_primitive *out);
int onednn_operand_number(int id);
library_status onednn_primitive_execute(library_primitive primitive, library_stream stream, uint32_t count,
                                        const library_arg *args);
void onednn_primitive_destroy(library_primitive primitive);
library_status onednn_memory_create(library_engine engine, const memory_desc *md, void *data, library_memory *out);
library_status onednn_memory_move(library_memory memory, void *data, library_stream stream);
void onednn_memory_destroy(library_memory memory);
library_status onednn_reorder(library_engine engine, const memory_desc *from, const void *source, const memory_desc *to,
                              void *target, const int64_t *dims, const int64_t *offsets);
library_status onednn_sgemm(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k, const float *a,
                            int64_t a_line, const float *b, int64_t b_line, float *output, int64_t y_line);
bool onednn_has_isa(library_isa isa);
uint64_t onednn_version(void);
bool onednn_has_winograd(void);
int onednn_opaque_words(const memory_desc *md, int64_t *out, int most);
bool onednn_pack_winograd(const struct cpu_state *state, const memory_desc *plain, const void *source,
                          const memory_desc *md, void *target);

/* Translate constants of library.h to those of oneDNN (library_terms.c). */
dnnl_alg_kind_t onednn_alg_of(library_alg alg);
unsigned onednn_flags_of(uint32_t flags);
dnnl_query_t onednn_query_of(library_operand which);

/* Types and statuses have the library's numbers (asserted in library_terms.c). */
static inline dnnl_data_type_t onednn_type_of(library_type type)
{
    return (dnnl_data_type_t)type;
}

static inline library_status library_status_of(dnnl_status_t code)
{
    return (library_status)code;
}
#endif
