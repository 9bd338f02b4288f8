#include "cpu/weights/sparse_weights.h"
#include "inlay/extensions.h"
#include "inlay/graph_view.h"
#include "inlay/kit_node.h"
#include "cpu/weights/packs.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(sparse_make_constants, "cpu_sparse");
OPTIONAL_WITH(sparse_pack_entries, "cpu_sparse");
OPTIONAL_WITH(sparse_unfold, "cpu_sparse");
OPTIONAL_WITH(sparse_share_of, "cpu_sparse");

/* With a larger share of nonzero blocks, the dense kernel is as fast. */
#define MOST_SHARE 0.75

static sparse_packed_weights weights_of(const tensor_layout *plain, const void *source)
{
    return (sparse_packed_weights){ .data = source,
                                    .k = plain->dims[1],
                                    .n = plain->dims[0],
                                    .k_step = plain->strides[1],
                                    .n_step = plain->strides[0] };
}

/* The entries of a constant as the operand [k, n] of a GEMM; turned: the GEMM transposes the constant. */
static sparse_entries entries_of(const cpu_constant *constant, bool turned)
{
    const sparse_entries *stored = &constant->stored.entries;
    sparse_entries entries = *stored;

    INLAY_CHECK(constant->kind == CONSTANT_SPARSE);
    entries.upright = !turned;
    entries.k = turned ? stored->n : stored->k;
    entries.n = turned ? stored->k : stored->n;
    return entries;
}

/* cpu_constant.sparse_blocks */
static int64_t count_blocks(const cpu_constant *constant, const sparse_packed_weights *weights, bool turned)
{
    int64_t blocks;

    if (constant->kind == CONSTANT_SPARSE) {
        const sparse_entries entries = entries_of(constant, turned);

        blocks = sparse_entries_count(&entries, MOST_SHARE);
    } else {
        blocks = sparse_count(weights, MOST_SHARE);
    }
    return blocks + (blocks >= 0);
}

int64_t sparse_blocks_of(cpu_build *build, const cpu_op *op)
{
    const inlay_compiled *compiled = build->compiled;
    const uint32_t value = op->in[1], number = compiled->values[value].constant;
    cpu_constant *constant = number != INLAY_NONE ? &compiled->constants[number] : NULL;
    const int64_t *dims = build->dims[value];
    const bool turned = op->product.trans_b;

    if (constant == NULL || sparse_of_cpu() == NULL)
        return -1;
    if (constant->sparse_blocks == 0 && (constant->data != NULL || constant->kind == CONSTANT_SPARSE)) {
        const sparse_packed_weights weights = { .data = constant->data,
                                                .k = dims[turned ? 1 : 0],
                                                .n = dims[turned ? 0 : 1],
                                                .k_step = turned ? 1 : dims[1],
                                                .n_step = turned ? dims[1] : 1 };
        const uint64_t key[] = { constant->content_hash, UINT64_C(0x7370617273650002), (uint64_t)weights.k,
                                 (uint64_t)weights.n, turned };
        int64_t *kept; /* in the host's cache */
        bool known;

        if ((uint64_t)weights.k * (uint64_t)weights.n * sizeof(float) != constant->bytes || weights.k > UINT32_MAX)
            return -1;
        kept = constant->kind == CONSTANT_SPARSE
                   ? NULL
                   : cpu_constant_fact(compiled, constant, key, KIT_COUNT(key), sizeof *kept, &known);
        if (kept != NULL && known) {
            constant->sparse_blocks = *kept;
        } else {
            constant->sparse_blocks = count_blocks(constant, &weights, turned);
            if (kept != NULL) {
                *kept = constant->sparse_blocks;
                compiled->state->packs->keep(compiled->state->host->ctx, compiled->compiling, kept);
            }
        }
        constant->sparse_turned = turned;
    }
    return constant->sparse_blocks > 0 && constant->sparse_turned == turned ? constant->sparse_blocks - 1 : -1;
}

void sparse_layout(const tensor_layout *plain, int64_t count, tensor_layout *layout)
{
    const sparse_packed_weights weights = weights_of(plain, NULL);
    const int64_t lines = count + 1, floats = sparse_pack_floats(&weights, count);
    const int64_t dims[] = { 1, lines, (floats + lines - 1) / lines };

    INLAY_CHECK(plain->rank == 2 && lines > 0);
    layout_plain(layout, 3, dims);
}

/* The number of nonzero blocks of layout layout, read from its dims; -1: not a layout of sparse_layout. */
static int64_t block_count_of(const tensor_layout *plain, const tensor_layout *layout)
{
    const int64_t count = layout->rank == 3 ? layout->dims[1] - 1 : -1;
    tensor_layout same;

    if (count < 0 || plain->rank != 2 || plain->kind != LAYOUT_STRIDED || layout_is_blocked(plain) ||
        plain->type != ELEMENT_FLOAT || layout->type != ELEMENT_FLOAT)
        return -1;
    sparse_layout(plain, count, &same);
    return layout_equal(&same, layout) ? count : -1;
}

bool sparse_pack_weights(const tensor_layout *plain, const void *source, const tensor_layout *layout, void *target)
{
    const int64_t count = block_count_of(plain, layout);
    const sparse_packed_weights weights = weights_of(plain, source);

    return count >= 0 && sparse_pack(&weights, count, target);
}

bool sparse_pack_entries(const inlay_compiled *compiled, const cpu_constant *constant, const tensor_layout *plain,
                         const tensor_layout *layout, void *target)
{
    const int64_t count = block_count_of(plain, layout);
    const sparse_entries entries =
        entries_of(constant, count >= 0 && plain->dims[0] == constant->stored.entries.k && plain->strides[1] == 1 &&
                                 plain->strides[0] == constant->stored.entries.n);

    (void)compiled;
    return count >= 0 && sparse_entries_pack(&entries, count, target);
}

inlay_status sparse_unfold(const inlay_compiled *compiled, const cpu_constant *constant, void *out, inlay_diag *diag)
{
    (void)compiled;
    return sparse_entries_expand(&constant->stored.entries, out)
               ? INLAY_OK
               : inlay_fail(diag, INLAY_INVALID_MODEL, "the indices of a sparse matrix are out of order or range");
}

/* Reads the operands of SparseToDense. false: not a constant float matrix. */
static bool read_entries(const inlay_value_info *values, const inlay_value_info *places, const int64_t *shape,
                         uint32_t rank, sparse_entries *out)
{
    if (values == NULL || places == NULL || values->data == NULL || places->data == NULL ||
        values->dtype != INLAY_FLOAT || places->dtype != INLAY_INT64 || rank != 2 || shape[0] < 1 || shape[1] < 1 ||
        values->data_bytes == 0 || values->data_bytes != places->data_bytes / 2)
        return false;
    *out = (sparse_entries){ .values = values->data,
                             .places = places->data,
                             .k = shape[0],
                             .n = shape[1],
                             .count = (int64_t)(values->data_bytes / sizeof(float)),
                             .upright = true };
    return true;
}

static bool read_node(const inlay_graph *graph, const inlay_node_info *node, sparse_entries *out)
{
    uint32_t rank = 0;
    const int64_t *shape = kit_attr_ints(node, "shape", &rank);

    return shape != NULL && node->input_count == 2 &&
           read_entries(inlay_graph_value(graph, node->inputs[0]), inlay_graph_value(graph, node->inputs[1]), shape,
                        rank, out);
}

bool sparse_parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    sparse_entries entries;

    if (sparse_of_cpu() == NULL)
        return kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX2 or NEON",
                          "this CPU has no kernel for sparse weights");
    if (!read_node(node->graph, node->info, &entries))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it dense", "it is not a constant float matrix");
    op->window.kernel[0] = entries.k;
    op->window.kernel[1] = entries.n;
    return true;
}

void sparse_make_constants(inlay_compiled *compiled)
{
    for (uint32_t op_index = 0; op_index < compiled->op_count; op_index++) {
        cpu_op *op = &compiled->ops[op_index];
        cpu_value *value = op->row->family->kind == CPU_FAMILY_SPARSE ? &compiled->values[op->out[0]] : NULL;
        const cpu_constant *values, *places;

        if (value == NULL)
            continue;
        values = &compiled->constants[compiled->values[op->in[0]].constant];
        places = &compiled->constants[compiled->values[op->in[1]].constant];
        INLAY_CHECK(compiled->values[op->in[0]].constant < compiled->constant_count &&
                    compiled->values[op->in[1]].constant < compiled->constant_count);
        value->constant = compiled->constant_count;
        value->rank = 2;
        memcpy(value->dims, op->window.kernel, 2 * sizeof *value->dims);
        compiled->constants[compiled->constant_count++] = (cpu_constant){
            .kind = CONSTANT_SPARSE,
            .value = value->snapshot,
            .bytes = (uint64_t)(value->dims[0] * value->dims[1]) * sizeof(float),
            .content_hash = values->content_hash == 0 || places->content_hash == 0
                                ? 0
                                : values->content_hash * UINT64_C(0x9e3779b97f4a7c15) + places->content_hash,
            .sources = { values->value, places->value },
            .stored.entries = { values->data, places->data, (int64_t)(values->bytes / sizeof(float)), value->dims[0],
                                value->dims[1], true },
        };
        op->silent = value->output == INLAY_NONE;
    }
}

/* A cache of shares. A sample touches most pages of a matrix, so a cost that is computed after packing would bring the
 * original back into memory. A word holds 48 bits of the content hash and 16 bits for the share, so that no lock is
 * needed. If two matrices have the same slot, they evict each other. */
enum { SHARES = 4096, SHARE_ONE = 1 << 15, SHARE_MASK = 0xffff };
static uint64_t shares[SHARES];

static double share_of(uint64_t content, const sparse_packed_weights *weights)
{
    const uint64_t key = content & ~(uint64_t)SHARE_MASK;
    uint64_t *place = &shares[(key >> 16 ^ (uint64_t)(weights->k_step == 1)) % SHARES];
    uint64_t word = __atomic_load_n(place, __ATOMIC_RELAXED);

    if (content == 0 || (word & ~(uint64_t)SHARE_MASK) != key || word == key) {
        word = key | (uint64_t)(sparse_share(weights) * SHARE_ONE);
        __atomic_store_n(place, word, __ATOMIC_RELAXED);
    }
    return (double)(word & SHARE_MASK) / SHARE_ONE;
}

bool sparse_share_of(const inlay_graph *graph, const inlay_value_info *value, bool upright, double *out_share)
{
    const inlay_node_info *maker =
        value->producer < graph->node_count ? inlay_graph_node(graph, value->producer) : NULL;
    sparse_entries entries;
    sparse_packed_weights weights;

    if (maker != NULL && strcmp(maker->op_type.data, "SparseToDense") == 0 && sparse_of_cpu() != NULL &&
        read_node(graph, maker, &entries)) {
        const cpu_constant constant = { .kind = CONSTANT_SPARSE, .stored.entries = entries };

        entries = entries_of(&constant, !upright);
        *out_share = sparse_entries_share(&entries);
        return true;
    }
    if ((value->flags & INLAY_VALUE_CONSTANT) == 0 || value->data == NULL || value->dtype != INLAY_FLOAT ||
        value->rank != 2 || sparse_of_cpu() == NULL)
        return false;
    weights = (sparse_packed_weights){ .data = value->data,
                                       .k = value->dims[upright ? 0 : 1].value,
                                       .n = value->dims[upright ? 1 : 0].value,
                                       .k_step = upright ? value->dims[1].value : 1,
                                       .n_step = upright ? 1 : value->dims[1].value };
    *out_share = share_of(value->content_hash, &weights);
    return true;
}
