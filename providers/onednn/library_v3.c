/* oneDNN 3: descriptors are objects, operations have no separate descriptors, scales and zero points are operands of
 * the run. */
#include "onednn/library_versions.h"
#include "inlay/check.h"
#include "simd/at_fork.h"
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ format tags */

/* Blocked layouts are described to the library by a format tag such as dnnl_aBcd16b: the axes from the outermost, a
 * capital letter if the axis is blocked; then the blocks from the outermost. Axes with equal strides are tied: each of
 * them except the outermost has one block, and any order of them is the same layout. */
enum { MAX_BLOCKS = 24, MAX_TEXT = 3 * DNNL_MAX_NDIMS + MAX_BLOCKS, MAX_NAMES = 64 };

struct tag_pattern {
    int order[DNNL_MAX_NDIMS];       /* axes from the outermost */
    int tie[DNNL_MAX_NDIMS];         /* by axis: tied axes have the same number */
    bool has_blocks[DNNL_MAX_NDIMS]; /* by axis: it has more than one block */
    char letters[DNNL_MAX_NDIMS];    /* by axis */
    char blocks[MAX_BLOCKS];         /* CPU_MAX_BLOCKS blocks, each of up to 3 digits and a letter */
};

static int64_t block_of(const memory_desc *md, int d)
{
    int64_t block = 1;

    for (int i = 0; i < md->inner_nblks; i++)
        block *= md->inner_idxs[i] == d ? md->inner_blks[i] : 1;
    return block;
}

static bool is_outer(const memory_desc *md, const struct tag_pattern *pattern, int a, int b)
{
    return md->strides[a] != md->strides[b] ? md->strides[a] > md->strides[b]
                                            : pattern->has_blocks[a] && !pattern->has_blocks[b];
}

static void make_pattern(const memory_desc *md, struct tag_pattern *pattern)
{
    int at = 0;

    INLAY_CHECK(md->ndims <= DNNL_MAX_NDIMS && md->inner_nblks <= CPU_MAX_BLOCKS);
    for (int d = 0; d < md->ndims; d++) {
        const int64_t block = block_of(md, d);
        int i = d;

        pattern->has_blocks[d] = md->padded_dims[d] > block;
        pattern->letters[d] = (char)((block > 1 ? 'A' : 'a') + d);
        for (; i > 0 && is_outer(md, pattern, d, pattern->order[i - 1]); i--)
            pattern->order[i] = pattern->order[i - 1];
        pattern->order[i] = d;
    }
    for (int i = 0; i < md->ndims; i++) {
        const bool tied = i > 0 && md->strides[pattern->order[i]] == md->strides[pattern->order[i - 1]];

        pattern->tie[pattern->order[i]] = tied ? pattern->tie[pattern->order[i - 1]] : i;
    }
    for (int i = 0; i < md->inner_nblks; i++) {
        const int size = md->inner_blks[i] < 1000 ? (int)md->inner_blks[i] : 0;

        at += snprintf(pattern->blocks + at, sizeof pattern->blocks - (size_t)at, "%d%c", size,
                       (char)('a' + md->inner_idxs[i]));
    }
}

/* Whether the name of a format tag denotes the layout. */
static bool matches_pattern(const struct tag_pattern *pattern, int rank, const char *name)
{
    for (int i = 0; i < rank; i++) {
        const int d = (name[i] | 0x20) - 'a';

        if (d < 0 || d >= rank || name[i] != pattern->letters[d] ||
            pattern->tie[d] != pattern->tie[pattern->order[i]] ||
            (pattern->has_blocks[pattern->order[i]] && d != pattern->order[i]))
            return false;
    }
    return strcmp(name + rank, pattern->blocks) == 0;
}

static dnnl_format_tag_t search_tag(const struct tag_pattern *pattern, int rank)
{
    for (int t = (int)dnnl_format_tag_any + 1; t < (int)dnnl_format_tag_last; t++)
        if (matches_pattern(pattern, rank, dnnl_fmt_tag2str((dnnl_format_tag_t)t)))
            return (dnnl_format_tag_t)t;
    return dnnl_format_tag_undef;
}

/* Cache of search_tag(). The text form of a pattern has '+' after an axis with several blocks, and '=' before an axis
 * that is tied to the previous one. */
static struct {
    char text[MAX_TEXT];
    dnnl_format_tag_t tag; /* undef: no tag matches */
} tag_cache[MAX_NAMES];
static uint32_t tag_cache_count;
static pthread_mutex_t tag_cache_lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_tag_cache(void)
{
    lock_at_fork(&tag_cache_lock);
}

static void write_text(const struct tag_pattern *pattern, int rank, char *text)
{
    int at = 0;

    for (int i = 0; i < rank; i++) {
        const int d = pattern->order[i];

        if (i > 0 && pattern->tie[d] == pattern->tie[pattern->order[i - 1]])
            text[at++] = '=';
        text[at++] = pattern->letters[d];
        if (pattern->has_blocks[d])
            text[at++] = '+';
    }
    (void)strcpy(text + at, pattern->blocks);
}

static dnnl_format_tag_t find_tag(const memory_desc *md)
{
    dnnl_format_tag_t tag = dnnl_format_tag_undef;
    char text[MAX_TEXT];
    bool known = false;
    struct tag_pattern pattern;

    make_pattern(md, &pattern);
    write_text(&pattern, md->ndims, text);
    (void)pthread_mutex_lock(&tag_cache_lock);
    for (uint32_t i = 0; !known && i < tag_cache_count; i++) {
        known = strcmp(tag_cache[i].text, text) == 0;
        tag = known ? tag_cache[i].tag : tag;
    }
    if (!known) {
        tag = search_tag(&pattern, md->ndims);
        if (tag_cache_count < MAX_NAMES) {
            (void)strcpy(tag_cache[tag_cache_count].text, text);
            tag_cache[tag_cache_count++].tag = tag;
        }
    }
    (void)pthread_mutex_unlock(&tag_cache_lock);
    return tag;
}

/* ------------------------------------------------------------------ descriptors of layouts */

/* Sets the strides of axes of one element. Such a stride has no meaning, but the library rejects some values, so it
 * gets the value that it would have if the axis had more elements. */
static void set_unused_strides(const memory_desc *md, dnnl_dims_t strides)
{
    for (int d = md->ndims; d-- > 0;) {
        strides[d] = md->strides[d];
        if (md->dims[d] == 1)
            strides[d] = d + 1 < md->ndims ? strides[d + 1] * (md->dims[d + 1] > 0 ? md->dims[d + 1] : 1) : 1;
    }
    for (int d = 0; d < md->ndims;
         d++) /* the value is at least the extent of every axis with several elements, in any order */
        for (int e = 0; md->dims[d] == 1 && e < md->ndims; e++)
            if (md->dims[e] > 1 && md->strides[e] * md->dims[e] > strides[d])
                strides[d] = md->strides[e] * md->dims[e];
}

static dnnl_status_t make_strided(const memory_desc *md, dnnl_memory_desc_t *out)
{
    dnnl_dims_t strides;

    if (dnnl_memory_desc_create_with_strides(out, md->ndims, md->dims, onednn_type_of(md->data_type), md->strides) ==
        dnnl_success)
        return dnnl_success;
    set_unused_strides(md, strides);
    return dnnl_memory_desc_create_with_strides(out, md->ndims, md->dims, onednn_type_of(md->data_type), strides);
}

static bool has_numbers(const_dnnl_memory_desc_t desc, dnnl_query_t what, const int64_t *numbers, int count)
{
    dnnl_dims_t *queried = NULL;

    return dnnl_memory_desc_query(desc, what, (void *)&queried) == dnnl_success && queried != NULL &&
           memcmp(*queried, numbers, (size_t)count * sizeof *numbers) == 0;
}

/* Fails for blocked layouts without a format tag, which cannot be described to the library. */
static dnnl_status_t make_blocked(const memory_desc *md, dnnl_memory_desc_t *out)
{
    const dnnl_format_tag_t tag = find_tag(md);
    dnnl_status_t code;

    if (tag == dnnl_format_tag_undef)
        return dnnl_unimplemented;
    code = dnnl_memory_desc_create_with_tag(out, md->ndims, md->dims, onednn_type_of(md->data_type), tag);
    if (code == dnnl_success && (!has_numbers(*out, dnnl_query_strides, md->strides, md->ndims) ||
                                 !has_numbers(*out, dnnl_query_padded_dims, md->padded_dims, md->ndims))) {
        (void)dnnl_memory_desc_destroy(*out);
        *out = NULL;
        code = dnnl_unimplemented;
    }
    return code;
}

/* Makes the library's descriptor; NULL for an omitted tensor. The caller destroys it. */
static dnnl_status_t make_desc(const memory_desc *md, dnnl_memory_desc_t *out)
{
    const_dnnl_memory_desc_t kept;

    *out = NULL;
    if (md->ndims == 0)
        return dnnl_success;
    switch (md->kind) {
    case CPU_ANY:
        return dnnl_memory_desc_create_with_tag(out, md->ndims, md->dims, onednn_type_of(md->data_type),
                                                dnnl_format_tag_any);
    case CPU_BLOCKED:
        return md->inner_nblks > 0 ? make_blocked(md, out) : make_strided(md, out);
    case CPU_OPAQUE:
        kept = library_opaque_find(md->opaque);
        return kept == NULL ? dnnl_invalid_arguments : dnnl_memory_desc_clone(out, kept);
    default:
        return dnnl_invalid_arguments;
    }
}

bool onednn_knows(const memory_desc *md)
{
    dnnl_memory_desc_t desc;
    const bool known = make_desc(md, &desc) == dnnl_success;

    (void)dnnl_memory_desc_destroy(desc);
    return known;
}

static int equal_descs(const void *a, const void *b)
{
    return dnnl_memory_desc_equal(a, b);
}

static void *copy_desc(const void *desc)
{
    dnnl_memory_desc_t copy = NULL;

    return dnnl_memory_desc_clone(&copy, desc) == dnnl_success ? copy : NULL;
}

static void destroy_desc(void *desc)
{
    (void)dnnl_memory_desc_destroy(desc);
}

static bool read_numbers(const_dnnl_memory_desc_t desc, dnnl_query_t what, int64_t *out, int count)
{
    dnnl_dims_t *queried = NULL;

    if (dnnl_memory_desc_query(desc, what, (void *)&queried) != dnnl_success || queried == NULL)
        return false;
    memcpy(out, *queried, (size_t)count * sizeof *out);
    return true;
}

/* Reads strides and blocks; false: memory_desc cannot express the layout. */
static bool read_blocks(const_dnnl_memory_desc_t desc, memory_desc *out)
{
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    dnnl_memory_desc_t again = NULL;
    int blocks = 0;
    bool good;

    if (dnnl_memory_desc_query(desc, dnnl_query_format_kind, &kind) != dnnl_success || kind != dnnl_blocked ||
        dnnl_memory_desc_query(desc, dnnl_query_inner_nblks_s32, &blocks) != dnnl_success || blocks > CPU_MAX_BLOCKS)
        return false;
    out->kind = CPU_BLOCKED;
    out->inner_nblks = blocks;
    if (!read_numbers(desc, dnnl_query_strides, out->strides, out->ndims) ||
        (blocks > 0 && (!read_numbers(desc, dnnl_query_inner_blks, out->inner_blks, blocks) ||
                        !read_numbers(desc, dnnl_query_inner_idxs, out->inner_idxs, blocks))))
        return false;
    good = make_desc(out, &again) == dnnl_success && dnnl_memory_desc_equal(again, desc) != 0;
    (void)dnnl_memory_desc_destroy(again);
    return good;
}

static bool read_desc(const_dnnl_memory_desc_t desc, memory_desc *out)
{
    dnnl_data_type_t type = dnnl_data_type_undef;
    int rank = 0;

    memset(out, 0, sizeof *out);
    if (desc == NULL || dnnl_memory_desc_query(desc, dnnl_query_ndims_s32, &rank) != dnnl_success || rank == 0)
        return true;
    out->ndims = rank;
    if (dnnl_memory_desc_query(desc, dnnl_query_data_type, &type) != dnnl_success ||
        !read_numbers(desc, dnnl_query_dims, out->dims, rank) ||
        !read_numbers(desc, dnnl_query_padded_dims, out->padded_dims, rank))
        return false;
    out->data_type = (library_type)type;
    if (read_blocks(desc, out))
        return true;
    memset(out->strides, 0, sizeof out->strides);
    memset(out->inner_blks, 0, sizeof out->inner_blks);
    memset(out->inner_idxs, 0, sizeof out->inner_idxs);
    out->inner_nblks = 0;
    out->kind = CPU_OPAQUE;
    out->opaque = library_opaque_keep(desc, equal_descs, copy_desc);
    out->opaque_bytes = dnnl_memory_desc_get_size(desc);
    return out->opaque != 0;
}

const memory_desc *onednn_layout(library_const_description pd, library_operand which, memory_desc *out)
{
    if (!read_desc(dnnl_primitive_desc_query_md(pd, onednn_query_of(which), 0), out))
        memset(out, 0, sizeof *out);
    return out;
}

int onednn_opaque_words(const memory_desc *md, int64_t *out, int most)
{
    (void)md;
    (void)out;
    (void)most;
    return 0;
}

bool onednn_has_winograd(void)
{
    return false;
}

/* ------------------------------------------------------------------ operations */

/* Sets parameters that oneDNN 3 requires for functions that have none in oneDNN 2. */
static void set_fixed_parameters(dnnl_alg_kind_t alg, float *alpha, float *beta)
{
    if (alg == dnnl_eltwise_hardswish) {
        *alpha = 1.0f / 6;
        *beta = 0.5f;
    } else if (alg == dnnl_eltwise_soft_relu) {
        *alpha = 1;
    }
}

static dnnl_status_t append_function(dnnl_post_ops_t posts, dnnl_alg_kind_t alg, float alpha, float beta)
{
    set_fixed_parameters(alg, &alpha, &beta);
    return dnnl_post_ops_append_eltwise(posts, alg, alpha, beta);
}

static dnnl_status_t append_binary(dnnl_post_ops_t posts, dnnl_alg_kind_t alg, const memory_desc *other)
{
    dnnl_memory_desc_t desc = NULL;
    dnnl_status_t code = make_desc(other, &desc);

    if (code == dnnl_success)
        code = dnnl_post_ops_append_binary(posts, alg, desc);
    (void)dnnl_memory_desc_destroy(desc);
    return code;
}

/* Appends the scales, which apply to sums including the bias, as a multiplication, then the posts, then a known zero
 * point as a linear function. */
static dnnl_status_t append_all(dnnl_post_ops_t posts, const library_attr *a)
{
    dnnl_status_t code = a->scales != NULL ? append_binary(posts, dnnl_binary_mul, &a->scales_md) : dnnl_success;

    for (uint32_t i = 0; code == dnnl_success && i < a->post_count; i++) {
        const library_post *p = &a->posts[i];

        code = p->kind == LIBRARY_POST_ELTWISE  ? append_function(posts, onednn_alg_of(p->alg), p->alpha, p->beta)
               : p->kind == LIBRARY_POST_BINARY ? append_binary(posts, onednn_alg_of(p->alg), &p->other)
                                                : dnnl_post_ops_append_sum(posts, 1, 0, dnnl_data_type_undef);
    }
    if (code == dnnl_success && a->y_zero != 0)
        code = append_function(posts, dnnl_eltwise_linear, 1, (float)a->y_zero);
    return code;
}

static dnnl_status_t make_attr(const library_attr *a, dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t posts = NULL;
    dnnl_status_t code = dnnl_primitive_attr_create(out);

    if (code == dnnl_success)
        code = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (code != dnnl_success || a == NULL)
        return code;
    if (a->has_zero)
        code = dnnl_primitive_attr_set_zero_points_mask(*out, DNNL_ARG_SRC, 0);
    if (code == dnnl_success)
        code = dnnl_post_ops_create(&posts);
    if (code == dnnl_success)
        code = append_all(posts, a);
    if (code == dnnl_success)
        code = dnnl_primitive_attr_set_post_ops(*out, posts);
    (void)dnnl_post_ops_destroy(posts);
    return code;
}

struct operands {
    dnnl_memory_desc_t x, w, bias, y;
};

static dnnl_status_t describe(dnnl_engine_t engine, const library_op *op, const struct operands *operands,
                              const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    const dnnl_prop_kind_t forward = dnnl_forward_inference;
    float alpha = op->alpha, beta = op->beta;

    switch (op->kind) {
    case LIBRARY_CONVOLUTION:
        return dnnl_convolution_forward_primitive_desc_create(out, engine, forward, onednn_alg_of(op->alg), operands->x,
                                                              operands->w, operands->bias, operands->y, op->strides,
                                                              op->dilations, op->begins, op->ends, attr);
    case LIBRARY_DECONVOLUTION:
        return dnnl_deconvolution_forward_primitive_desc_create(out, engine, forward, onednn_alg_of(op->alg),
                                                                operands->x, operands->w, operands->bias, operands->y,
                                                                op->strides, op->dilations, op->begins, op->ends, attr);
    case LIBRARY_INNER_PRODUCT:
        return dnnl_inner_product_forward_primitive_desc_create(out, engine, forward, operands->x, operands->w,
                                                                operands->bias, operands->y, attr);
    case LIBRARY_MATMUL:
        return dnnl_matmul_primitive_desc_create(out, engine, operands->x, operands->w, operands->bias, operands->y,
                                                 attr);
    case LIBRARY_BINARY:
        return dnnl_binary_primitive_desc_create(out, engine, onednn_alg_of(op->alg), operands->x, operands->w,
                                                 operands->y, attr);
    case LIBRARY_ELTWISE:
        set_fixed_parameters(onednn_alg_of(op->alg), &alpha, &beta);
        return dnnl_eltwise_forward_primitive_desc_create(out, engine, forward, onednn_alg_of(op->alg), operands->x,
                                                          operands->x, alpha, beta, attr);
    case LIBRARY_POOLING:
        return dnnl_pooling_forward_primitive_desc_create(out, engine, forward, onednn_alg_of(op->alg), operands->x,
                                                          operands->y, op->strides, op->kernel, op->dilations,
                                                          op->begins, op->ends, attr);
    case LIBRARY_BATCH_NORM:
        return dnnl_batch_normalization_forward_primitive_desc_create(out, engine, forward, operands->x, operands->x,
                                                                      op->epsilon, onednn_flags_of(op->flags), attr);
    case LIBRARY_LRN:
        return dnnl_lrn_forward_primitive_desc_create(out, engine, forward, dnnl_lrn_across_channels, operands->x,
                                                      operands->x, op->size, op->alpha, op->beta, op->epsilon, attr);
    default:
        return dnnl_invalid_arguments;
    }
}

library_status onednn_describe(library_engine engine, const library_op *op, const library_attr *attr,
                               library_description *out)
{
    dnnl_primitive_attr_t primitive_attr = NULL;
    struct operands operands = { NULL, NULL, NULL, NULL };
    dnnl_status_t code = make_desc(&op->input, &operands.x);

    *out = NULL;
    if (code == dnnl_success)
        code = make_desc(&op->weights, &operands.w);
    if (code == dnnl_success)
        code = make_desc(&op->bias, &operands.bias);
    if (code == dnnl_success)
        code = make_desc(&op->output, &operands.y);
    if (code == dnnl_success)
        code = make_attr(attr, &primitive_attr);
    if (code == dnnl_success)
        code = describe(engine, op, &operands, primitive_attr, out);
    (void)dnnl_primitive_attr_destroy(primitive_attr);
    (void)dnnl_memory_desc_destroy(operands.x);
    (void)dnnl_memory_desc_destroy(operands.w);
    (void)dnnl_memory_desc_destroy(operands.bias);
    (void)dnnl_memory_desc_destroy(operands.y);
    return library_status_of(code);
}

/* Makes the descriptor of a part of a tensor; dims NULL: of the whole tensor. The caller destroys it. */
static dnnl_status_t make_part(const memory_desc *md, const int64_t *dims, const int64_t *offsets,
                               dnnl_memory_desc_t *out)
{
    dnnl_memory_desc_t whole;
    dnnl_status_t code = make_desc(md, &whole);

    *out = whole;
    if (code != dnnl_success || dims == NULL)
        return code;
    code = dnnl_memory_desc_create_submemory(out, whole, dims, offsets);
    (void)dnnl_memory_desc_destroy(whole);
    return code;
}

dnnl_status_t library_describe_part(dnnl_engine_t engine, const memory_desc *from, const memory_desc *to,
                                    const int64_t *dims, const int64_t *offsets, dnnl_primitive_desc_t *out)
{
    dnnl_memory_desc_t a = NULL, b = NULL;
    dnnl_status_t code = make_part(from, dims, offsets, &a);

    *out = NULL;
    if (code == dnnl_success)
        code = make_part(to, dims, offsets, &b);
    if (code == dnnl_success)
        code = dnnl_reorder_primitive_desc_create(out, a, engine, b, engine, NULL);
    (void)dnnl_memory_desc_destroy(a);
    (void)dnnl_memory_desc_destroy(b);
    return code;
}

library_status onednn_describe_concat(library_engine engine, const memory_desc *y, int axis, const memory_desc *xs,
                                      uint32_t count, library_description *out)
{
    dnnl_memory_desc_t whole = NULL, *parts = calloc(count + 1u, sizeof *parts);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t code = parts == NULL ? dnnl_out_of_memory : make_attr(NULL, &attr);

    *out = NULL;
    if (code == dnnl_success)
        code = make_desc(y, &whole);
    for (uint32_t i = 0; code == dnnl_success && i < count; i++)
        code = make_desc(&xs[i], &parts[i]);
    if (code == dnnl_success)
        code = dnnl_concat_primitive_desc_create(out, engine, whole, (int)count, axis,
                                                 (const_dnnl_memory_desc_t const *)parts, attr);
    (void)dnnl_primitive_attr_destroy(attr);
    (void)dnnl_memory_desc_destroy(whole);
    for (uint32_t i = 0; parts != NULL && i < count; i++)
        (void)dnnl_memory_desc_destroy(parts[i]);
    free(parts);
    return library_status_of(code);
}

/* ------------------------------------------------------------------ running */

void onednn_engine_destroy(library_engine engine)
{
    (void)dnnl_engine_destroy(engine);
    library_opaque_close(destroy_desc);
}

library_status onednn_memory_create(library_engine engine, const memory_desc *md, void *data, library_memory *out)
{
    dnnl_memory_desc_t desc = NULL;
    dnnl_status_t code = make_desc(md, &desc);

    if (code == dnnl_success)
        code = dnnl_memory_create(out, desc, engine, data);
    (void)dnnl_memory_desc_destroy(desc);
    return library_status_of(code);
}

library_status onednn_memory_move(library_memory memory, void *data, library_stream stream)
{
    void *current = NULL;

    (void)stream;
    (void)dnnl_memory_get_data_handle(memory, &current);
    return library_status_of(current == data ? dnnl_success : dnnl_memory_set_data_handle(memory, data));
}
