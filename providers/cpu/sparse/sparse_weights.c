#include "sparse/sparse_weights.h"
#include "simd/optional.h"

/* Blocks beyond this share are multiplied as fast with their zeros. */
#define MOST_SHARE 0.75

static sp_weights weights_of(const rg_md *plain, const void *source)
{
    return (sp_weights){ .data = source,
                         .k = plain->dims[1],
                         .n = plain->dims[0],
                         .k_step = plain->strides[1],
                         .n_step = plain->strides[0] };
}

/* The matrix of the product in hand, as it is multiplied. */
static sp_entries entries_of(const rg_constant *k, bool turned)
{
    sp_entries e = k->entries;

    e.upright = !turned;
    e.k = turned ? k->entries.n : k->entries.k;
    e.n = turned ? k->entries.k : k->entries.n;
    return e;
}

int64_t sparse_blocks_of(rg_build *b, const rg_op *op)
{
    const uint32_t value = op->in[1], number = b->c->values[value].constant;
    rg_constant *k = number != INLAY_NONE ? &b->c->constants[number] : NULL;
    const int64_t *dims = b->dims[value];
    sp_weights w;

    if (k == NULL || sparse_of_cpu() == NULL)
        return -1;
    if (k->sparse_blocks == 0 && (k->data != NULL || k->entries.count > 0)) {
        const sp_entries e = entries_of(k, op->trans_b);

        w = (sp_weights){ .data = k->data,
                          .k = dims[op->trans_b ? 1 : 0],
                          .n = dims[op->trans_b ? 0 : 1],
                          .k_step = op->trans_b ? 1 : dims[1],
                          .n_step = op->trans_b ? dims[1] : 1 };
        if ((uint64_t)w.k * (uint64_t)w.n * sizeof(float) != k->bytes || w.k > UINT32_MAX)
            return -1;
        k->sparse_blocks = k->entries.count > 0 ? sparse_entries_count(&e, MOST_SHARE) : sparse_count(&w, MOST_SHARE);
        k->sparse_fours = k->sparse_blocks < 0 && (k->entries.count > 0 ? fours_entries_are(&e) : fours_are(&w));
        k->sparse_blocks += k->sparse_blocks >= 0;
        k->sparse_turned = op->trans_b;
    }
    return k->sparse_blocks > 0 && k->sparse_turned == op->trans_b ? k->sparse_blocks - 1 : -1;
}

bool sparse_fours_of(rg_build *b, const rg_op *op)
{
    const uint32_t number = b->c->values[op->in[1]].constant;

    return sparse_blocks_of(b, op) < 0 && number != INLAY_NONE && b->c->constants[number].sparse_fours &&
           b->c->constants[number].sparse_turned == op->trans_b;
}

/* The first axis of matrices with two of four, by which they are told from those with blocks. */
enum { FOURS = 4 };

void sparse_layout(const rg_md *plain, int64_t count, rg_md *md)
{
    const sp_weights w = weights_of(plain, NULL);
    const bool fours = count < 0;
    const int64_t lines = fours ? (w.n + SP_WIDTH - 1) / SP_WIDTH : count + 1;
    const int64_t floats = fours ? fours_pack_floats(w.k, w.n) / FOURS : sparse_pack_floats(&w, count);
    const int64_t dims[] = { fours ? FOURS : 1, lines, (floats + lines - 1) / lines };

    rg_md_plain(md, 3, dims);
}

enum { OTHER = -2 };

/* How many blocks it has room for, which stands among its axes; -1: it has two of four. OTHER: it is another layout. */
static int64_t room_of(const rg_md *plain, const rg_md *md)
{
    const int64_t count = md->ndims != 3 ? OTHER : md->dims[0] == FOURS ? -1 : md->dims[1] - 1;
    rg_md same;

    if (count == OTHER || plain->ndims != 2 || plain->kind != RG_BLOCKED || rg_md_is_blocked(plain) ||
        plain->data_type != DN_F32 || md->data_type != DN_F32)
        return OTHER;
    sparse_layout(plain, count, &same);
    return rg_md_equal(&same, md) ? count : OTHER;
}

bool sparse_pack_weights(const rg_md *plain, const void *source, const rg_md *md, void *target)
{
    const int64_t count = room_of(plain, md);
    const sp_weights w = weights_of(plain, source);

    return count >= 0 ? sparse_pack(&w, count, target) : count != OTHER && fours_pack(&w, target);
}

/* ------------------------------------------------------------------ constants that the file has as values and places
 */

bool sparse_pack_entries(const rg_constant *k, const rg_md *plain, const rg_md *md, void *target)
{
    const int64_t count = room_of(plain, md);
    const sp_entries e = entries_of(k, count != OTHER && plain->dims[0] == k->entries.k && plain->strides[1] == 1 &&
                                           plain->strides[0] == k->entries.n);

    return count >= 0 ? sparse_entries_pack(&e, count, target) : count != OTHER && fours_entries_pack(&e, target);
}

inlay_status sparse_unfold(const rg_constant *k, void **out, inlay_diag *diag)
{
    if (posix_memalign(out, 64, k->bytes + 64) != 0) {
        *out = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "a constant of %llu bytes", (unsigned long long)k->bytes);
    }
    return sparse_entries_expand(&k->entries, *out)
               ? INLAY_OK
               : inlay_fail(diag, INLAY_INVALID_MODEL, "the indices of a sparse matrix are out of order or range");
}

/* What SparseToDense reads: the matrix, row by row as the file has it. false: it is no constant matrix. */
static bool read_entries(const inlay_value_info *values, const inlay_value_info *places, const int64_t *shape,
                         uint32_t rank, sp_entries *out)
{
    if (values == NULL || places == NULL || values->data == NULL || places->data == NULL ||
        values->dtype != INLAY_FLOAT || places->dtype != INLAY_INT64 || rank != 2 || shape[0] < 1 || shape[1] < 1 ||
        values->data_bytes == 0 || values->data_bytes != places->data_bytes / 2)
        return false;
    *out = (sp_entries){ .values = values->data,
                         .places = places->data,
                         .k = shape[0],
                         .n = shape[1],
                         .count = (int64_t)(values->data_bytes / sizeof(float)),
                         .upright = true };
    return true;
}

static bool read_node(const inlay_graph *graph, const inlay_node_info *n, sp_entries *out)
{
    uint32_t rank = 0;
    const int64_t *shape = kit_attr_ints(n, "shape", &rank);

    return shape != NULL && n->input_count == 2 &&
           read_entries(inlay_graph_value(graph, n->inputs[0]), inlay_graph_value(graph, n->inputs[1]), shape, rank,
                        out);
}

static bool parse(const kit_node *node, rg_op *op, kit_refusal *why)
{
    sp_entries e;

    if (sparse_of_cpu() == NULL)
        return kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX2 or NEON", "there are no loops for sparse weights");
    if (!read_node(node->graph, node->info, &e))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it dense", "it is no constant matrix of floats");
    op->kernel[0] = e.k;
    op->kernel[1] = e.n;
    return true;
}

void sparse_find(inlay_compiled *c)
{
    for (uint32_t o = 0; o < c->op_count; o++) {
        rg_op *op = &c->ops[o];
        rg_value *v = op->row->family == &rg_sparse ? &c->values[op->out[0]] : NULL;
        const rg_constant *values, *places;

        if (v == NULL)
            continue;
        values = &c->constants[c->values[op->in[0]].constant];
        places = &c->constants[c->values[op->in[1]].constant];
        v->constant = c->constant_count;
        v->rank = 2;
        memcpy(v->dims, op->kernel, 2 * sizeof *v->dims);
        c->constants[c->constant_count++] = (rg_constant){
            .value = v->snapshot,
            .bytes = (uint64_t)(v->dims[0] * v->dims[1]) * sizeof(float),
            .content_hash = values->content_hash == 0 || places->content_hash == 0
                                ? 0
                                : values->content_hash * UINT64_C(0x9e3779b97f4a7c15) + places->content_hash,
            .sources = { values->value, places->value },
            .entries = { values->data, places->data, (int64_t)(values->bytes / sizeof(float)), v->dims[0], v->dims[1],
                         true },
        };
        op->silent = v->output == INLAY_NONE;
    }
}

/* Somebody else wants it dense, in each run. */
static inlay_status lower(rg_build *b, const rg_group *group)
{
    rg_place y;
    inlay_status status = rg_read_plain(b, group->out, &y);

    return status == INLAY_OK ? rg_set_place(b, group->out, &y) : status;
}

const rg_family rg_sparse = { "sparse weights", parse, lower };

/* ------------------------------------------------------------------ prices */

/* Shares that were found already: a sample touches most pages of its matrix, and who asks for prices after the weights
 * were packed would bring all originals back into memory. A word is 48 bits of the hash of the contents and the share
 * in 16, so that no lock is needed; two matrices at one place are sampled in turns. */
enum { SHARES = 4096, SHARE_ONE = 1 << 15, SHARE_FOURS, SHARE_MASK = 0xffff };
static uint64_t shares[SHARES];

static double fours_share(double elements, int64_t k)
{
    return elements <= (double)FR_MOST_ROWS * (double)k ? FR_SHARE : 1;
}

static double share_of(uint64_t content, const sp_weights *w, double fours)
{
    const uint64_t key = content & ~(uint64_t)SHARE_MASK;
    uint64_t *place = &shares[(key >> 16 ^ (uint64_t)(w->k_step == 1)) % SHARES];
    uint64_t word = __atomic_load_n(place, __ATOMIC_RELAXED);

    if (content == 0 || (word & ~(uint64_t)SHARE_MASK) != key || word == key) {
        const double share = sparse_share(w);

        word = key | (uint64_t)(share < 1 ? share * SHARE_ONE : fours_are(w) ? SHARE_FOURS : SHARE_ONE);
        __atomic_store_n(place, word, __ATOMIC_RELAXED);
    }
    return (word & SHARE_MASK) == SHARE_FOURS ? fours : (double)(word & SHARE_MASK) / SHARE_ONE;
}

bool sparse_share_of(const inlay_graph *graph, const inlay_value_info *v, bool upright, double elements,
                     double *out_share)
{
    const inlay_node_info *maker = v->producer < graph->node_count ? inlay_graph_node(graph, v->producer) : NULL;
    sp_entries e;
    sp_weights w;

    if (maker != NULL && strcmp(maker->op_type.data, "SparseToDense") == 0 && sparse_of_cpu() != NULL &&
        read_node(graph, maker, &e)) {
        const rg_constant k = { .entries = e };

        e = entries_of(&k, !upright);
        *out_share = sparse_entries_share(&e);
        if (*out_share == 1 && fours_entries_are(&e))
            *out_share = fours_share(elements, e.k);
        return true;
    }
    if ((v->flags & INLAY_VALUE_CONSTANT) == 0 || v->data == NULL || v->dtype != INLAY_FLOAT || v->rank != 2 ||
        sparse_of_cpu() == NULL)
        return false;
    w = (sp_weights){ .data = v->data,
                      .k = v->dims[upright ? 0 : 1].value,
                      .n = v->dims[upright ? 1 : 0].value,
                      .k_step = upright ? v->dims[1].value : 1,
                      .n_step = upright ? 1 : v->dims[1].value };
    *out_share = share_of(v->content_hash, &w, fours_share(elements, w.k));
    return true;
}

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(sparse_find, "rg_sparse");
OPTIONAL_WITH(sparse_pack_entries, "rg_sparse");
OPTIONAL_WITH(sparse_unfold, "rg_sparse");
OPTIONAL_WITH(sparse_share_of, "rg_sparse");
